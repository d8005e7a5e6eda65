"""Drives a KIP-848 group without a broker: a clock, topics, members that behave as real clients do, and the log of its records."""

from collections.abc import Mapping
from typing import Protocol, cast
from uuid import UUID

from millstream.coordinator_shard import CoordinatorRecord, Fields, Outcome
from millstream.groups.commands import ConsumerHeartbeat
from millstream.groups.consumer.group import ConsumerGroup
from millstream.groups.consumer.group_state import ConsumerGroupState
from millstream.groups.consumer.records import ConsumerKey, ConsumerValue
from millstream.groups.records import decode_record
from millstream.groups.settings import GroupSettings
from millstream.groups.topic_image import TopicImage, TopicInfo

Partitions = set[tuple[str, int]]

UNRELEASED_INSTANCE_ID = 111
FENCED_MEMBER_EPOCH = 110
UNKNOWN_MEMBER_ID = 25


def topic_id(name: str) -> UUID:
    """Always the same id for the same name."""
    return UUID(bytes=name.encode().rjust(16, b"\0")[-16:])


class Script:
    """A group and everything around it."""

    def __init__(self, *, settings: GroupSettings | None = None, **partition_counts: int) -> None:
        self.settings = settings or GroupSettings()
        self.now_ms = 1_000_000
        self.log: list[CoordinatorRecord] = []
        self.image = TopicImage()
        self.group = self._empty_group()
        self.topics(**partition_counts)

    def _empty_group(self) -> ConsumerGroup:
        return ConsumerGroup("g", settings=self.settings, new_member_id=lambda: "made-up")

    def topics(self, **partition_counts: int) -> Outcome:
        """These topics there are now."""
        self.image = TopicImage({name: TopicInfo(topic_id(name), count) for name, count in partition_counts.items()})
        return self.took(self.group.topics_changed(self.image, now_ms=self.now_ms))

    def took(self, outcome: Outcome) -> Outcome:
        """Append the records of an outcome."""
        self.log += outcome.records
        return outcome

    def beat(self, member_id: str, epoch: int, **fields: object) -> Fields:
        """One heartbeat and its answer. A join brings what a join must bring."""
        if epoch == 0:
            fields = {"rebalance_timeout_ms": 60_000, "topic_partitions": (), **fields}
        command = ConsumerHeartbeat(group_id="g", member_id=member_id, member_epoch=epoch, client_id="c", client_host="/h", **fields)  # type: ignore[arg-type]
        outcome = self.took(self.group.handle(command, "waiter", now_ms=self.now_ms))
        ((waiter, reply),) = outcome.replies
        assert waiter == "waiter"
        return reply

    def join(self, member_id: str, *topics: str, **fields: object) -> Fields:
        """Join with a subscription."""
        return self.beat(member_id, 0, subscribed_topic_names=topics, **fields)

    def advance(self, by_ms: int) -> Outcome:
        """Let time pass, ticking whenever the group asks for it."""
        end_ms = self.now_ms + by_ms
        outcome = Outcome()
        while (deadline_ms := self.group.next_deadline_ms()) is not None and deadline_ms <= end_ms:
            self.now_ms = max(self.now_ms, deadline_ms)
            outcome.merge(self.took(self.group.tick(self.now_ms)))
        self.now_ms = end_ms
        return outcome

    def restart(self) -> None:
        """Forget everything but the log."""
        self.group = self.replayed()
        self.took(self.group.topics_changed(self.image, now_ms=self.now_ms))
        self.took(self.group.loaded(self.now_ms))

    def replayed(self) -> ConsumerGroup:
        """A group made of the log alone, compacted."""
        group = self._empty_group()
        last = {record.key: position for position, record in enumerate(self.log)}
        for position, record in enumerate(self.log):
            decoded = decode_record(record)
            if last[record.key] == position and decoded is not None:
                key, value = cast("tuple[ConsumerKey, ConsumerValue | None]", decoded)
                group.apply(key, value)
        return group

    def decoded(self) -> list[tuple[ConsumerKey, ConsumerValue | None]]:
        """The log, to be read."""
        return [cast("tuple[ConsumerKey, ConsumerValue | None]", decode_record(record)) for record in self.log]

    def described(self) -> dict[str, Fields]:
        """The members as ConsumerGroupDescribe shows them."""
        return {str(member["member_id"]): member for member in cast("list[Fields]", self.group.describe_consumer()["members"])}


class Beating(Protocol):
    """Whoever takes the heartbeats of clients."""

    now_ms: int
    image: TopicImage

    def beat(self, member_id: str, epoch: int, **fields: object) -> Fields:
        """One heartbeat and its answer."""


