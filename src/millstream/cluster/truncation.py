"""Where a follower cuts its log off when the leader says that their histories part (KIP-101, KIP-279, KIP-595). Pure.

A follower fetches with the epoch of the last record that it has. If the leader has another history, it answers with the largest epoch that
both may have, and where that epoch ends in its own log. The follower keeps, of what it has, what can be the same: it cuts off at the
smaller of the two ends of that epoch, and asks again, until they agree. It never relies on its own high watermark, which it may have
learned from a leader that no longer is one.
"""

from millstream.log.leader_epochs import EpochEnd, LeaderEpochs


def truncation_offset(own: LeaderEpochs, diverging: EpochEnd, *, log_end_offset: int) -> int:
    """The offset at which the follower's log has to end, given where the leader's history parts from it."""
    own_end = own.end_of(diverging.epoch, log_end_offset=log_end_offset)
    if own_end.epoch < 0 or diverging.end_offset < 0:
        raise ValueError(
            f"the leader's history parts in epoch {diverging.epoch} at {diverging.end_offset}, and the last one here is {own.latest}"
        )
    # Without a record of that epoch here, what was written before it is what may be the same.
    return min(diverging.end_offset, own_end.end_offset)
