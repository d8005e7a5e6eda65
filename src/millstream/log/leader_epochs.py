"""Which leader epoch started at which offset: what followers and consumers need to find where two histories part (KIP-101, KIP-279).

    leader-epoch-checkpoint:   0              version
                               2              number of lines
                               0 0            epoch, first offset written in it
                               3 1517

Epochs and start offsets both grow. The file is written by the flush that makes the batches of an epoch durable, so at any time it covers
everything below the recovery point; what lies above is read from the batches when the log is recovered.
"""

from bisect import bisect_right
from itertools import pairwise
from typing import NamedTuple

from millstream.log.directories.checkpoints import parse_lines, render_lines

FILE_NAME = "leader-epoch-checkpoint"
UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1


class EpochEnd(NamedTuple):
    """An epoch, and the offset after its last record; (-1, -1) when it is not known."""

    epoch: int
    end_offset: int


class LeaderEpochs:
    """Epochs with their start offsets, in memory."""

    __slots__ = ("_epochs", "_starts", "is_dirty")

    def __init__(self, entries: list[tuple[int, int]] | None = None) -> None:
        self._epochs = [epoch for epoch, _ in entries or ()]
        self._starts = [start for _, start in entries or ()]
        self.is_dirty = False

    @property
    def latest(self) -> int:
        """The latest epoch; -1 when there is none."""
        return self._epochs[-1] if self._epochs else UNDEFINED_EPOCH

    @property
    def entries(self) -> list[tuple[int, int]]:
        """(epoch, start offset), oldest first."""
        return list(zip(self._epochs, self._starts, strict=True))

    def assign(self, epoch: int, start_offset: int) -> None:
        """Note that `epoch` starts at this offset; entries it contradicts (later, or without a record) go."""
        if self._epochs and self._epochs[-1] == epoch and start_offset >= self._starts[-1]:
            return
        while self._epochs and (self._epochs[-1] >= epoch or self._starts[-1] >= start_offset):
            self._epochs.pop()
            self._starts.pop()
        self._epochs.append(epoch)
        self._starts.append(start_offset)
        self.is_dirty = True

    def end_of(self, epoch: int, *, log_end_offset: int) -> EpochEnd:
        """The largest epoch not above the one asked for, and where it ended."""
        if epoch == UNDEFINED_EPOCH or not self._epochs or epoch > self._epochs[-1]:
            return EpochEnd(UNDEFINED_EPOCH, UNDEFINED_OFFSET)
        if epoch == self._epochs[-1]:
            return EpochEnd(epoch, log_end_offset)
        number = bisect_right(self._epochs, epoch)
        return EpochEnd(self._epochs[number - 1] if number else epoch, self._starts[number])

    def epoch_of(self, offset: int) -> int:
        """The epoch in which the record at the offset was written; -1 when it is not known."""
        number = bisect_right(self._starts, offset) - 1
        return self._epochs[number] if number >= 0 else UNDEFINED_EPOCH

    def truncate_from_end(self, end_offset: int) -> None:
        """The log now ends at `end_offset`."""
        while self._starts and self._starts[-1] >= end_offset:
            self._epochs.pop()
            self._starts.pop()
            self.is_dirty = True

    def truncate_from_start(self, start_offset: int) -> None:
        """The log now starts at `start_offset`; the epoch it lies in starts there."""
        number = bisect_right(self._starts, start_offset) - 1
        if number >= 0 and (number > 0 or self._starts[0] != start_offset):
            del self._epochs[:number], self._starts[:number]
            self._starts[0] = start_offset
            self.is_dirty = True

    def clear(self) -> None:
        """Forget everything: the log was emptied."""
        self._epochs.clear()
        self._starts.clear()
        self.is_dirty = True

    def render(self) -> bytes:
        """The content of the checkpoint file."""
        return render_lines(f"{epoch} {start}" for epoch, start in self.entries)

    @classmethod
    def parse(cls, content: bytes) -> "LeaderEpochs":
        """From the content of the checkpoint file; ValueError if it is damaged."""
        entries = []
        for line in parse_lines(content):
            epoch, start = line.split()
            entries.append((int(epoch), int(start)))
        if any(one[0] >= two[0] or one[1] >= two[1] for one, two in pairwise(entries)):
            raise ValueError("epochs or offsets do not grow")
        return cls(entries)
