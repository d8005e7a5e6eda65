"""The groups of a shard by id, and when each has to be looked at next.

A group is of one kind at a time. How it comes back from the log is here (`apply_...`); who may join it, and what makes it one of the other
kind, is decided in `membership`.

Deadlines are a heap of lower bounds: a group is in it with a time that is never later than its own deadline. A heartbeat moves the deadline
of a group away and costs nothing here; the group is looked at once at the old time, finds nothing due and is put back with the new one.
"""

import heapq
from collections.abc import Iterator
from typing import Final

from millstream.coordinator_shard import Outcome
from millstream.errors import CoordinatorNotAvailable, GroupIdNotFound, InvalidGroupId
from millstream.groups.classic.group import ClassicGroup
from millstream.groups.classic.records import GroupMetadata
from millstream.groups.consumer.group import ConsumerGroup
from millstream.groups.consumer.records import ConsumerKey, ConsumerValue
from millstream.groups.consumer.topic_patterns import MatchingBudget
from millstream.groups.group import Group
from millstream.groups.settings import GroupSettings

MAX_NAME_BYTES: Final = 32_767
"""The records have lengths of 16 bits."""


class KnownGroups:
    """Groups by id."""

    __slots__ = ("_budget", "_by_id", "_heap", "_scheduled", "_settings")

    def __init__(self, settings: GroupSettings) -> None:
        self._settings = settings
        self._budget = MatchingBudget()
        self._by_id: dict[str, Group] = {}
        self._heap: list[tuple[int, str]] = []
        self._scheduled: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Group]:
        """All groups, which may come and go meanwhile."""
        return iter(list(self._by_id.values()))

    def get(self, group_id: str) -> Group | None:
        """The group of either kind."""
        return self._by_id.get(group_id)

    def consumer(self, group_id: str) -> ConsumerGroup | None:
        """The group, if it is a KIP-848 one."""
        group = self._by_id.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    def existing(self, group_id: str) -> Group:
        """The group; GroupIdNotFound if there is none."""
        group = self._by_id.get(group_id)
        if group is None:
            raise GroupIdNotFound(f"Group {group_id} not found.")
        return group

    def current(self, group_id: str) -> Group | None:
        """The group after a change, which may have made another one of it."""
        group = self._by_id.get(group_id)
        if isinstance(group, ConsumerGroup) and group.successor is not None:
            group = self._by_id[group_id] = group.successor
        return group

    def put(self, group: Group) -> None:
        """Keep a group, in place of the one of its id."""
        self._by_id[group.group_id] = group

    def forget(self, group: Group, outcome: Outcome) -> None:
        """Delete a group, with its tombstones."""
        outcome.records += group.tombstones()
        del self._by_id[group.group_id]

    def new_consumer(self, group_id: str) -> ConsumerGroup:
        """A KIP-848 group that is not kept yet."""
        return ConsumerGroup(group_id, self._settings, budget=self._budget)

    def check_new(self, group_id: str) -> None:
        """Raise if there cannot be one more group, of that id."""
        if len(group_id.encode()) > MAX_NAME_BYTES:
            raise InvalidGroupId("the group id is too long")
        if len(self._by_id) >= self._settings.max_groups:
            raise CoordinatorNotAvailable(f"there are {len(self._by_id)} groups already")

    # --- replay -------------------------------------------------------------------------------------------------------------------------

    def apply_classic(self, group_id: str, metadata: GroupMetadata | None) -> None:
        """Replay the metadata of a classic group; None is a tombstone."""
        if metadata is not None:
            group = ClassicGroup(group_id, self._settings)
            group.generation.restore(metadata)
            self._by_id[group_id] = group
        elif isinstance(self._by_id.get(group_id), ClassicGroup):
            del self._by_id[group_id]

    def apply_consumer(self, key: ConsumerKey, value: ConsumerValue | None) -> None:
        """Replay a record of a KIP-848 group; None is a tombstone."""
        group = self.consumer(key.group_id)
        if group is None:
            if value is None:
                return
            group = self.new_consumer(key.group_id)
            self._by_id[key.group_id] = group
        group.apply(key, value)
        if group.is_gone:
            del self._by_id[key.group_id]

    # --- deadlines ----------------------------------------------------------------------------------------------------------------------

    def schedule(self, group_id: str, deadline_ms: int | None) -> None:
        """See to it that the group is looked at by then."""
        if deadline_ms is None:
            return
        scheduled = self._scheduled.get(group_id)
        if scheduled is None or deadline_ms < scheduled:
            self._scheduled[group_id] = deadline_ms
            heapq.heappush(self._heap, (deadline_ms, group_id))

    def pop_due(self, now_ms: int) -> list[str]:
        """The groups to be looked at now; each has to be scheduled again afterwards."""
        due = []
        while self._heap and self._heap[0][0] <= now_ms:
            deadline_ms, group_id = heapq.heappop(self._heap)
            if self._scheduled.get(group_id) == deadline_ms:
                del self._scheduled[group_id]
                due.append(group_id)
        return due

    def next_deadline_ms(self) -> int | None:
        """The earliest time at which something may be due."""
        return self._heap[0][0] if self._heap else None
