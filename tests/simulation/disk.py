"""What a simulated broker has on its disk: one replica of one partition."""

from collections.abc import Iterable

from millstream.cluster.controller.controller_machine import NO_EPOCH
from millstream.log.leader_epochs import LeaderEpochs

Entry = tuple[int, int]
"""The epoch in which it was written, and the value."""


class Disk:
    """What outlives a process."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.epochs = LeaderEpochs()
        self.synced = 0
        self.high_watermark = 0
        self.clean_epoch = NO_EPOCH
        """The broker epoch in the clean-shutdown marker."""

    def append(self, entries: Iterable[Entry]) -> None:
        """Write at the end."""
        for epoch, value in entries:
            self.epochs.assign(epoch, len(self.entries))
            self.entries.append((epoch, value))

    def truncate(self, end: int) -> None:
        """Cut the log off."""
        del self.entries[end:]
        self.epochs.truncate_from_end(end)
        self.synced = min(self.synced, end)
        self.high_watermark = min(self.high_watermark, end)

    def lose_power(self) -> None:
        """What was not synced is gone."""
        self.truncate(self.synced)
