"""A member of a group with the new protocol (KIP-848), spoken by hand: it sends heartbeats and does what the coordinator says.

`beat` is one heartbeat as the member means it: it reports what it owns, takes over what the answer assigns, and gives up what it no longer
has at once. A test that wants a member to misbehave calls `ask` with fields of its own.
"""

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID, uuid4

from kio.schema.errors import ErrorCode

from tests.brokers import Broker
from tests.clients.group_requests import CONSUMER_GROUP_DESCRIBE, CONSUMER_GROUP_HEARTBEAT, Identity
from tests.connection import Connection
from tests.waiting import wait_until

LEAVE, LEAVE_FOR_A_WHILE = -1, -2
REBALANCE_TIMEOUT_MS = 10_000

Owned = set[tuple[UUID, int]]


class HandMadeMember:
    """One member on one connection."""

    def __init__(
        self,
        broker: Broker,
        group: str,
        topics: Sequence[str] | None = None,
        *,
        pattern: str | None = None,
        instance: str | None = None,
        assignor: str | None = None,
        version: int = 1,
        rebalance_timeout_ms: int = REBALANCE_TIMEOUT_MS,
    ) -> None:
        self.connection: Connection = broker.connect()
        self.group = group
        self.member_id = str(uuid4()) if version >= 1 else ""
        self.epoch = 0
        self.instance = instance
        self.owned: Owned = set()
        self.version = version
        self._subscription = {
            "subscribed_topic_names": None if topics is None else list(topics),
            "subscribed_topic_regex": pattern,
            "server_assignor": assignor,
            "rebalance_timeout_ms": rebalance_timeout_ms,
        }

    @property
    def identity(self) -> Identity:
        """Who it is when it commits."""
        return Identity(self.group, self.member_id, self.epoch, self.instance)

    def ask(self, **fields: Any) -> Any:
        """One heartbeat with these fields and nothing else than its identity."""
        identity = {"group_id": self.group, "member_id": self.member_id, "member_epoch": self.epoch, "instance_id": self.instance}
        return self.connection.ask(CONSUMER_GROUP_HEARTBEAT, self.version, {"topic_partitions": None, **identity, **fields})

    def join(self) -> Any:
        """The first heartbeat; must be answered without an error."""
        answer = self.ask(topic_partitions=[], **self._subscription)
        assert answer.error_code == ErrorCode.none, answer
        self.follow(answer)
        return answer

    def beat(self) -> Any:
        """One heartbeat after the first; must be answered without an error."""
        answer = self.ask(topic_partitions=self._owned_fields())
        assert answer.error_code == ErrorCode.none, answer
        self.follow(answer)
        return answer

    def leave(self, epoch: int = LEAVE) -> Any:
        """The last heartbeat."""
        return self.ask(member_epoch=epoch)

    def close(self) -> None:
        """Close the connection without a word."""
        self.connection.close()

    def follow(self, answer: Any) -> None:
        """Take over what an answer says: epoch and assignment."""
        self.member_id = answer.member_id or self.member_id
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.owned = {(part.topic_id, number) for part in answer.assignment.topic_partitions for number in part.partitions}

    def _owned_fields(self) -> list[dict[str, object]]:
        topics: dict[UUID, list[int]] = {}
        for identity, partition in sorted(self.owned):
            topics.setdefault(identity, []).append(partition)
        return [{"topic_id": identity, "partitions": partitions} for identity, partitions in topics.items()]


def beat_until(members: Sequence[HandMadeMember], condition: Callable[[], bool], what: str) -> None:
    """Heartbeats of all members in turn until the condition holds."""

    def round_of_beats() -> bool:
        for member in members:
            member.beat()
        return condition()

    wait_until(round_of_beats, what)


def sizes(members: Sequence[HandMadeMember]) -> list[int]:
    """How many partitions each member owns, in order of size."""
    return sorted(len(member.owned) for member in members)


def describe_consumer_group(connection: Connection, group: str, *, version: int = 1) -> Any:
    """ConsumerGroupDescribe for one group."""
    (answer,) = connection.ask(CONSUMER_GROUP_DESCRIBE, version, {"group_ids": [group]}).groups
    return answer
