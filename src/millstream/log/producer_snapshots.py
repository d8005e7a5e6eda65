"""The snapshot files of one log, `<offset>.snapshot`: the producers as they were when the log ended at that offset.

There is one at the start of each segment that was rolled to, and one at the end of a log that was closed. Those at segment starts stay as
long as their segment, so that after a crash producers can be learned from there on. One inside a segment is only good until the next one
is written. They need no sync of their own to be safe: a damaged one fails its CRC and an older one is taken instead.
"""

import logging
from collections.abc import Sequence
from pathlib import Path

from millstream.files import Files
from millstream.log.producer_state import ProducerState
from millstream.log.recovery import replay_producers
from millstream.log.segments import Segments

SUFFIX = ".snapshot"
_logger = logging.getLogger(__name__)


class ProducerSnapshots:
    """Which snapshots there are, by offset."""

    __slots__ = ("_files", "_unsynced", "directory", "offsets")

    def __init__(self, files: Files, directory: Path, offsets: list[int]) -> None:
        self._files = files
        self.directory = directory
        self.offsets = sorted(offsets)
        self._unsynced: list[Path] = []

    def write(self, offset: int, producers: ProducerState, *, segments: Segments) -> None:
        """Write the producers down as of `offset`, the end of the log."""
        bases = {segment.base_offset for segment in segments}
        self._remove([stray for stray in self.offsets if stray not in bases])
        path, content = self._path(offset), producers.render()
        handle = self._files.open(path, create=True)
        self._files.write_all(handle, [content], 0)
        self._files.truncate(handle, len(content))
        self._unsynced.append(path)
        if offset not in self.offsets:
            self.offsets.append(offset)

    def load(self, segments: Segments, *, end: int) -> ProducerState:
        """The producers of a log that ends at `end`: the newest snapshot, and what was written after it."""
        start, producers = self.load_latest(at_most=end) or (segments.first.base_offset, ProducerState())
        producers.segments = segments
        if start < end:
            for segment in segments.from_offset(start):
                replay_producers(self._files, segment, producers, from_offset=start, to_offset=end)
        return producers

    def load_latest(self, *, at_most: int) -> tuple[int, ProducerState] | None:
        """The newest intact snapshot that is not beyond `at_most`, with its offset; damaged ones are removed."""
        for offset in sorted((offset for offset in self.offsets if offset <= at_most), reverse=True):
            path = self._path(offset)
            try:
                return offset, ProducerState.parse(self._files.read_bytes(path))
            except FileNotFoundError:
                continue
            except ValueError as error:
                _logger.warning("%s is damaged (%s) and was removed", path, error)
                self._files.unlink(path)
        return None

    def take_unsynced(self) -> list[Path]:
        """The files written since this was asked last."""
        paths, self._unsynced = self._unsynced, []
        return paths

    def remove(self, offsets: Sequence[int]) -> None:
        """The segments that began there were merged into the one before them."""
        self._remove([offset for offset in offsets if offset in self.offsets])

    def remove_above(self, offset: int) -> None:
        """The log was cut at the offset."""
        self._remove([beyond for beyond in self.offsets if beyond > offset])

    def remove_below(self, offset: int) -> None:
        """The segments before the offset are gone."""
        self._remove([before for before in self.offsets if before < offset])

    def remove_strays(self, segments: Segments, *, end: int) -> None:
        """After a start: keep those at the start of a segment and the newest; one beyond the end of the log is wrong."""
        self.remove_above(end)
        kept = {segment.base_offset for segment in segments} | set(self.offsets[-1:])
        self._remove([stray for stray in self.offsets if stray not in kept])

    def _remove(self, offsets: list[int]) -> None:
        for offset in offsets:
            self._files.unlink(self._path(offset))
            self.offsets.remove(offset)

    def _path(self, offset: int) -> Path:
        return self.directory / f"{offset:020d}{SUFFIX}"
