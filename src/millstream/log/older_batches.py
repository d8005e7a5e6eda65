"""Batches of a producer that a snapshot left out, found again in the log.

A snapshot has only the last batch of each producer (as Kafka's). Up to four older ones may be in flight, appended but not acknowledged,
when a broker is killed right after a segment was rolled, is stopped, or cuts its log: sent again, they would be out of turn, which may be
the end of the producer. So they are looked for when the first of them is sent again, and not at the start: that would read every log.

From the oldest batch that is known the log is walked backwards, stretch by stretch of the offset index, and only so far: what is in flight
is near. A batch counts if the one that is known goes on with its sequence, in the same epoch.
"""

from collections.abc import Iterator
from itertools import islice

from millstream.log.producer_state import END_OF_PRODUCERS, MAX_SEQUENCE, REMEMBERED_BATCHES, ProducerEntry, WrittenBatch
from millstream.log.recovery import batches
from millstream.log.segment import Segment
from millstream.log.segments import Segments
from millstream.wire.batch import BatchHeader

MOST_BYTES = 8 << 20
MOST_BATCHES = 4_000
"""What may be walked over: five large batches, or those of many producers; milliseconds in any case."""
_CHUNK_BYTES = 64 << 10


def find_older(segments: Segments, entry: ProducerEntry) -> list[WrittenBatch]:
    """The batches right before those that are known of the producer, oldest first: as many as are to be remembered, if they are near."""
    found: list[WrittenBatch] = []
    known, wanted = entry.batches[0], REMEMBERED_BATCHES - len(entry.batches)
    for header in _headers_before(segments, known.base_offset):
        if len(found) == wanted or header.producer_id == END_OF_PRODUCERS:
            break
        if header.producer_id != entry.producer_id or header.is_control:
            continue
        goes_on = (header.last_sequence + 1) & MAX_SEQUENCE == known.base_sequence
        if header.producer_epoch != entry.epoch or header.base_sequence < 0 or not goes_on:
            break
        known = WrittenBatch(header.base_sequence, header.last_sequence, header.base_offset, header.last_offset, header.max_timestamp)
        found.append(known)
    return found[::-1]


def _headers_before(segments: Segments, offset: int) -> Iterator[BatchHeader]:
    """The headers of the batches before the offset, newest first, as far as is worth it."""
    bytes_left, batches_left = MOST_BYTES, MOST_BATCHES
    for number in range(segments.number_holding(offset - 1), -1, -1):
        segment = segments[number]
        for start, stop in _stretches(segment, offset):
            bytes_left -= stop - start
            if bytes_left < 0:
                return
            headers = list(islice(_headers(segment, start, stop, offset), batches_left + 1))
            batches_left -= len(headers)
            if batches_left < 0:
                return
            yield from reversed(headers)


def _stretches(segment: Segment, offset: int) -> Iterator[tuple[int, int]]:
    """Positions between which there are batches, from the one with the offset back to the start of the segment."""
    index = segment.offset_index
    number = index.last_at_or_below(offset - 1 - segment.base_offset)
    stop = index.entry(number + 1)[1] if number + 1 < len(index) else segment.size_bytes
    for entry in range(number, -1, -1):
        start = index.entry(entry)[1]
        yield start, stop
        stop = start
    yield 0, stop


def _headers(segment: Segment, start: int, stop: int, offset: int) -> Iterator[BatchHeader]:
    for position, header, _ in batches(segment.files, segment, position=start, chunk_bytes=min(_CHUNK_BYTES, stop - start)):
        if position >= stop or header.base_offset >= offset:
            return
        yield header
