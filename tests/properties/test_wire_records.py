from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.errors import CorruptMessage, InvalidRecord, KafkaError
from millstream.wire.batch import CRC_START, HEADER_SIZE, compute_crc, read_header, split_batches
from millstream.wire.compression import Codec, compress, decompress
from millstream.wire.primitives import zigzag_varint
from millstream.wire.records import (
    KeyValue,
    Record,
    batch_of,
    decode_key_values,
    decode_records,
    encode_batch,
    encode_key_values,
    records_at,
    walk_records,
)
from tests.unit.wire.recompression import recompress

contents = st.none() | st.binary(max_size=20) | st.binary(min_size=60, max_size=200)
headers = st.lists(st.tuples(st.text(max_size=8), contents), max_size=3).map(tuple)


@st.composite
def record_lists(draw: st.DrawFn) -> list[Record]:
    offset = draw(st.integers(0, 2**40))
    records = []
    for _ in range(draw(st.integers(1, 5))):
        records.append(Record(offset, draw(st.integers(0, 2**42)), draw(contents), draw(contents), draw(headers)))
        offset += draw(st.integers(1, 1000))
    return records


@settings(max_examples=60)
@given(records=record_lists(), codec=st.sampled_from(Codec), other=st.sampled_from(Codec))
def test_records_survive_every_codec_and_recompression(records: list[Record], codec: Codec, other: Codec) -> None:
    batch = encode_batch(records, codec=codec)
    header = read_header(batch)
    assert header.codec == codec
    assert header.crc == compute_crc(batch)
    assert (header.base_offset, header.last_offset) == (records[0].offset, records[-1].offset)
    assert header.max_timestamp == max(record.timestamp for record in records)
    assert list(decode_records(batch)) == records
    again = recompress(batch, other)
    assert read_header(again).codec == other
    assert list(decode_records(again)) == records


@settings(max_examples=60)
@given(batches=st.lists(record_lists(), max_size=3), cut=st.integers(1, 60))
def test_a_fetched_run_of_batches_is_split_without_its_cut_off_end(batches: list[list[Record]], cut: int) -> None:
    encoded = [encode_batch(records) for records in batches]
    whole = b"".join(encoded)
    assert [bytes(batch) for _, batch in split_batches(whole)] == encoded
    assert [bytes(batch) for _, batch in split_batches(whole + encode_batch([Record(0, 0, None, None)])[:-cut])] == encoded


@settings(max_examples=300)
@given(records=record_lists(), codec=st.sampled_from(Codec), data=st.data())
def test_a_batch_with_a_right_crc_and_a_wrong_inside_is_only_ever_a_kafka_error(
    records: list[Record], codec: Codec, data: st.DataObject
) -> None:
    batch = bytearray(encode_batch(records, codec=codec))
    for _ in range(data.draw(st.integers(1, 3))):
        batch[data.draw(st.integers(CRC_START, len(batch) - 1))] = data.draw(st.integers(0, 255))
    batch[17:21] = compute_crc(batch).to_bytes(4, "big")
    with suppress(KafkaError):
        list(decode_records(batch, limit=100_000))


@settings(max_examples=100)
@given(records=record_lists(), data=st.data())
def test_any_changed_byte_under_the_crc_is_corruption(records: list[Record], data: st.DataObject) -> None:
    batch = bytearray(encode_batch(records))
    batch[data.draw(st.integers(CRC_START, len(batch) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(CorruptMessage):
        list(decode_records(batch))


@settings(max_examples=200)
@given(garbage=st.binary(max_size=200))
def test_garbage_in_place_of_a_batch_is_only_ever_a_kafka_error(garbage: bytes) -> None:
    with suppress(KafkaError):
        for _, batch in split_batches(garbage):
            list(decode_records(batch))
        list(decode_records(garbage))


@settings(max_examples=200)
@given(codec=st.sampled_from(Codec), content=st.binary(max_size=300), damage=st.binary(max_size=20), data=st.data())
def test_damaged_compressed_bytes_never_yield_more_than_the_limit(codec: Codec, content: bytes, damage: bytes, data: st.DataObject) -> None:
    compressed = compress(content * 10, codec)
    position = data.draw(st.integers(0, len(compressed)))
    damaged = compressed[:position] + damage + compressed[position + len(damage) :]
    with suppress(KafkaError):
        assert len(decompress(damaged, codec, limit=5_000)) <= max(5_000, len(damaged))


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
    batch[17:21] = compute_crc(batch).to_bytes(4, "big")
    with suppress(KafkaError):
        decode_key_values(batch)


@given(pairs=pairs, data=st.data())
def test_a_damaged_batch_that_both_readers_take_is_the_same_to_both(pairs: list[KeyValue], data: st.DataObject) -> None:
    batch = bytearray(encode_key_values(pairs[:3], timestamp=0))
    position = data.draw(st.integers(HEADER_SIZE, len(batch) - 1))
    batch[position] = data.draw(st.integers(0, 255))
    batch[17:21] = compute_crc(batch).to_bytes(4, "big")
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


@given(records=record_lists(), data=st.data())
def test_records_are_found_by_their_numbers(records: list[Record], data: st.DataObject) -> None:
    numbers = sorted(data.draw(st.sets(st.integers(0, len(records) - 1))))
    batch = encode_batch(records)
    ends = [0, *(walked[-1] for walked in walk_records(batch[HEADER_SIZE:], read_header(batch)))]
    expected = b"".join(batch[HEADER_SIZE + ends[number] : HEADER_SIZE + ends[number + 1]] for number in numbers)
    found, largest_delta = records_at(batch[HEADER_SIZE:], numbers)
    assert found == expected
    if numbers:
        assert read_header(batch).base_timestamp + largest_delta == max(records[number].timestamp for number in numbers)
