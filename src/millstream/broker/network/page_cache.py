"""Whether the bytes of a region are in the page cache, so that sending them will not make the loop wait for a disk.

`preadv` with RWF_NOWAIT reads only what is cached. Where the file system does not know the flag (overlayfs, tmpfs) the last few MiB of a
file count as warm, since they were just written, and everything older as cold. Cold regions are read once in a thread, which puts them
into the page cache, and are sent from there like all others: one consumer that lags far behind does not hold up the rest.
"""

import errno
import os
from typing import Final

from millstream.log.region import FileRegion

WARM_TAIL: Final = 8 * 1024 * 1024
PROBE_EVERY: Final = 1024 * 1024
READ_AHEAD: Final = 1024 * 1024
_UNSUPPORTED: Final = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)
_NOWAIT: Final = getattr(os, "RWF_NOWAIT", 0)


class PageCache:
    """Asks the kernel what it holds; remembers where it cannot answer."""

    def __init__(self) -> None:
        self._can_ask = bool(_NOWAIT)
        self._probe = bytearray(1)

    def read(self, region: FileRegion, *, before: bytes = b"", after: bytes = b"") -> bytearray | None:
        """The bytes of a small region, between these two, or None if some of them would have to come from the disk.

        They are read to where they are sent from.
        """
        start, length = len(before), region.length
        content = bytearray(start + length + len(after))
        target = memoryview(content)[start : start + length]
        try:
            if self._can_ask:
                is_read = os.preadv(region.handle.fd, [target], region.position, _NOWAIT) == length
            else:
                is_read = _read_recent(region, target)
        except BlockingIOError:
            return None
        except OSError as error:
            is_read = self._must_give_up_asking(error) and _read_recent(region, target)
        if not is_read:
            return None
        content[:start] = before
        content[start + length :] = after
        return content

    def is_warm(self, region: FileRegion) -> bool:
        """Whether the region seems to be cached: its last byte, and one in every MiB before it, are."""
        if not self._can_ask:
            return _is_recent(region)
        position = region.position + region.length - 1
        try:
            while True:
                if os.preadv(region.handle.fd, [self._probe], position, _NOWAIT) == 0:
                    return False
                if position == region.position:
                    return True
                position = max(position - PROBE_EVERY, region.position)
        except BlockingIOError:
            return False
        except OSError as error:
            return self._must_give_up_asking(error) and _is_recent(region)

    def _must_give_up_asking(self, error: OSError) -> bool:
        """Whether the file system cannot answer. Any other error will come again, and be reported, when the region is sent."""
        if error.errno in _UNSUPPORTED:
            self._can_ask = False
        return not self._can_ask


def warm_up(region: FileRegion) -> None:
    """Read the region into the page cache; blocks, so call it in a thread."""
    position = region.position
    end = position + region.length
    while position < end:
        count = len(os.pread(region.handle.fd, min(READ_AHEAD, end - position), position))
        if count == 0:
            return
        position += count


def _read_recent(region: FileRegion, target: memoryview) -> bool:
    if not _is_recent(region):
        return False
    try:
        content = os.pread(region.handle.fd, region.length, region.position)
    except OSError:
        return False  # It will come again, and be reported, when the region is sent.
    if len(content) != region.length:
        return False
    target[:] = content
    return True


def _is_recent(region: FileRegion) -> bool:
    return os.fstat(region.handle.fd).st_size - region.position <= WARM_TAIL
