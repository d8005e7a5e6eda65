"""How fast throttled replicas are copied: what all of them together may send, at a leader, or take, at a follower, in a second.

Which replicas are throttled is said by their topic (`leader.replication.throttled.replicas` and `follower...`), how fast by the broker
(`leader.replication.throttled.rate` and `follower...`). As in Kafka every byte of a throttled replica counts, and only those wait that are
behind: a follower that is in sync is never held up.

Where Kafka measures the rate of the last eleven seconds, this is a bucket (`byte_limit`): the rate holds from the first second on, whatever
the size of a fetch. It has in common with those that no pause is longer than eleven seconds: however low the rate, a move goes on.
"""

from typing import Final

from millstream.byte_limit import ByteLimit
from millstream.clock import Clock

BURST_S: Final = 1.0
"""Leaders are asked every half second by a follower that waits: what was not used until then is not lost."""
LONGEST_PAUSE_S: Final = 11.0
ALL: Final = "*"


class ReplicationQuota:
    """The quota of one broker, in one direction."""

    def __init__(self, bytes_per_s: int, clock: Clock) -> None:
        self._clock = clock
        self.bytes_per_s = bytes_per_s
        self._limit = ByteLimit(max(bytes_per_s, 1), now=self._now, burst_s=BURST_S, longest_pause_s=LONGEST_PAUSE_S)

    @property
    def _now(self) -> float:
        return self._clock.monotonic_ms() / 1000

    @property
    def is_exceeded(self) -> bool:
        """Whether throttled replicas that are behind have to wait."""
        return self.pause_s > 0

    @property
    def pause_s(self) -> float:
        """How long they have to wait."""
        return self._limit.pause_s(now=self._now)

    def count(self, size_bytes: int) -> None:
        """So much of throttled replicas was copied."""
        self._limit.spend(size_bytes, now=self._now)

    def largest_read(self, wanted: int) -> int:
        """How much of one throttled replica is copied at once."""
        return self._limit.largest_read(wanted)


def is_throttled(replicas: frozenset[str], partition: int, broker: int) -> bool:
    """Whether the option of a topic names this replica: as `partition:broker`, or with all others as `*`."""
    return bool(replicas) and (ALL in replicas or f"{partition}:{broker}" in replicas)
