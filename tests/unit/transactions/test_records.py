from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.errors import MalformedFrame
from millstream.topic_partition import TopicPartition
from millstream.transactions.records import _VALUE, decode_key, decode_value, encode_key, encode_record, encode_tombstone
from millstream.transactions.transaction import State, Transaction
from millstream.wire.message_reader import Budget, message_reader
from millstream.wire.message_writer import message_writer
from millstream.wire.schema import schema_at

WHOLE = Transaction(
    "copier",
    7,
    3,
    60_000,
    State.PREPARE_COMMIT,
    frozenset({TopicPartition("a", 1), TopicPartition("a", 0), TopicPartition("b", 5)}),
    start_ms=10,
    update_ms=20,
    previous_producer_id=6,
    next_producer_id=8,
    client_version=2,
)


@pytest.mark.parametrize("state", [state for state in State if state is not State.EMPTY])
def test_a_record_is_read_back(state: State) -> None:
    transaction = WHOLE._replace(state=state)
    key, value = encode_record(transaction)
    assert value is not None
    assert decode_key(key) == "copier"
    assert decode_value("copier", value) == transaction


@pytest.mark.parametrize("transaction", [WHOLE, WHOLE._replace(partitions=frozenset()), Transaction("id", 1, 0, 1000, update_ms=5)])
def test_a_value_has_the_bytes_of_its_layout(transaction: Transaction) -> None:
    _, value = encode_record(transaction)
    assert value is not None
    schema = schema_at(_VALUE, 1, is_flexible=True)
    fields = message_reader(schema)(memoryview(value), 2, Budget(100))[0]
    assert value[2:] == message_writer(schema)(fields)


def test_an_empty_transaction_has_no_partitions_and_only_tags_that_say_something() -> None:
    transaction = Transaction("id", 1, 0, 1000, update_ms=5)
    key, value = encode_record(transaction)
    assert key.hex() == "0000" + "0002" + b"id".hex()
    assert value is not None
    assert value.hex() == "0001" + "0000000000000001" + "0000" + "000003e8" + "00" + "00" + "0000000000000005" + "f" * 16 + "00"
    assert decode_value("id", value) == transaction


def test_version_0_is_read() -> None:
    """As brokers before transaction.version 1 wrote it."""
    value = bytes.fromhex("0000" + "0000000000000007" + "0003" + "0000ea60" + "01" + "00000001" + "0001" + "61" + "00000002" + "00000000"
                          + "00000001" + "0000000000000014" + "000000000000000a")  # fmt: skip
    partitions = frozenset({TopicPartition("a", 0), TopicPartition("a", 1)})
    assert decode_value("copier", value) == Transaction("copier", 7, 3, 60_000, State.ONGOING, partitions, start_ms=10, update_ms=20)


def test_a_tombstone_has_no_value() -> None:
    assert encode_tombstone("copier") == (encode_key("copier"), None)


def test_other_kinds_of_keys_are_not_known() -> None:
    assert decode_key(b"\0\1\0\0") is None


@pytest.mark.parametrize("value", ["", "00", "0002" + "00" * 40, "0000" + "00" * 14 + "09" + "ffffffff" + "00" * 16])
def test_what_makes_no_sense_is_refused(value: str) -> None:
    with pytest.raises(MalformedFrame):
        decode_value("copier", bytes.fromhex(value))


@given(st.binary(max_size=80))
def test_any_bytes_are_read_or_refused(value: bytes) -> None:
    for version in (b"\0\0", b"\0\1"):
        with suppress(MalformedFrame):
            decode_value("copier", version + value)