class Client:
    """A member that behaves as librdkafka and Java do: it gives up first, says so, and takes on what it is given."""

    def __init__(self, script: Beating, member_id: str, *topics: str, instance_id: str | None = None, regex: str | None = None) -> None:
        self.script = script
        self.member_id = member_id
        self.instance_id = instance_id
        self.topics = topics
        self.regex = regex
        self.epoch = 0
        self.owned: Partitions = set()
        self._assigned: Partitions = set()
        """What the last answer said; a member that is slow still owns something else."""
        self._says_all = True
        self._says_owned = True
        self._says_subscription = True
        self._heard_ms = self._obeyed_ms = script.now_ms
        """When the last answer came, and when the member last had what it was told to have."""

    def subscribe(self, *topics: str) -> None:
        """Change the subscription; the next heartbeat says so."""
        self.topics = topics
        self._says_subscription = True

    def beat(self, *, loses_answer: bool = False, is_slow: bool = False) -> Fields:
        """One heartbeat; what the answer asks for is done at once and reported with the next one, unless the member is slow."""
        if not is_slow:
            self._obey()
        says_all = self.epoch == 0 or self._says_all
        fields: dict[str, object] = {"instance_id": self.instance_id}
        if says_all or self._says_subscription:
            fields["subscribed_topic_names"] = self.topics
            if self.regex is not None:
                fields["subscribed_topic_regex"] = self.regex
        if says_all or self._says_owned:
            fields["topic_partitions"] = as_request(self.owned)
        if says_all:
            fields["rebalance_timeout_ms"] = 60_000
        reply = self.script.beat(self.member_id, self.epoch, **fields)
        if self._assigned == self.owned and not self._says_all and not loses_answer:
            self._obeyed_ms = self.script.now_ms
        self._says_all = loses_answer
        if not loses_answer:
            self._take(reply)
            if not is_slow:
                self._obey()
        return reply

    def _take(self, reply: Fields) -> None:
        if reply["error_code"] != 0:
            self.abandon()
            return
        self._says_subscription = False
        self._heard_ms = self.script.now_ms
        self.epoch = cast("int", reply["member_epoch"])
        self._says_owned = False
        if reply["assignment"] is not None:
            self._assigned = as_partitions(reply, self.script.image)

    def _obey(self) -> None:
        self._says_owned = self._says_owned or self._assigned != self.owned
        self.owned = set(self._assigned)

    def abandon(self) -> None:
        """Give everything up and join with the next heartbeat, as a member does that was fenced or was late."""
        self.owned, self._assigned, self.epoch = set(), set(), 0
        self._says_all = True
        self._heard_ms = self._obeyed_ms = self.script.now_ms

    def wait(self, by_ms: int) -> None:
        """Time will pass: a member that hears nothing for a session, or does not obey in time, stops reading by itself."""
        end_ms = self.script.now_ms + by_ms
        if end_ms >= self._heard_ms + 45_000 or end_ms >= self._obeyed_ms + 60_000:
            self.abandon()

    def lose_topic(self, name: str) -> None:
        """A topic was deleted: there is nothing to read any more."""
        self.owned = {partition for partition in self.owned if partition[0] != name}
        self._assigned = {partition for partition in self._assigned if partition[0] != name}

    def leave(self, epoch: int = -1) -> Fields:
        """Leave the group."""
        self.abandon()
        return self.script.beat(self.member_id, epoch, instance_id=self.instance_id)


def as_request(partitions: Partitions) -> tuple[tuple[UUID, tuple[int, ...]], ...]:
    """Partitions as a heartbeat reports them."""
    topics: dict[str, list[int]] = {}
    for name, partition in sorted(partitions):
        topics.setdefault(name, []).append(partition)
    return tuple((topic_id(name), tuple(numbers)) for name, numbers in topics.items())


def as_partitions(reply: Mapping[str, object], image: TopicImage) -> Partitions:
    """The partitions of an answer; those of deleted topics are of no use to a client."""
    assignment = cast("dict[str, list[dict[str, object]]]", reply["assignment"])
    return {
        (image.names[cast("UUID", topic["topic_id"])], number)
        for topic in assignment["topic_partitions"]
        for number in cast("list[int]", topic["partitions"])
        if topic["topic_id"] in image.names
    }


def settle(*clients: Client, rounds: int = 12) -> None:
    """Heartbeats of all members until everybody has what it should have."""
    script = clients[0].script
    assert isinstance(script, Script)
    for _ in range(rounds):
        for client in clients:
            client.beat()
        if script.group.state == "Stable":
            return
    raise AssertionError(f"after {rounds} rounds the group is {script.group.state}")


def snapshot(group: ConsumerGroup) -> dict[str, object]:
    """All that records can tell of a group."""
    state: ConsumerGroupState = group._state
    return {
        "epochs": (state.epoch, state.target_epoch, state.metadata_hash),
        "members": {member_id: (member.metadata, member.current) for member_id, member in state.members.items()},
        "static": state.static_members,
        "target": state.target,
        "expressions": state.expressions,
        "owners": state.owners,
    }
