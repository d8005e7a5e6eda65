"""The codecs of record batches, in the very forms that Kafka's clients write and read.

    gzip     a gzip stream
    snappy   xerial's frame (a 16-byte header, then blocks: int32 size, raw snappy) as Java writes it, or one raw block as librdkafka does
    lz4      an LZ4 frame; what we write has independent blocks of 64 KiB, because Java's reader refuses linked ones
    zstd     a zstd frame

Decompressing is bounded: the caller says how much may come out, and a batch that wants more is a `CorruptMessage` before the memory is
taken. Output grows by quadrupling where a format does not hold its size, so a small batch never costs the bound. The time is linear in what
goes in and comes out, and the pieces of a batch are counted. cramjam is imported at first use.
"""

import zlib
from collections.abc import Iterator
from enum import IntEnum
from functools import partial
from mmap import mmap
from typing import Any, Final

from millstream.buffer import Buffer
from millstream.errors import CorruptMessage, UnsupportedCompressionType
from millstream.wire.primitives import INT32

MAX_DECOMPRESSED_BYTES: Final = 128 * 1024 * 1024
"""Most that one batch may unfold to."""

MAX_GZIP_STREAMS: Final = 1024
MAX_SNAPPY_BLOCKS: Final = 4096
"""Most pieces of one batch. Each costs time of its own, and an empty one takes only a few bytes; Java's blocks hold 32 KiB."""

_XERIAL_HEADER: Final = b"\x82SNAPPY\x00" + INT32.pack(1) + INT32.pack(1)
_XERIAL_MAGIC: Final = _XERIAL_HEADER[:8]
_XERIAL_BLOCK: Final = 32 * 1024
_LZ4_HEADER: Final = bytes.fromhex("04224d18 60 40 82")
"""Magic, version 1 with independent blocks and no checksums, blocks of 64 KiB, and the checksum of these two bytes."""
_LZ4_BLOCK: Final = 64 * 1024
_LZ4_STORED: Final = 0x80000000
_LZ4_FRAME_HEADER: Final = 7
_LZ4_FLAGS: Final = 4
_LZ4_HAS_CONTENT_SIZE: Final = 0x08
_LZ4_CONTENT_SIZE_BYTES: Final = 8
_GZIP_WINDOW: Final = 31
"""zlib's way of saying: a gzip header and the largest window."""
_FIRST_GUESS: Final = 64 * 1024
_FIRST_STEP: Final = 16 * 1024
_MAPPED_FROM: Final = 1024 * 1024
_PIECE: Final = 16 * 1024 * 1024
"""What is copied at once."""
_OUTPUT_FULL: Final = "failed to write whole buffer"
_ZSTD_LEVEL: Final = 3
_LZ4_LEVEL: Final = 9


class UnfoldsTooFar(CorruptMessage):
    """A compressed batch holds more than its reader is ready to take."""


class Codec(IntEnum):
    """Kafka's number for each way to compress a batch."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def codec_of(number: int) -> Codec:
    """The codec of that number; complains about 5 to 7, which the attributes of a batch could also hold."""
    try:
        return Codec(number)
    except ValueError:
        raise UnsupportedCompressionType(f"there is no compression codec {number}") from None


def compress(data: Buffer, codec: Codec, *, level: int | None = None) -> bytes:
    """`data` in the form of `codec`; `level` is for gzip, lz4 and zstd, with Kafka's defaults."""
    match codec:
        case Codec.NONE:
            return bytes(data)
        case Codec.GZIP:
            compressor = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, _GZIP_WINDOW)
            return compressor.compress(data) + compressor.flush()
        case Codec.SNAPPY:
            return _XERIAL_HEADER + b"".join(_snappy_blocks(memoryview(data)))
        case Codec.LZ4:
            return _LZ4_HEADER + b"".join(_lz4_blocks(memoryview(data), _LZ4_LEVEL if level is None else level)) + bytes(4)
        case Codec.ZSTD:
            return bytes(_cramjam().zstd.compress(data, level=_ZSTD_LEVEL if level is None else level))


def decompress(data: Buffer, codec: Codec, *, limit: int = MAX_DECOMPRESSED_BYTES) -> Buffer:
    """What was compressed; damage is a `CorruptMessage`, more than `limit` bytes of it the kind of it that is `UnfoldsTooFar`."""
    match codec:
        case Codec.NONE:
            return data
        case Codec.GZIP:
            return _gunzip(data, limit=limit)
        case Codec.SNAPPY:
            return _unsnap(memoryview(data), limit=limit)
        case Codec.LZ4:
            return _decompress_growing(_cramjam().lz4, data, limit=limit)
        case Codec.ZSTD:
            return _decompress_growing(_cramjam().zstd, data, limit=limit)


def forget(output: Buffer) -> None:
    """Unmap, in this thread, the memory of what came out of `decompress`, if it was mapped; it must not be looked at again."""
    if isinstance(output, memoryview):
        room = output.obj
        output.release()
        if isinstance(room, mmap):
            room.close()


def _snappy_blocks(data: memoryview) -> Iterator[bytes]:
    compress_raw = _cramjam().snappy.compress_raw
    for start in range(0, len(data), _XERIAL_BLOCK):
        block = bytes(compress_raw(data[start : start + _XERIAL_BLOCK]))
        yield INT32.pack(len(block))
        yield block


