"""Cutting off the end of a log beside the event loop: what has to be synced, removed and read again takes longer than a turn.

    truncation = Truncation(log, offset)     on the loop: from now on nothing from `offset` on counts as durable
    truncation.run()                         in a thread: cuts; it has the log for itself
    truncation.end()                         on the loop, whether it worked or not: the log may be used again

In between nothing else may be done with the log but to look at its offsets. Chores (flush, retention, compaction) leave a log alone that
`is_truncating`; whoever appends, gives it another role or deletes it has to wait.
"""

from millstream.log.log import Log


class Truncation:
    """Drops everything from `offset` on; or (`is_whole`) all that there is, to go on at `offset`."""

    def __init__(self, log: Log, offset: int, *, is_whole: bool = False) -> None:
        log.check_usable()
        self._log = log
        self._offset = offset
        self._is_whole = is_whole
        # Before a checkpoint, or a compaction that is about to put its segments in, can speak of what is cut off.
        log.truncation_count += 1
        self._flush = log.local.begin_cut(min(offset, log.log_end_offset))
        log.is_truncating = True

    def run(self) -> None:
        """Do it; StorageError if the disk fails, which takes the directory offline."""
        log = self._log
        if self._flush is not None:
            with log.directory.guarded("fsync"):
                self._flush.run()
        if self._is_whole:
            log.truncate_fully_and_start_at(self._offset)
        else:
            log.truncate_to(self._offset)

    def end(self) -> None:
        """Give the log back."""
        self._log.is_truncating = False
