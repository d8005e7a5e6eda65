"""What a consumer in a group can do in each of the Python clients, behind one interface, so that one test runs with all of them.

A consumer here does nothing by itself: whoever holds it polls it (a thread in `group_member`, a process in `tests.crash`). It commits only
when it is told to, and starts at the beginning where nothing was committed.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

Place = tuple[str, int]
"""A topic and the number of a partition."""

POLL_S = 0.1
SESSION_TIMEOUT_MS = 3000
HEARTBEAT_MS = 150
METADATA_AGE_MS = 500
"""How soon a client finds new topics and partitions by itself."""


class Delivery(NamedTuple):
    """A message as a consumer got it."""

    topic: str
    partition: int
    offset: int
    value: bytes

    @property
    def place(self) -> Place:
        """The partition it came from."""
        return self.topic, self.partition


@dataclass(frozen=True)
class Membership:
    """Which group a consumer joins, for which topics: by name or by a pattern that begins with ^."""

    bootstrap_servers: str
    group: str
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    instance: str | None = None
    session_timeout_ms: int = SESSION_TIMEOUT_MS
    settings: Mapping[str, object] = field(default_factory=dict)


class CommitRefused(Exception):
    """The broker did not take a commit, for a reason that a rebalance or a restart explains: what was not committed comes again."""


class GroupConsumer(ABC):
    """One consumer of a group; all calls come from one thread."""

    @abstractmethod
    def poll(self) -> list[Delivery]:
        """What has arrived within a moment; also the time in which the client rebalances."""

    @abstractmethod
    def assignment(self) -> frozenset[Place]:
        """The partitions it owns now."""

    @abstractmethod
    def commit(self, offsets: Mapping[Place, int] | None = None, *, metadata: str = "") -> None:
        """Commit these offsets, or the present positions, and wait for the answer."""

    @abstractmethod
    def commit_later(self) -> None:
        """Commit the present positions without waiting."""

    @abstractmethod
    def committed(self, places: Collection[Place]) -> dict[Place, int | None]:
        """What the group has committed."""

    @abstractmethod
    def seek(self, place: Place, offset: int) -> None:
        """Go on from another offset."""

    @abstractmethod
    def close(self) -> None:
        """Leave the group (a static member only goes away)."""
