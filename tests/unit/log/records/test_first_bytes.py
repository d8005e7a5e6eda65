"""What the first bytes of the records tell: what producers write is let through, what cannot be read by anybody is not."""

import os
import zlib

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.errors import InvalidRecord
from millstream.log.records.first_bytes import check_first_bytes
from millstream.wire.batch import read_header
from millstream.wire.compression import Codec, compress
from tests.batches import encode_block, encode_record, varint

REAL_CODECS = [codec for codec in Codec if codec is not Codec.NONE]
VALUES = st.lists(st.none() | st.binary(max_size=300) | st.integers(0, 40_000).map(bytes), min_size=1, max_size=40)


def block(records: bytes, *, count: int = 2, codec: int = 0) -> bytes:
    return encode_block(records, count, timestamp=0, max_timestamp=0, attributes=codec)


def check(batch: bytes) -> None:
    for given_as in (batch, memoryview(batch), bytearray(batch)):
        check_first_bytes(given_as, read_header(batch), size_bytes=len(batch))


@given(VALUES)
def test_what_producers_write_is_let_through(values: list[bytes | None]) -> None:
    records = b"".join(encode_record(number, value) for number, value in enumerate(values))
    for codec in Codec:
        check(block(compress(records, codec), count=len(values), codec=codec))
    check(block(bytes(cramjam.snappy.compress_raw(records)), count=len(values), codec=Codec.SNAPPY))
    check(block(zlib.compress(records, 1, 31), count=len(values), codec=Codec.GZIP))


@pytest.mark.parametrize("codec", REAL_CODECS)
def test_records_that_are_not_compressed_as_they_say_are_refused(codec: Codec) -> None:
    records = b"".join(encode_record(number, os.urandom(50)) for number in range(10))
    others = [compress(records, other) for other in Codec if other is not codec]
    for wrong in (*others, b"\xff" * 300, bytes(300), b"", compress(records, codec)[:2]):
        with pytest.raises(InvalidRecord, match=f"compressed by {codec.name.lower()}, and they are not"):
            check(block(wrong, codec=codec))


@pytest.mark.parametrize(
    "records",
    [
        b"\xff" * 300,
        b"",
        encode_record(0, b"v") + b"\x00" * 4,
        varint(-9) + bytes(30),
        varint(200) + bytes(100),
        varint(9_000) + bytes(100),
        varint(3_000_000) + bytes(100),
        b"\x80",
    ],
)
def test_records_that_cannot_be_are_refused(records: bytes) -> None:
    with pytest.raises(InvalidRecord):
        check(block(records))


@pytest.mark.parametrize("size", [0, 50, 5_000, 3_000_000])
def test_a_single_record_has_to_fill_its_batch(size: int) -> None:
    record = encode_record(0, bytes(size))
    check(block(record, count=1))
    for wrong in (record + b"\x00", record[:-1]):
        with pytest.raises(InvalidRecord):
            check(block(wrong, count=1))


@given(st.binary(max_size=80), st.integers(1, 10), st.integers(0, 4))
def test_any_bytes_are_let_through_or_refused(records: bytes, count: int, codec: int) -> None:
    try:
        check(block(records, count=count, codec=codec))
    except InvalidRecord:
        return
