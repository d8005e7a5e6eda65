"""A batch taken apart and built again with another codec, as a topic with a codec of its own stores it."""

from millstream.wire.batch import checked_header
from millstream.wire.compression import Codec
from millstream.wire.records import decompressed, recompressed


def recompress(batch: bytes, codec: Codec) -> bytes:
    """The same batch compressed by `codec`."""
    header = checked_header(batch)
    return recompressed(header, decompressed(batch, header), codec=codec)
