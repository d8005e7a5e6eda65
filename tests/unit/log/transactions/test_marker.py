import struct

import pytest

from millstream.log.transactions.marker import Marker, encode_marker, read_marker
from millstream.wire.batch import CONTROL, TRANSACTIONAL, read_header
from millstream.wire.compression import Codec
from millstream.wire.records import ProducerStamp, Record, encode_batch
from tests.batches import decode_records


@pytest.mark.parametrize("is_commit", [False, True])
def test_a_marker_has_kafkas_bytes_and_is_read_back(is_commit: bool) -> None:
    batch = encode_marker(Marker(is_commit, 5), ProducerStamp(7, 3), timestamp=1000)
    header = read_header(batch)
    assert header.attributes == CONTROL | TRANSACTIONAL
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.record_count) == (7, 3, -1, 1)
    [record] = decode_records(batch)
    assert (record.key, record.value) == (struct.pack(">hh", 0, is_commit), struct.pack(">hi", 0, 5))
    assert read_marker(batch) == Marker(is_commit, 5)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
@pytest.mark.parametrize("more", [b"", b"of a later version"])
def test_a_marker_of_another_shape_is_read_as_well(codec: Codec, more: bytes) -> None:
    record = Record(0, 1, struct.pack(">hh", 0, 1) + more, struct.pack(">hi", 0, 5) + more)
    assert read_marker(encode_batch([record], flags=CONTROL | TRANSACTIONAL, codec=codec)) == Marker(True, 5)


@pytest.mark.parametrize(
    ("key", "value"),
    [(None, b"\0" * 6), (b"\0\0\0\1", None), (b"\0\0", b"\0" * 6), (b"\0\0\0\1", b"\0\0"), (b"\0\0\0\2", b"\0" * 6)],
)
def test_a_control_record_that_is_no_marker_says_nothing(key: bytes | None, value: bytes | None) -> None:
    assert read_marker(encode_batch([Record(0, 1, key, value)], flags=CONTROL)) is None


def test_a_control_batch_without_records_says_nothing() -> None:
    assert read_marker(encode_batch([], flags=CONTROL | TRANSACTIONAL)) is None
