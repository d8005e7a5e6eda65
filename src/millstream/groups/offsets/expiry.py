"""Which committed offsets have been kept long enough (KIP-211).

An offset whose commit asked for a time of its own goes then; all others `offsets.retention.minutes` after the base that the group names:
the moment it became empty, or the commit. Offsets of topics that a member reads never go, nor do any while the group says so, nor where a
transaction is open that will commit another one. A group that has neither offsets, real or pending, nor members left is forgotten itself.

All groups are looked through every `offsets.retention.check.interval.ms`, some thousand offsets at a time, so that clients do not feel it.
"""

from millstream.coordinator_shard import Outcome
from millstream.groups.group import Group
from millstream.groups.known_groups import KnownGroups
from millstream.groups.offsets.records import NO_EXPIRY, CommittedOffset
from millstream.groups.offsets.store import OffsetStore
from millstream.groups.settings import GroupSettings

OFFSETS_PER_TURN = 2_000


class OffsetExpiry:
    """The sweep through all groups."""

    __slots__ = ("_groups", "_offsets", "_settings", "_unchecked", "next_ms")

    def __init__(self, groups: KnownGroups, offsets: OffsetStore, settings: GroupSettings) -> None:
        self._groups = groups
        self._offsets = offsets
        self._settings = settings
        self._unchecked: list[str] = []
        self.next_ms: int | None = None
        """When to go on; None before the shard is loaded."""

    def start(self, now_ms: int) -> None:
        """The first check is one interval after the load."""
        self.next_ms = now_ms + self._settings.offsets_retention_check_interval_ms

    def tick(self, now_ms: int, outcome: Outcome) -> None:
        """One turn of a check, if it is time."""
        if self.next_ms is None or now_ms < self.next_ms:
            return
        if not self._unchecked:
            self._unchecked = [group.group_id for group in self._groups]
        looked_at = 0
        while self._unchecked and looked_at < OFFSETS_PER_TURN:
            group = self._groups.get(self._unchecked.pop())
            if group is not None:
                looked_at += 1 + self._check(group, outcome, now_ms=now_ms)
        if not self._unchecked:
            self.next_ms = now_ms + self._settings.offsets_retention_check_interval_ms

    def _check(self, group: Group, outcome: Outcome, *, now_ms: int) -> int:
        """Remove what is too old; the number of offsets looked at."""
        count = 0
        expired = []
        for topic, partition, committed in self._offsets.items(group.group_id):
            count += 1
            is_old = self._is_expired(group, committed, now_ms=now_ms)
            if is_old and not group.is_subscribed_to(topic) and not self._offsets.is_pending(group.group_id, topic, partition):
                expired.append((topic, partition))
        for topic, partition in expired:
            self._offsets.remove(group.group_id, topic, partition, outcome=outcome)
        # A group that waits for something, such as a member that was given an id, is not forgotten under it.
        is_needed = self._offsets.is_group_pending(group.group_id) or group.next_deadline_ms() is not None
        if len(expired) == count and group.is_empty and not is_needed:
            self._groups.forget(group, outcome)
        return count

    def _is_expired(self, group: Group, committed: CommittedOffset, *, now_ms: int) -> bool:
        base_ms = group.expiry_base_ms(committed.commit_timestamp_ms)
        if base_ms is None:
            return False
        if committed.expire_timestamp_ms != NO_EXPIRY:
            return now_ms >= committed.expire_timestamp_ms
        return now_ms - base_ms >= self._settings.offsets_retention_ms
