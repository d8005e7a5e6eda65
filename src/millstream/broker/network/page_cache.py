"""Whether the bytes of a region are in the page cache, so that sending them will not make the loop wait for a disk.

`preadv` with RWF_NOWAIT reads only what is cached. Where the file system does not know the flag (overlayfs, tmpfs) the last few MiB of a
file count as warm, since they were just written, and everything older as cold. Cold regions are read once in a thread, which puts them
into the page cache, and are sent from there like all others: one consumer that lags far behind does not hold up the rest.

The answer may be wrong by what lies between the bytes that were asked for. Who has no hurry does not ask and reads in a thread whatever was
not just written (`is_recent`): a follower that is far behind takes gigabytes, and a loop that waits for a few of them is late all the time.
"""

import errno
import os
from typing import Final

from millstream.log.region import FileRegion

WARM_TAIL: Final = 8 * 1024 * 1024
PROBE_EVERY: Final = 256 * 1024
"""The kernel reads ahead in many pieces, which arrive in any order: both ends may be there and the middle still be on its way. Asking costs
1.5 us each time, and `sendfile` 100 us and more for a MiB."""
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
        """Whether the region seems to be cached: its last byte, and one in every 256 KiB before it, are."""
        if not self._can_ask:
            return is_recent(region)
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
            return self._must_give_up_asking(error) and is_recent(region)

    def _must_give_up_asking(self, error: OSError) -> bool:
        """Whether the file system cannot answer. Any other error will come again, and be reported, when the region is sent."""
        if error.errno in _UNSUPPORTED:
            self._can_ask = False
        return not self._can_ask


def warm_up(region: FileRegion) -> None:
    """Read the region into the page cache; blocks, so call it in a thread.

    It is sent to nowhere, without a copy: `sendfile` waits for whole folios, of which a read may take the part that is there.
    """
    position = region.position
    end = position + region.length
    with open(os.devnull, "wb", buffering=0) as nowhere:
        while position < end:
            count = _read(nowhere.fileno(), region, position, min(READ_AHEAD, end - position))
            if count == 0:
                return
            position += count


def _read(nowhere: int, region: FileRegion, position: int, length: int) -> int:
    try:
        return os.sendfile(nowhere, region.handle.fd, position, length)
    except OSError:
        return len(os.pread(region.handle.fd, length, position))


def _read_recent(region: FileRegion, target: memoryview) -> bool:
    if not is_recent(region):
        return False
    try:
        content = os.pread(region.handle.fd, region.length, region.position)
    except OSError:
        return False  # It will come again, and be reported, when the region is sent.
    if len(content) != region.length:
        return False
    target[:] = content
    return True


def is_recent(region: FileRegion) -> bool:
    """Whether the region lies at the end of its file, so that it was just written there."""
    return os.fstat(region.handle.fd).st_size - region.position <= WARM_TAIL
