"""Memory for the bytes of many records, that is used again when nothing refers to it any more.

New memory costs more than it looks: each page has to be found and zeroed at its first touch, on a virtual machine perhaps fetched from the
host, which takes as long as filling it. So what is large is taken in huge pages, and a few pieces that have become free are kept for the
next records: who reads batch by batch touches the same memory again and again. So does who reads one table after the other: what a table
had is kept, too, and lent to the kernel, which takes its pages where memory is short and only there.

What was in it before is still there. Arrays are cut to what was written before anyone sees them.
"""

import mmap
import weakref
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

T = TypeVar("T", bound=np.generic)

_HUGE_PAGE: Final = 2 * 1024 * 1024
_ALIGNMENT: Final = 64
"""What Arrow would like its buffers to begin at."""
_MOST_KEPT: Final = 4
_MOST_LENT: Final = 64
_LARGEST_LENT: Final = 16 * 1024 * 1024
"""With so many pieces that the kernel may take when it needs memory; until then they save the next table the pages."""

_kept: list[mmap.mmap] = []


class ByteMemory:
    """One piece of memory, given away from its beginning on; it lives as long as any array in it. Of what `is_large` most will be used."""

    def __init__(self, size: int, *, is_large: bool) -> None:
        size = -(-size // _HUGE_PAGE) * _HUGE_PAGE
        mapped = _take_kept(size) or _map(size)
        if is_large and hasattr(mmap, "MADV_HUGEPAGE"):
            mapped.madvise(mmap.MADV_HUGEPAGE)
        self._bytes = np.frombuffer(mapped, np.uint8)
        weakref.finalize(self._bytes, _keep, mapped).atexit = False
        self._taken = 0

    def take(self, count: int, kind: type[T]) -> npt.NDArray[T]:
        """Room for so many numbers."""
        size = count * np.dtype(kind).itemsize
        assert self._taken + size <= len(self._bytes), "the room was counted"
        taken = self._bytes[self._taken : self._taken + size].view(kind)
        self._taken += -(-size // _ALIGNMENT) * _ALIGNMENT
        return taken


def _map(size: int) -> mmap.mmap:
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def _take_kept(size: int) -> mmap.mmap | None:
    """A kept piece of exactly this size: nearly all are of the same."""
    try:
        mapped = _kept.pop()
    except IndexError:
        return None
    return mapped if len(mapped) == size else None


def _keep(mapped: mmap.mmap) -> None:
    """Called when the last array in it is gone, by whichever thread let go of it."""
    if len(_kept) < _MOST_KEPT:
        _kept.append(mapped)
    elif len(_kept) < _MOST_LENT and len(mapped) <= _LARGEST_LENT and hasattr(mmap, "MADV_FREE"):
        mapped.madvise(mmap.MADV_FREE)
        _kept.append(mapped)
