"""What is to be written into checkpoints, taken down log by log, as it is at that moment.

    capture = manager.begin_capture(...)     on the loop
    capture.take(logs)                       on the loop, some logs at a time, in as many turns as one likes
    manager.write(capture)                   in a thread

Between the first and the last step logs go on, are cut, deleted and begun anew. What a log gained meanwhile is in the next capture; what
was cut off, or belongs to an older log of the same name, is known to its directory from the first step on (`LogDirectory.begin_capture`)
and left out when the checkpoint is written.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

from millstream.log.directories import checkpoints
from millstream.log.directories.directory import LogDirectory
from millstream.log.log import Log
from millstream.topic_partition import TopicPartition

Offsets = dict[TopicPartition, int]


class Capture:
    """Offsets per directory and checkpoint; all that are given, or only the high watermarks."""

    def __init__(
        self,
        directories: Iterable[LogDirectory],
        number: int,
        high_watermark_of: Callable[[Log], int] | None,
        *,
        is_whole: bool = True,
    ) -> None:
        self.number = number
        """Of a later capture it is larger."""
        self.is_whole = is_whole
        self._high_watermark_of = high_watermark_of
        self._points: dict[LogDirectory, Offsets] = {directory: {} for directory in directories}
        self._starts: dict[LogDirectory, Offsets] = {directory: {} for directory in self._points}
        self._high_watermarks: dict[LogDirectory, Offsets] = {directory: {} for directory in self._points}
        if is_whole:
            for directory in self._points:
                directory.begin_capture()

    def take(self, logs: Iterable[Log]) -> None:
        """Take down where these logs are now."""
        high_watermark_of, is_whole = self._high_watermark_of, self.is_whole
        for log in logs:
            directory, name = log.directory, log.topic_partition
            if directory not in self._points:
                continue
            if is_whole:
                self._points[directory][name] = log.durable_end
                if log.starts_inside:
                    self._starts[directory][name] = log.log_start_offset
            if high_watermark_of is not None:
                self._high_watermarks[directory][name] = high_watermark_of(log)
            came_from = log.local.came_from
            if came_from in self._points:
                self._take_for_the_old_files(log, came_from)

    def _take_for_the_old_files(self, log: Log, came_from: LogDirectory) -> None:
        """They are the log again if the new ones lose their name in a power cut. All of them are checked then: no recovery point."""
        name = log.topic_partition
        if self.is_whole and log.starts_inside:
            self._starts[came_from][name] = log.log_start_offset
        if self._high_watermark_of is not None:
            self._high_watermarks[came_from][name] = self._high_watermark_of(log)

    def checkpoints(self) -> Iterator[tuple[LogDirectory, str, Mapping[TopicPartition, int]]]:
        """What is to be written: the directory, the name of the checkpoint, its offsets."""
        for directory, points in self._points.items():
            if self.is_whole:
                yield directory, checkpoints.RECOVERY_POINT, points
                yield directory, checkpoints.LOG_START_OFFSET, self._starts[directory]
            if self._high_watermark_of is not None:
                yield directory, checkpoints.HIGH_WATERMARK, self._high_watermarks[directory]
