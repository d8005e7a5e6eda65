"""When the groups of a shard have to be looked at next.

A heap of lower bounds: a group is in it with a deadline that is never later than its own. A heartbeat moves a group's deadline away and
costs nothing here; the group is looked at once at the old time, finds nothing due and is put back with the new one.
"""

import heapq


class GroupTimers:
    """The earliest deadline of each group."""

    __slots__ = ("_heap", "_scheduled")

    def __init__(self) -> None:
        self._heap: list[tuple[int, str]] = []
        self._scheduled: dict[str, int] = {}

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
