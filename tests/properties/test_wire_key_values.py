from contextlib import suppress

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from millstream.errors import InvalidRecord, KafkaError
from millstream.wire.batch import HEADER_SIZE
from millstream.wire.compression import Codec
from millstream.wire.key_values import KeyValue, batch_of, decode_key_values, encode_key_values
from millstream.wire.primitives import zigzag_varint
from millstream.wire.records import Record, decode_records, encode_batch

pairs = st.lists(st.tuples(st.binary(max_size=2000), st.none() | st.binary(max_size=300)), min_size=1, max_size=80)


@given(pairs=pairs, timestamp=st.integers(0, 2**41), codec=st.sampled_from(Codec))
def test_a_batch_is_written_as_any_other_and_read_again(pairs: list[KeyValue], timestamp: int, codec: Codec) -> None:
    batch = encode_key_values(pairs, timestamp=timestamp, codec=codec)
    records = [Record(number, timestamp, key, value) for number, (key, value) in enumerate(pairs)]
    assert batch == encode_batch(records, codec=codec, base_offset=0)
    assert decode_key_values(batch) == pairs


@given(
    records=st.lists(
        st.builds(
            Record,
            offset=st.just(0),
            timestamp=st.integers(0, 2**41),
            key=st.none() | st.binary(max_size=20),
            value=st.none() | st.binary(max_size=20),
            headers=st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=2).map(tuple),
        ),
        max_size=10,
    ),
    gap=st.integers(1, 100),
)
def test_times_headers_and_gaps_are_passed_over(records: list[Record], gap: int) -> None:
    spread = [record._replace(offset=number * gap) for number, record in enumerate(records)]
    assert decode_key_values(encode_batch(spread, base_offset=0)) == [(record.key, record.value) for record in records]


@given(pairs=pairs, data=st.data())
def test_only_errors_of_records_escape_from_bytes_of_the_outside(pairs: list[KeyValue], data: st.DataObject) -> None:
    batch = bytearray(encode_key_values(pairs, timestamp=0))
    for position in data.draw(st.lists(st.integers(57, len(batch) - 1), min_size=1, max_size=4)):
        batch[position] = data.draw(st.integers(0, 255))
    batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
    with suppress(KafkaError):
        decode_key_values(batch)


@given(pairs=pairs, data=st.data())
def test_a_damaged_batch_that_both_readers_take_is_the_same_to_both(pairs: list[KeyValue], data: st.DataObject) -> None:
    batch = bytearray(encode_key_values(pairs[:3], timestamp=0))
    position = data.draw(st.integers(HEADER_SIZE, len(batch) - 1))
    batch[position] = data.draw(st.integers(0, 255))
    batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
    try:
        found = decode_key_values(batch)
    except KafkaError:
        return
    with suppress(InvalidRecord):
        assert found == [(record.key, record.value) for record in decode_records(batch)]


@pytest.mark.parametrize("size", [-2, -3, -(2**31)])
@pytest.mark.parametrize("field", ["key", "value"])
def test_only_null_has_a_negative_size(field: str, size: int) -> None:
    wrong = zigzag_varint(size)
    body = b"\x00\x00\x00" + (wrong + b"\x02v" if field == "key" else b"\x02k" + wrong) + b"\x00"
    batch = batch_of(zigzag_varint(len(body)) + body, count=1, timestamp=0)
    with pytest.raises(InvalidRecord):
        decode_key_values(batch)
    with pytest.raises(InvalidRecord):
        list(decode_records(batch))
