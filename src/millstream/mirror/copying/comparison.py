"""Whether two logs have the same batches: by offsets and CRC, which is all that a mirror keeps and more than it could change. Pure.

A compacted log is compared record by record: each side compacts for itself, and drops records or whole batches at other times than the
other, but none changes a record that it keeps. So where both have a record at an offset it has to be the same one.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from millstream.mirror.trouble import Stopped
from millstream.wire.batch import BatchHeader
from millstream.wire.records import Record, decode_records

Batch = tuple[BatchHeader, memoryview]


class Compared(NamedTuple):
    """How far two logs are the same."""

    position: int
    leader_epoch: int
    """Of the last batch that was compared, at the source."""


def compare(source: Sequence[BatchHeader], target: Sequence[BatchHeader], *, end: int) -> Compared | None:
    """Compare as many batches as both have, below `end`; None if there is none. `Stopped` where they differ."""
    compared = None
    for theirs, ours in zip(source, target, strict=False):
        if ours.base_offset >= end:
            break
        if (theirs.base_offset, theirs.last_offset_delta, theirs.crc) != (ours.base_offset, ours.last_offset_delta, ours.crc):
            raise _other_records(min(theirs.base_offset, ours.base_offset))
        compared = Compared(ours.next_offset, theirs.leader_epoch)
    return compared


def compare_compacted(source: Iterable[Batch], target: Iterable[Batch], *, end: int) -> Compared | None:
    """Compare the records that both have at the same offsets, below `end`; None if there are none. `Stopped` where they differ."""
    theirs, epochs = _records(source, end)
    ours, _ = _records(target, end)
    both = sorted(theirs.keys() & ours.keys())
    for offset in both:
        if theirs[offset] != ours[offset]:
            raise _other_records(offset)
    return Compared(both[-1] + 1, epochs[both[-1]]) if both else None


def _records(batches: Iterable[Batch], end: int) -> tuple[Mapping[int, Record], Mapping[int, int]]:
    """The records below `end` by their offsets, and the leader epochs of their batches."""
    records: dict[int, Record] = {}
    epochs: dict[int, int] = {}
    for header, batch in batches:
        for record in decode_records(batch) if header.base_offset < end and header.record_count else ():
            records[record.offset], epochs[record.offset] = record, header.leader_epoch
    return records, epochs


def _other_records(offset: int) -> Stopped:
    return Stopped(
        f"from offset {offset} on the target has other records than the source: the source lost records that were already copied "
        "(an unclean election?), or something else wrote to the target; nothing is overwritten. To mirror the topic anew delete it "
        "at the target, to keep what is there promote it"
    )
