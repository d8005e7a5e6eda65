"""AddPartitionsToTxnRequest (key 24), versions 0 to 5. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class AddPartitionsToTxnTopic(NamedTuple):
    """A part of it."""

    name: str = ""
    partitions: tuple[int, ...] = ()


ADD_PARTITIONS_TO_TXN_TOPIC: Final = Layout(
    AddPartitionsToTxnTopic,
    (
        Field("name", "string", 0, 5),
        Field("partitions", "int32", 0, 5, default=(), is_array=True),
    ),
)


class AddPartitionsToTxnTransaction(NamedTuple):
    """A part of it."""

    transactional_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    verify_only: bool = False
    topics: tuple[AddPartitionsToTxnTopic, ...] = ()


ADD_PARTITIONS_TO_TXN_TRANSACTION: Final = Layout(
    AddPartitionsToTxnTransaction,
    (
        Field("transactional_id", "string", 4, 5),
        Field("producer_id", "int64", 4, 5),
        Field("producer_epoch", "int16", 4, 5),
        Field("verify_only", "bool", 4, 5, default=False),
        Field("topics", STRUCTURE, 4, 5, is_array=True, nested=ADD_PARTITIONS_TO_TXN_TOPIC),
    ),
)


class AddPartitionsToTxnRequest(NamedTuple):
    """The message."""

    transactions: tuple[AddPartitionsToTxnTransaction, ...] = ()
    v3_and_below_transactional_id: str = ""
    v3_and_below_producer_id: int = 0
    v3_and_below_producer_epoch: int = 0
    v3_and_below_topics: tuple[AddPartitionsToTxnTopic, ...] = ()


LAYOUT: Final = Layout(
    AddPartitionsToTxnRequest,
    (
        Field("transactions", STRUCTURE, 4, 5, is_array=True, nested=ADD_PARTITIONS_TO_TXN_TRANSACTION),
        Field("v3_and_below_transactional_id", "string", 0, 3),
        Field("v3_and_below_producer_id", "int64", 0, 3),
        Field("v3_and_below_producer_epoch", "int16", 0, 3),
        Field("v3_and_below_topics", STRUCTURE, 0, 3, is_array=True, nested=ADD_PARTITIONS_TO_TXN_TOPIC),
    ),
)
