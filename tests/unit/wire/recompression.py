"""A batch taken apart and built again with another codec, as a topic with a codec of its own stores it."""

from millstream.wire.batch import HEADER_SIZE
from millstream.wire.compression import Codec, codec_of, decompress
from millstream.wire.records import check_batch, rebuild


def recompress(batch: bytes, codec: Codec) -> bytes:
    """The same batch compressed by `codec`."""
    header = check_batch(batch)
    return rebuild(header, decompress(memoryview(batch)[HEADER_SIZE:], codec_of(header.codec)), codec=codec)
