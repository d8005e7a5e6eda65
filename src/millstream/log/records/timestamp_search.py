"""Offsets by time: the first record at or after a timestamp, and the record with the largest one, a slice of work at a time.

The segment is found by its largest timestamp, the batch through both indexes and the headers; only in that one batch records are looked
at, because the answer names a record. A batch whose inside cannot be read answers with its first record: a wrong inside is its producer's
own making and does no harm to others.

A search gets a number of units of work and returns when they are used up: a log is long, a batch holds a million records, and headers may
promise times that no record has. Meanwhile the log may grow, roll, be compacted or lose segments, so a search keeps offsets, and a place in
a segment only as long as the log has that very segment. What has to be read and decompressed is handed out (`batch`), to be loaded in a
thread.

    while not search.is_done:
        if search.batch is not None:  search.look_into(search.batch.load())      # in a thread, unless it is light
        else:                         search.advance(segments, units)            # on the loop, some units a turn
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from millstream.buffer import Buffer
from millstream.errors import InvalidRecord, KafkaError
from millstream.files import FileHandle, Files
from millstream.log.segment import Segment, TimestampOffset
from millstream.log.segments import Segments
from millstream.wire.batch import BatchHeader, checked_header
from millstream.wire.compression import MAX_DECOMPRESSED_BYTES, UnfoldsTooFar
from millstream.wire.records import ANY_TIME, Walked, decompressed, walk_records

SEGMENT_UNITS = 10
"""What a segment costs beside a header or a record, which are one unit each: its time index may have to be opened."""
LIGHT_BYTES = 32 * 1024


class TimestampedOffset(NamedTuple):
    """A record: its time, its offset, and the leader epoch it was written in."""

    timestamp: int
    offset: int
    leader_epoch: int


class StoredBatch(NamedTuple):
    """A batch whose records have to be looked at. It keeps its file open."""

    files: Files
    handle: FileHandle
    position: int
    header: BatchHeader

    @property
    def is_light(self) -> bool:
        """Whether loading it takes next to no time: few bytes, and they are not compressed."""
        return self.header.codec == 0 and self.header.size_bytes <= LIGHT_BYTES

    def load(self, limit: int | None = None) -> Buffer | None:
        """Its records, decompressed; None if they are broken, `UnfoldsTooFar` if there are more bytes than `limit`."""
        batch = self.files.pread(self.handle, self.header.size_bytes, self.position)
        try:
            return decompressed(batch, checked_header(batch), limit=limit or MAX_DECOMPRESSED_BYTES)
        except KafkaError as error:
            if limit is not None and isinstance(error, UnfoldsTooFar):
                raise
            return None


class OffsetSearch(ABC):
    """What both searches have in common: going through the records of the batch that was found."""

    def __init__(self, from_offset: int, *, timestamp: int) -> None:
        self.is_done = False
        self.found: TimestampedOffset | None = None
        self.batch: StoredBatch | None = None
        """To be loaded and given to `look_into` before the search can go on."""
        self._timestamp = timestamp
        self._from_offset = from_offset
        self._header: BatchHeader | None = None
        self._records: Iterator[Walked] | None = None

    @property
    def is_inside_batch(self) -> bool:
        """Whether it goes through the records of a batch that was loaded."""
        return self._records is not None

    def advance(self, segments: Segments, units: int) -> int:
        """Go on for so many headers and records, or until a batch has to be loaded; how many units are left."""
        while units > 0 and not self.is_done and self.batch is None:
            units = self._walk_segments(segments, units) if self._records is None else self._walk_records(self._records, units)
        return units

    def look_into(self, payload: Buffer | None) -> None:
        """Go on with the records of `batch`; None if it is broken."""
        assert self.batch is not None
        self._header = header = self.batch.header
        self.batch = None
        try:
            if payload is None:
                raise InvalidRecord("the batch cannot be read")
            from_timestamp = ANY_TIME if header.is_log_append_time else self._timestamp
            self._records = walk_records(payload, header, from_timestamp=from_timestamp)
        except InvalidRecord:
            self._finish(_first_of(header, self._from_offset))

    @abstractmethod
    def _walk_segments(self, segments: Segments, units: int) -> int:
        """Go on through headers for so many units; how many are left."""

    @abstractmethod
    def _not_in_batch(self) -> None:
        """The batch promised a time that none of its records has."""

    def _walk_records(self, records: Iterator[Walked], units: int) -> int:
        """Look at so many records; those before the time are stepped over. How many units are left."""
        header, from_offset = self._header, self._from_offset
        assert header is not None
        walked = 0
        try:
            for record in islice(records, units):
                walked += 1
                if record[0] >= from_offset:
                    timestamp = header.max_timestamp if header.is_log_append_time else record[1]
                    self._finish(TimestampedOffset(timestamp, record[0], header.leader_epoch))
                    return units - walked
        except InvalidRecord:
            self._finish(_first_of(header, from_offset))
            return units
        if walked < units:
            self._records = None
            self._not_in_batch()
        return units - walked

    def _examine(self, segment: Segment, position: int, header: BatchHeader) -> bool:
        """Look for the record in this batch; False if it cannot be there."""
        if header.record_count == 0 or header.last_offset < self._from_offset:
            return False
        is_whole = header.record_count == header.last_offset_delta + 1  # compaction may have taken the first record
        if is_whole and (header.is_log_append_time or header.record_count == 1):
            self._finish(_first_of(header, self._from_offset))
        else:
            self.batch = StoredBatch(segment.files, segment.handle(), position, header)
        return True

    def _finish(self, found: TimestampedOffset | None) -> None:
        self.found = found
        self.is_done = True
        self._records = None


class TimestampSearch(OffsetSearch):
    """Looks for the first record from `from_offset` to `limit_offset` whose time is not before `timestamp`."""

    def __init__(self, timestamp: int, *, from_offset: int, limit_offset: int) -> None:
        super().__init__(from_offset, timestamp=timestamp)
        self._next_offset = from_offset
        self._limit_offset = limit_offset
        self._place: tuple[Segment, int] | None = None

    def _walk_segments(self, segments: Segments, units: int) -> int:
        number = max(0, segments.number_holding(self._next_offset))
        while units > 0 and self._next_offset < self._limit_offset and number < len(segments):
            segment = segments[number]
            if self._place is None or self._place[0] is not segment:
                self._place = None
                units -= SEGMENT_UNITS
            if segment.largest.timestamp >= self._timestamp:
                units = self._walk_batches(segment, units)
                if self.is_done or self._place is not None:
                    return units
            number += 1
            if number < len(segments):
                self._next_offset = max(self._next_offset, segments[number].base_offset)
        if self._next_offset >= self._limit_offset or number >= len(segments):
            self._finish(None)
        return units

    def _walk_batches(self, segment: Segment, units: int) -> int:
        """Go from header to header; `_place` is set if there is more to see in this segment."""
        position = self._start(segment) if self._place is None else self._place[1]
        self._place = None
        while position < segment.size_bytes and self._next_offset < self._limit_offset:
            if units <= 0:
                self._place = segment, position
                return units
            header = segment.header_at(position)
            units -= 1
            position += header.size_bytes
            self._next_offset = max(self._next_offset, header.next_offset)
            if header.max_timestamp >= self._timestamp and self._examine(segment, position - header.size_bytes, header):
                self._place = segment, position
                return units
        return units

    def _start(self, segment: Segment) -> int:
        """Where to begin in a segment that has a record of that time or later.

        An entry of the time index is made together with one of the offset index, when the largest time has grown since the one before. So
        where the index first knows a time that is late enough, the first such batch lies behind the offset index entry before that one:
        at most `index.interval.bytes` are walked, also where a million batches share one time.
        """
        entry = segment.time_index.first_at_or_above(self._timestamp)
        reached = segment.largest.offset if entry is None else segment.base_offset + entry[1]
        position = segment.offset_index.position_for(reached - 1 - segment.base_offset)
        if self._next_offset <= segment.base_offset:
            return position
        return max(position, segment.find(self._next_offset))

    def _not_in_batch(self) -> None:
        """Go on behind it."""


class LargestTimestampSearch(OffsetSearch):
    """Looks for the first record that has the largest timestamp of the log."""

    def __init__(self, *, from_offset: int) -> None:
        super().__init__(from_offset, timestamp=-1)
        self._next_offset = from_offset
        self._best = TimestampOffset(-1, from_offset)

    def _walk_segments(self, segments: Segments, units: int) -> int:
        number = max(0, segments.number_holding(self._next_offset))
        while number < len(segments):
            segment = segments[number]
            if segment.size_bytes and segment.largest.timestamp > self._best.timestamp:
                self._best = segment.largest
            units -= SEGMENT_UNITS
            number += 1
            if units <= 0 and number < len(segments):
                self._next_offset = segments[number].base_offset
                return units
        if self._best.timestamp < 0 or not self._examine_best(segments):
            self._finish(None)
        return units

    def _examine_best(self, segments: Segments) -> bool:
        offset = max(self._best.offset, self._from_offset)
        segment = segments[max(0, segments.number_holding(offset))]
        position = segment.find(offset)
        if position >= segment.size_bytes:
            return False
        header = segment.header_at(position)
        self._timestamp = min(self._best.timestamp, header.max_timestamp)
        return self._examine(segment, position, header)

    def _not_in_batch(self) -> None:
        self._finish(None)


def _first_of(header: BatchHeader, from_offset: int) -> TimestampedOffset:
    return TimestampedOffset(header.max_timestamp, max(header.base_offset, from_offset), header.leader_epoch)