def _lz4_blocks(data: memoryview, level: int) -> Iterator[bytes]:
    # As Kafka does it: its default is the fast way, and only another level asks for the thorough one.
    compress_block = _fast_lz4_block if level == _LZ4_LEVEL else partial(_thorough_lz4_block, level=level)
    for start in range(0, len(data), _LZ4_BLOCK):
        plain = data[start : start + _LZ4_BLOCK]
        block = compress_block(plain)
        if len(block) < len(plain):
            yield len(block).to_bytes(4, "little")
            yield block
        else:
            yield (len(plain) | _LZ4_STORED).to_bytes(4, "little")
            yield bytes(plain)


def _fast_lz4_block(plain: memoryview) -> bytes:
    return bytes(_cramjam().lz4.compress_block(plain, store_size=False))


def _thorough_lz4_block(plain: memoryview, *, level: int) -> bytes:
    """The only block of a frame: cramjam takes a level for frames alone (and its frames of several blocks are none that Java reads)."""
    frame = bytes(_cramjam().lz4.compress(plain, level=level))
    start = _LZ4_FRAME_HEADER + (_LZ4_CONTENT_SIZE_BYTES if frame[_LZ4_FLAGS] & _LZ4_HAS_CONTENT_SIZE else 0)
    size = int.from_bytes(frame[start : start + 4], "little") & ~_LZ4_STORED
    return frame[start + 4 : start + 4 + size]


def _gunzip(data: Buffer, *, limit: int) -> bytearray:
    view, position = memoryview(data), 0
    output = bytearray()
    try:
        # A gzip file may consist of several streams, and Java's reader goes on to the next one.
        for _ in range(MAX_GZIP_STREAMS):
            stream = zlib.decompressobj(_GZIP_WINDOW)
            step = _FIRST_STEP
            # By steps: what a stream leaves over is copied, and that must not be the whole rest for each of many short streams.
            while not stream.eof:
                taken: Buffer = stream.unconsumed_tail
                if not taken:
                    taken = view[position : position + step]
                    position += len(taken)
                    step *= 4
                if not taken:
                    raise CorruptMessage("a gzip batch ends too early")
                output += stream.decompress(taken, min(limit - len(output) + 1, _PIECE))
                if len(output) > limit:
                    raise _bomb("gzip", limit)
            position -= len(stream.unused_data)
            if position == len(view):
                return output
    except zlib.error as error:
        raise CorruptMessage(f"a gzip batch is damaged: {error}") from None
    raise CorruptMessage(f"a gzip batch of more than {MAX_GZIP_STREAMS} streams")


def _unsnap(data: memoryview, *, limit: int) -> Buffer:
    if data[:8] != _XERIAL_MAGIC:
        return _unsnap_block(data, before=0, limit=limit)
    output = bytearray()
    position = len(_XERIAL_HEADER)
    for _ in range(MAX_SNAPPY_BLOCKS):
        if position == len(data):
            return output
        if position + 4 > len(data):
            raise CorruptMessage("a snappy batch ends inside the size of a block")
        (length,) = INT32.unpack_from(data, position)
        position += 4
        if not 0 < length <= len(data) - position:
            raise CorruptMessage(f"a snappy block of {length} bytes in the {len(data) - position} bytes left of the batch")
        output += _unsnap_block(data[position : position + length], before=len(output), limit=limit)
        position += length
    if position < len(data):
        raise CorruptMessage(f"a snappy batch of more than {MAX_SNAPPY_BLOCKS} blocks")
    return output


def _unsnap_block(block: memoryview, *, before: int, limit: int) -> memoryview:
    cramjam = _cramjam()
    try:
        size = cramjam.snappy.decompress_raw_len(block)
        if before + size > limit:
            raise _bomb("snappy", limit)
        output = _room(max(size, 1))
        return memoryview(output)[: cramjam.snappy.decompress_raw_into(block, output)]
    except (cramjam.DecompressionError, OSError, ValueError) as error:
        raise CorruptMessage(f"a snappy batch is damaged: {error}") from None


def _decompress_growing(module: Any, data: Buffer, *, limit: int) -> Buffer:
    name = module.__name__.rpartition(".")[2]
    error_types = (_cramjam().DecompressionError, OSError, ValueError)
    size = min(max(4 * len(data), _FIRST_GUESS), limit)
    while True:
        output = _room(size)
        try:
            return memoryview(output)[: module.decompress_into(data, output)]
        except error_types as error:
            if _OUTPUT_FULL not in str(error):
                raise CorruptMessage(f"a {name} batch is damaged: {error}") from None
        if size >= limit:
            raise _bomb(name, limit)
        size = min(4 * size, limit)


def _room(size: int) -> bytearray | mmap:
    """Room for so much output. A large one is mapped: a bytearray is filled with zeros first, and meanwhile no other thread runs."""
    if size < _MAPPED_FROM:
        return bytearray(size)
    try:
        return mmap(-1, size)
    except OSError as error:
        raise MemoryError(f"no room for {size} bytes") from error


def _bomb(name: str, limit: int) -> UnfoldsTooFar:
    return UnfoldsTooFar(f"a {name} batch unfolds to more than {limit} bytes")


def _cramjam() -> Any:
    import cramjam  # a broker that never recompresses need not load it

    return cramjam
