import errno
import os
import zlib
from random import Random

import cramjam
import pytest

from millstream.errors import CorruptMessage, UnsupportedCompressionType
from millstream.wire.compression import MAX_GZIP_STREAMS, MAX_SNAPPY_BLOCKS, Codec, codec_of, compress, decompress

REAL_CODECS = [codec for codec in Codec if codec is not Codec.NONE]
TEXT = b"the quick brown fox jumps over the lazy dog " * 5_000


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("data", [b"", b"x", TEXT, os.urandom(200_000)], ids=["empty", "one byte", "text", "noise"])
def test_every_codec_gives_back_what_it_was_given(codec: Codec, data: bytes) -> None:
    for given in (data, bytearray(data), memoryview(data)):
        assert bytes(decompress(compress(given, codec), codec)) == data


@pytest.mark.parametrize("codec", REAL_CODECS)
def test_a_bomb_is_defused_at_the_limit(codec: Codec) -> None:
    bomb = compress(bytes(10_000_000), codec)
    with pytest.raises(CorruptMessage, match="unfolds to more than 1000000 bytes"):
        decompress(bomb, codec, limit=1_000_000)
    assert len(decompress(bomb, codec, limit=10_000_000)) == 10_000_000


@pytest.mark.parametrize("codec", REAL_CODECS)
@pytest.mark.parametrize("cut", [1, 10, 100])
def test_compressed_bytes_that_were_cut_off_are_corrupt(codec: Codec, cut: int) -> None:
    with pytest.raises(CorruptMessage):
        decompress(compress(TEXT, codec)[:-cut], codec)


@pytest.mark.parametrize("codec", REAL_CODECS)
def test_bytes_that_were_never_compressed_are_corrupt(codec: Codec) -> None:
    with pytest.raises(CorruptMessage):
        decompress(b"these are not the bytes you are looking for", codec)


def test_snappy_is_read_raw_as_librdkafka_writes_it() -> None:
    assert decompress(bytes(cramjam.snappy.compress_raw(TEXT)), Codec.SNAPPY) == TEXT


def test_snappy_is_written_in_xerials_frame_as_java_reads_it() -> None:
    assert compress(TEXT, Codec.SNAPPY).startswith(b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")


def test_a_raw_snappy_block_that_announces_too_much_is_refused_before_it_is_unfolded() -> None:
    with pytest.raises(CorruptMessage, match="unfolds to more"):
        decompress(b"\xff\xff\xff\xff\x0f", Codec.SNAPPY)


@pytest.mark.parametrize("size", [b"\xff\xff\xff\xff", b"\x00\x00\x00\x00", b"\x00\x00\x00\x09", b"\x00"])
def test_a_xerial_block_that_cannot_be_is_corrupt(size: bytes) -> None:
    with pytest.raises(CorruptMessage):
        decompress(compress(b"", Codec.SNAPPY) + size, Codec.SNAPPY)


def test_lz4_frames_have_independent_blocks_and_a_right_header_checksum() -> None:
    frame = compress(TEXT, Codec.LZ4)
    assert frame[4] & 0x20
    assert bytes(cramjam.lz4.decompress(frame)) == TEXT


def test_several_gzip_streams_are_one() -> None:
    assert decompress(compress(b"one ", Codec.GZIP) + compress(b"two", Codec.GZIP), Codec.GZIP) == b"one two"


@pytest.mark.parametrize("tail", [b"", b"x" * 50_000])
def test_many_short_gzip_streams_are_read_in_linear_time(monkeypatch: pytest.MonkeyPatch, tail: bytes) -> None:
    """What a stream leaves over is copied: the bytes handed to zlib bound that, and must not be all that is left for each stream."""
    handed: list[int] = []
    real = zlib.decompressobj

    class CountingStream:
        def __init__(self, window: int) -> None:
            self._stream = real(window)

        def decompress(self, data: memoryview, most: int) -> bytes:
            handed.append(len(data))
            return self._stream.decompress(data, most)

        def __getattr__(self, name: str) -> object:
            return getattr(self._stream, name)

    monkeypatch.setattr(zlib, "decompressobj", CountingStream)
    streams = [compress(b"%d," % number, Codec.GZIP) for number in range(MAX_GZIP_STREAMS - 1)]
    data = b"".join(streams) + compress(tail, Codec.GZIP)
    assert decompress(data, Codec.GZIP) == b"".join(b"%d," % number for number in range(MAX_GZIP_STREAMS - 1)) + tail
    assert sum(handed) < 16 * 1024 * (len(streams) + 2)


def test_a_batch_of_too_many_pieces_is_refused() -> None:
    assert decompress(compress(b"", Codec.GZIP) * MAX_GZIP_STREAMS, Codec.GZIP) == b""
    with pytest.raises(CorruptMessage, match="streams"):
        decompress(compress(b"", Codec.GZIP) * 52_000, Codec.GZIP)
    empty_block = b"\x00\x00\x00\x01\x00"
    assert decompress(compress(b"", Codec.SNAPPY) + empty_block * MAX_SNAPPY_BLOCKS, Codec.SNAPPY) == b""
    with pytest.raises(CorruptMessage, match="blocks"):
        decompress(compress(b"", Codec.SNAPPY) + empty_block * 200_000, Codec.SNAPPY)


@pytest.mark.parametrize("number", [5, 6, 7])
def test_an_unknown_codec_is_refused(number: int) -> None:
    with pytest.raises(UnsupportedCompressionType):
        codec_of(number)


@pytest.mark.parametrize("codec", [Codec.LZ4, Codec.ZSTD])
def test_large_output_is_right_and_no_room_for_it_is_an_error_of_memory(codec: Codec, monkeypatch: pytest.MonkeyPatch) -> None:
    data = Random(1).randbytes(1000) * 3000
    assert decompress(compress(data, codec), codec) == data

    def no_room(_descriptor: int, _size: int) -> None:
        raise OSError(errno.ENOMEM, "no room")

    monkeypatch.setattr("millstream.wire.compression.mmap", no_room)
    with pytest.raises(MemoryError, match="no room for"):
        decompress(compress(data, codec), codec)


@pytest.mark.parametrize(
    ("codec", "fast", "thorough"), [(Codec.GZIP, 1, 9), (Codec.LZ4, 1, 17), (Codec.LZ4, 9, 12), (Codec.ZSTD, -50, 19)], ids=str
)
def test_a_thorough_level_makes_less_of_it(codec: Codec, fast: int, thorough: int) -> None:
    words = Random(7)
    data = b" ".join(b"%d" % int(words.paretovariate(0.5)) for _ in range(20_000))
    quick, small = compress(data, codec, level=fast), compress(data, codec, level=thorough)
    assert len(small) < len(quick)
    assert bytes(decompress(small, codec)) == bytes(decompress(quick, codec)) == data


@pytest.mark.parametrize(("codec", "level"), [(Codec.GZIP, -1), (Codec.LZ4, 9), (Codec.ZSTD, 3)])
def test_without_a_level_it_is_kafkas_default(codec: Codec, level: int) -> None:
    assert compress(TEXT, codec) == compress(TEXT, codec, level=level)
