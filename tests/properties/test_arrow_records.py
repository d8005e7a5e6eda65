"""Records in columns are what our own reader of batches reads: any records, slices, codecs. Damaged bytes are reported, never believed."""

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.arrow.kernels.record_kernel import WITH_HEADERS, WITH_KEY, WITH_VALUE, find_next_offset
from millstream.arrow.range_decoder import RangeDecoder
from millstream.arrow.record_buffers import RecordBuffers
from millstream.errors import CorruptMessage
from millstream.topic_partition import TopicPartition
from millstream.wire.batch import CONTROL, LOG_APPEND_TIME, TRANSACTIONAL, compute_crc, read_header
from millstream.wire.compression import Codec
from millstream.wire.records import ProducerStamp, Record, encode_batch

pytestmark = pytest.mark.timeout(300)  # the kernel is compiled by the first test, on a busy machine

PLACE = TopicPartition("topic", 3)
EVERYTHING = WITH_KEY | WITH_VALUE | WITH_HEADERS
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
MOST_MS = 4_000_000_000_000

contents = st.none() | st.binary(max_size=30)
headers = st.lists(st.tuples(st.text(max_size=8), contents), max_size=3).map(tuple)
parts = st.tuples(st.integers(0, MOST_MS), contents, contents, headers)


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[Record], bytes]:
    """Records with gaps between their offsets, in batches of any codec, as a log has them."""
    records: list[Record] = []
    log = b""
    offset = draw(st.integers(0, 100))
    for _ in range(draw(st.integers(1, 4))):
        batch = []
        for timestamp, key, value, entries in draw(st.lists(parts, min_size=1, max_size=6)):
            batch.append(Record(offset, timestamp, key, value, entries))
            offset += draw(st.integers(1, 3))
        log += encode_batch(batch, codec=draw(st.sampled_from(Codec)))
        records += batch
    return records, log


def decode(log: bytes, *, start: int = 0, end: int = 1 << 60, aborted: list[tuple[int, int]] | None = None, **more: Any) -> list[Record]:
    decoder = RangeDecoder(PLACE, start=start, end=end, wanted=EVERYTHING, **more)
    gathered = [*decoder.decode(memoryview(log), aborted or ()), decoder.finish()]
    return [record for buffers in gathered if buffers is not None for record in rows(buffers)]


