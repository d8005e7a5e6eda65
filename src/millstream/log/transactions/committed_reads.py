"""What a fetch of committed data needs to know besides the batches: which transactions in them were aborted.

Acts on a log from outside. A log in which nothing was ever aborted costs its readers one look at each segment from theirs on.
"""

from millstream.log.log import Log
from millstream.log.region import FileRegion
from millstream.log.transactions.aborted_index import search_all
from millstream.log.transactions.open_transactions import AbortedTransaction


def aborted_in(log: Log, start: int, end: int) -> list[AbortedTransaction]:
    """The aborted transactions with records in [start, end), in the order of their markers."""
    indexes = (segment.aborted_index for segment in log.segments.from_offset(start) if segment.has_aborted)
    with log.directory.guarded("reading a log"):
        return search_all(indexes, start, end).found


def aborted_in_region(log: Log, offset: int, region: FileRegion) -> list[AbortedTransaction]:
    """The aborted transactions that a reader at `offset` of these bytes has to know; as in Kafka there may be a few more.

    The bytes end before the first indexed batch behind them; where the log ends they may stop at the last stable offset.
    """
    segments = log.segments.from_offset(offset)
    if not any(segment.has_aborted for segment in segments):
        return []
    with log.directory.guarded("reading a log"):
        number = next(number for number, segment in enumerate(segments) if segment.is_file_of(region.handle))
        segment = segments[number]
        relative_end = segment.offset_index.offset_at_or_after(region.position + region.length)
    if relative_end is not None:
        end = segment.base_offset + relative_end
    else:
        end = segments[number + 1].base_offset if number + 1 < len(segments) else log.log_end_offset
    return aborted_in(log, offset, end)
