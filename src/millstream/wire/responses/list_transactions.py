"""ListTransactionsResponse (key 66), versions 0 to 2. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class TransactionState(NamedTuple):
    """A part of it."""

    transactional_id: str = ""
    producer_id: int = 0
    transaction_state: str = ""


TRANSACTION_STATE: Final = Layout(
    TransactionState,
    (
        Field("transactional_id", "string", 0, 2),
        Field("producer_id", "int64", 0, 2),
        Field("transaction_state", "string", 0, 2),
    ),
)


class ListTransactionsResponse(NamedTuple):
    """The message."""

    throttle_time_ms: int = 0
    error_code: int = 0
    unknown_state_filters: tuple[str, ...] = ()
    transaction_states: tuple[TransactionState, ...] = ()


LAYOUT: Final = Layout(
    ListTransactionsResponse,
    (
        Field("throttle_time_ms", "timedelta_i32", 0, 2, default=0),
        Field("error_code", "error_code", 0, 2, default=0),
        Field("unknown_state_filters", "string", 0, 2, default=(), is_array=True),
        Field("transaction_states", STRUCTURE, 0, 2, is_array=True, nested=TRANSACTION_STATE),
    ),
)