def rows(buffers: RecordBuffers) -> list[Record]:
    columns = (
        buffers.offsets().tolist(),
        (buffers.timestamps_us() // 1000).tolist(),
        buffers.keys().to_arrow().to_pylist(),
        buffers.values().to_arrow().to_pylist(),
        [tuple((entry["key"], entry["value"]) for entry in entries or ()) for entries in buffers.headers(HEADERS).to_pylist()],
    )
    return [Record(*fields) for fields in zip(*columns, strict=True)]


@settings(max_examples=150)
@given(logs(), st.data())
def test_a_slice_has_exactly_the_records_between_its_offsets(log: tuple[list[Record], bytes], data: st.DataObject) -> None:
    records, content = log
    edges = st.integers(0, records[-1].offset + 2)
    start, end = sorted((data.draw(edges), data.draw(edges)))
    assert decode(content, start=start, end=end) == [record for record in records if start <= record.offset < end]
    assert find_next_offset(np.frombuffer(content, np.uint8)) == records[-1].offset + 1


@given(logs(), st.data())
def test_a_batch_that_is_cut_off_is_left_for_the_next_fetch(log: tuple[list[Record], bytes], data: st.DataObject) -> None:
    records, content = log
    decoder = RangeDecoder(PLACE, start=0, end=1 << 60, wanted=EVERYTHING)
    cut = data.draw(st.integers(0, len(content) - 1))
    before = [record for buffers in [*decoder.decode(memoryview(content[:cut])), decoder.finish()] if buffers for record in rows(buffers)]
    assert before == [record for record in records if record.offset < decoder.next_offset]
    after = [record for buffers in [*decoder.decode(memoryview(content)), decoder.finish()] if buffers for record in rows(buffers)]
    assert before + after == records


@settings(max_examples=300)
@given(logs(), st.data())
def test_damage_behind_the_crc_is_reported_or_harmless(log: tuple[list[Record], bytes], data: st.DataObject) -> None:
    """Batches that a careless or hostile producer wrote with a right CRC: any byte of them may be anything."""
    _, content = log
    damaged = bytearray(content)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = decode(bytes(damaged), check_crcs=False)
    except CorruptMessage as error:
        assert "topic-3" in str(error)  # noqa: PT017 -- most damage is reported, some is not damage
    else:
        assert sum(len(record.value or b"") for record in found) <= 128 * 1024 * 1024


def test_a_wrong_crc_is_reported_with_its_place() -> None:
    log = bytearray(encode_batch([Record(7, 1, None, b"value")]))
    log[-3] ^= 1
    with pytest.raises(CorruptMessage, match=r"^the batch at offset 7 of topic-3 cannot be read: its CRC is wrong"):
        decode(bytes(log))


@given(st.binary(max_size=300))
def test_bytes_that_are_no_batches_do_no_harm(content: bytes) -> None:
    try:
        decode(content, check_crcs=False)
    except CorruptMessage:
        return


def test_the_time_of_the_broker_holds_for_all_records_of_its_batch() -> None:
    log = encode_batch([Record(0, 5, None, b"a"), Record(1, 6, None, b"b")], flags=LOG_APPEND_TIME, max_timestamp=99)
    assert [record.timestamp for record in decode(log)] == [99, 99]


def marker(offset: int, producer_id: int, *, is_commit: bool) -> bytes:
    key = b"\x00\x00\x00\x01" if is_commit else b"\x00\x00\x00\x00"
    return encode_batch([Record(offset, 1, key, bytes(6))], flags=CONTROL | TRANSACTIONAL, producer=ProducerStamp(producer_id, 0, -1))


def transactional(offset: int, producer_id: int, value: bytes) -> bytes:
    return encode_batch([Record(offset, 1, None, value)], flags=TRANSACTIONAL, producer=ProducerStamp(producer_id, 0, offset))


def test_markers_and_aborted_transactions_are_no_rows() -> None:
    log = b"".join(
        [
            transactional(0, 7, b"aborted"),
            transactional(1, 8, b"committed"),
            encode_batch([Record(2, 1, None, b"plain")]),
            transactional(3, 7, b"aborted too"),
            marker(4, 7, is_commit=False),
            transactional(5, 7, b"committed later"),
            marker(6, 8, is_commit=True),
            marker(7, 7, is_commit=True),
        ]
    )
    assert [record.value for record in decode(log, aborted=[(7, 0)])] == [b"committed", b"plain", b"committed later"]
    everything = [b"aborted", b"committed", b"plain", b"aborted too", b"committed later"]
    assert [record.value for record in decode(log)] == everything
    decoder = RangeDecoder(PLACE, start=0, end=8, wanted=EVERYTHING)
    assert list(decoder.decode(memoryview(log), [(7, 0)])) == []
    assert (decoder.next_offset, decoder.is_done) == (8, True)


def test_an_old_format_is_reported() -> None:
    log = bytearray(encode_batch([Record(0, 1, None, b"value")]))
    log[16] = 1
    with pytest.raises(CorruptMessage, match=r"it has format 1, from before Kafka 0\.11"):
        decode(bytes(log))


def test_many_small_batches_are_gathered_and_large_ones_are_handed_on_alone() -> None:
    small = b"".join(encode_batch([Record(offset, 1, b"k", b"v")]) for offset in range(10_000))
    decoder = RangeDecoder(PLACE, start=0, end=10_001, wanted=EVERYTHING)
    assert list(decoder.decode(memoryview(small))) == []
    big = encode_batch([Record(10_000, 1, b"k", random.Random(1).randbytes(9_000_000))], codec=Codec.LZ4)
    assert [buffers.rows for buffers in decoder.decode(memoryview(big))] == [10_000]
    last = decoder.finish()
    assert last is not None
    assert last.rows == 1
    assert decoder.is_done


def test_the_size_of_a_batch_is_not_believed() -> None:
    log = bytearray(encode_batch([Record(0, 1, None, b"value")]))
    log[8:12] = (10).to_bytes(4)
    with pytest.raises(CorruptMessage, match="the size of a batch does not fit its header"):
        decode(bytes(log))
    header = read_header(bytes(log))
    assert compute_crc(bytes(log)) == header.crc
