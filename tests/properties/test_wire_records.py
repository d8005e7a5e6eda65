from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.errors import CorruptMessage, KafkaError
from millstream.wire.batch import CRC_START, compute_crc, read_header
from millstream.wire.compression import Codec, compress, decompress
from millstream.wire.records import Record, decode_records, encode_batch, split_batches
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
    assert [bytes(batch) for batch in split_batches(whole)] == encoded
    assert [bytes(batch) for batch in split_batches(whole + encode_batch([Record(0, 0, None, None)])[:-cut])] == encoded


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
        for batch in split_batches(garbage):
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
