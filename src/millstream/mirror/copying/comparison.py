"""Whether two logs have the same batches: by offsets and CRC, which is all that a mirror keeps and more than it could change. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

from millstream.mirror.trouble import Stopped
from millstream.wire.batch import BatchHeader


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
            first = min(theirs.base_offset, ours.base_offset)
            raise Stopped(
                f"from offset {first} on the target has other records than the source: the source lost records that were already copied "
                "(an unclean election?), or something else wrote to the target; nothing is overwritten. To mirror the topic anew delete it "
                "at the target, to keep what is there promote it"
            )
        compared = Compared(ours.next_offset, theirs.leader_epoch)
    return compared
