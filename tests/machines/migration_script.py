"""Drives a group whose members speak both protocols: a coordinator, a clock, its log, and clients that behave as real ones do.

`ClassicClient` is a consumer of the classic protocol, eager or cooperative: it heartbeats, joins, waits, leads, syncs. Its other half is
`consumer_group_script.Client`. Whatever happens, `check` holds: no partition has two owners.
"""

from collections.abc import Sequence
from typing import cast

from millstream.coordinator_shard import Fields
from millstream.groups.classic.group import ClassicGroup
from millstream.groups.commands import (
    ConsumerHeartbeat,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    LeavingMember,
    MemberAssignment,
    Protocol,
    SyncGroup,
)
from millstream.groups.consumer_protocol import decode_assignment, decode_subscription, encode_assignment
from millstream.groups.settings import GroupSettings
from millstream.groups.shard import GroupCoordinatorShard
from millstream.groups.topic_image import TopicImage, TopicInfo
from tests.machines.consumer_group_script import Client, Partitions, topic_id
from tests.machines.group_script import START_MS, CoordinatorScript

DELAY_MS, SESSION_MS, REBALANCE_MS = 5, 10_000, 30_000
MEMBER_ID_REQUIRED, REBALANCE_IN_PROGRESS, ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID = 79, 27, 22, 25


def subscription(*topics: str, owned: Partitions = frozenset(), version: int = 1) -> bytes:  # type: ignore[assignment]
    """What a classic consumer says of itself."""
    names = b"".join(len(name).to_bytes(2, "big") + name.encode() for name in topics)
    text = version.to_bytes(2, "big") + len(topics).to_bytes(4, "big") + names + b"\xff" * 4
    return text if version == 0 else text + encode_assignment(_by_topic(owned), version=0)[2:-4]


def _by_topic(partitions: Partitions) -> tuple[tuple[str, tuple[int, ...]], ...]:
    names = sorted({name for name, _ in partitions})
    return tuple((name, tuple(sorted(number for topic, number in partitions if topic == name))) for name in names)


def assignment(*partitions: tuple[str, int], version: int = 1) -> bytes:
    """What a leader assigns."""
    return encode_assignment(_by_topic(set(partitions)), version=version)


def _image(topics: dict[str, int]) -> TopicImage:
    return TopicImage({name: TopicInfo(topic_id(name), count) for name, count in topics.items()})


class MigrationScript(CoordinatorScript):
    """One coordinator with one group, "g"."""

    def __init__(self, *, policy: str = "bidirectional", topics: dict[str, int] | None = None, **settings: int) -> None:
        self.settings = GroupSettings(initial_rebalance_delay_ms=DELAY_MS, consumer_migration_policy=policy, **settings)  # type: ignore[arg-type]
        self.image = _image(topics or {"t": 4})
        super().__init__(self._empty())

    def _empty(self) -> GroupCoordinatorShard:
        coordinator = GroupCoordinatorShard(self.settings)
        coordinator.topics_changed(self.image, START_MS)
        return coordinator

    def change_topics(self, topics: dict[str, int]) -> None:
        """These are the topics now, with so many partitions each."""
        self.image = _image(topics)
        self.take(self.coordinator.topics_changed(self.image, self.now_ms))

    def restart(self) -> None:
        """The broker is killed and comes back: what waited is told to look for the coordinator again."""
        self.take(self.coordinator.unloaded())
        self.coordinator = self._empty()
        self.load()

    def beat(self, member_id: str, epoch: int, **fields: object) -> Fields:
        """One KIP-848 heartbeat and its answer."""
        if epoch == 0:
            fields = {"rebalance_timeout_ms": 60_000, "topic_partitions": (), **fields}
        command = ConsumerHeartbeat(group_id="g", member_id=member_id, member_epoch=epoch, client_id="c", client_host="/h", **fields)  # type: ignore[arg-type]
        return self.answer(command)

    def join(self, member_id: str = "", *, topics: tuple[str, ...] = ("t",), **changes: object) -> int:
        """A classic JoinGroup, by default without the handshake."""
        command = JoinGroup(
            group_id="g",
            member_id=member_id,
            client_id="c",
            client_host="/h",
            protocol_type="consumer",
            protocols=(Protocol("range", subscription(*topics)),),
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            requires_known_member_id=False,
        )
        return self.ask(command._replace(**changes))  # type: ignore[arg-type]

    def sync(self, member_id: str, generation_id: int, assignments: dict[str, bytes] | None = None, **changes: object) -> int:
        """A classic SyncGroup."""
        brought = tuple(MemberAssignment(*pair) for pair in (assignments or {}).items())
        command = SyncGroup(group_id="g", member_id=member_id, generation_id=generation_id, assignments=brought)
        return self.ask(command._replace(**changes))  # type: ignore[arg-type]

    def heartbeat(self, member_id: str, generation_id: int, instance_id: str | None = None) -> object:
        """The error code of a classic heartbeat."""
        return self.answer(Heartbeat(group_id="g", member_id=member_id, generation_id=generation_id, instance_id=instance_id))["error_code"]

    def leave(self, member_id: str, instance_id: str | None = None) -> object:
        """The error code of the member in a classic LeaveGroup."""
        answer = self.answer(LeaveGroup(group_id="g", members=(LeavingMember(member_id, instance_id),)))
        return cast("list[Fields]", answer["members"])[0]["error_code"]

    @property
    def kind(self) -> tuple[object, object]:
        """Type and state of the group."""
        ((kind, state),) = [(group["group_type"], group["group_state"]) for group in self.coordinator.list_groups()]
        return kind, state

    def member_types(self) -> dict[str, object]:
        """Of a KIP-848 group: which member is which, as ConsumerGroupDescribe numbers them."""
        members = cast("list[Fields]", self.coordinator.describe_consumer("g")["members"])
        return {str(member["member_id"]): member["member_type"] for member in members}

    def held_by(self, member_id: str) -> list[tuple[str, tuple[int, ...]]]:
        """Of a KIP-848 group: what a member has, as ConsumerGroupDescribe shows it."""
        members = cast("list[Fields]", self.coordinator.describe_consumer("g")["members"])
        (member,) = [member for member in members if member["member_id"] == member_id]
        partitions = cast("dict[str, list[Fields]]", member["assignment"])["topic_partitions"]
        return [(str(topic["topic_name"]), tuple(cast("list[int]", topic["partitions"]))) for topic in partitions]

    def is_up_to_date(self, client: "Client | ClassicClient") -> bool:
        """Whether a commit of the client would be taken."""
        group = self.coordinator._groups.get("g")
        epoch = client.epoch if isinstance(client, Client) else client.generation_id
        if isinstance(group, ClassicGroup):
            return client.member_id in group.roster and epoch == group.generation.generation_id
        members = cast("list[Fields]", self.coordinator.describe_consumer("g")["members"])
        return (client.member_id, epoch) in [(member["member_id"], member["member_epoch"]) for member in members]

    def classic_group(self, *assigned: bytes, instance_ids: bool = False) -> list[str]:
        """A stable classic group, each member with its assignment; the first leads. Generation 1."""
        waiters = [self.join(instance_id=f"i{number}" if instance_ids else None) for number in range(len(assigned))]
        self.move(2 * DELAY_MS)
        members = [str(self.answers[waiter]["member_id"]) for waiter in waiters]
        for member_id in members[1:]:
            self.sync(member_id, 1)
        self.sync(members[0], 1, dict(zip(members, assigned, strict=True)))
        assert self.kind == ("classic", "Stable")
        return members


class ClassicClient:
    """A consumer of the classic protocol that does one thing at a time."""

    def __init__(self, script: MigrationScript, *topics: str, is_cooperative: bool = False, instance_id: str | None = None) -> None:
        self.script = script
        self.topics = topics
        self.is_cooperative = is_cooperative
        self.instance_id = instance_id
        self.owned: Partitions = set()
        self.member_id = ""
        self.generation_id = -1
        self._waiter: int | None = None
        self._phase = "out"
        self._heard_ms = script.now_ms

    @property
    def is_settled(self) -> bool:
        """Whether it has nothing to do but to heartbeat."""
        return self._phase == "stable"

    def step(self) -> None:
        """Heartbeat, or go on with joining as far as that is possible without waiting."""
        if self._phase == "stable":
            self._beat()
        for _ in range(6):
            if self._phase == "out":
                self._join()
            elif self._waiter is None or self._waiter not in self.script.answers or self._phase == "stable":
                return
            elif self._phase == "joining":
                self._joined(self.script.answers[self._waiter])
            else:
                self._synced(self.script.answers[self._waiter])

    def leave(self) -> None:
        """Close: a static member just goes away."""
        self.owned = set()
        if self.instance_id is None and self.member_id:
            self.script.leave(self.member_id)
        self.abandon()

    def abandon(self) -> None:
        """Give everything up and begin anew."""
        self.owned, self.member_id, self.generation_id, self._phase, self._waiter = set(), "", -1, "out", None
        self._heard_ms = self.script.now_ms

    def wait(self, by_ms: int) -> None:
        """Time will pass: a member that hears nothing for its session stops reading by itself."""
        if self.script.now_ms + by_ms >= self._heard_ms + SESSION_MS:
            self.abandon()

    def _beat(self) -> None:
        error = self.script.heartbeat(self.member_id, self.generation_id, self.instance_id)
        self._heard_ms = self.script.now_ms
        if error == REBALANCE_IN_PROGRESS:
            self._phase = "out"
        elif error != 0:
            self._refused(error)

    def _refused(self, error: object) -> None:
        """Out of the group, as far as it knows."""
        member_id = "" if error == UNKNOWN_MEMBER_ID else self.member_id
        self.abandon()
        self.member_id = member_id

    def _join(self) -> None:
        if not self.is_cooperative:
            self.owned = set()
        name = "cooperative" if self.is_cooperative else "eager"
        own = subscription(*self.topics, owned=self.owned)
        self._waiter = self.script.join(
            self.member_id, protocols=(Protocol(name, own),), requires_known_member_id=True, instance_id=self.instance_id
        )
        self._phase = "joining"

    def _joined(self, answer: Fields) -> None:
        error = answer["error_code"]
        self._heard_ms = self.script.now_ms
        if error == MEMBER_ID_REQUIRED:
            self.member_id, self._phase = str(answer["member_id"]), "out"
            return
        if error != 0:
            self._phase = "out"
            if error != REBALANCE_IN_PROGRESS:
                self._refused(error)
            return
        self.member_id, self.generation_id = str(answer["member_id"]), cast("int", answer["generation_id"])
        leads = answer["leader"] == self.member_id
        assigned = self._assign(cast("list[Fields]", answer["members"])) if leads else {}
        self._waiter = self.script.sync(self.member_id, self.generation_id, assigned, instance_id=self.instance_id)
        self._phase = "syncing"

    def _assign(self, members: list[Fields]) -> dict[str, bytes]:
        """In turns; a cooperative leader gives nobody what another one still has."""
        said = {str(member["member_id"]): decode_subscription(cast("bytes", member["metadata"])) for member in members}
        owners = {(topic, number): who for who, own in said.items() for topic, numbers in own.owned for number in numbers}
        wanted: dict[str, set[tuple[str, int]]] = {member_id: set() for member_id in said}
        for topic in sorted({topic for own in said.values() for topic in own.topics}):
            readers = sorted(member_id for member_id, own in said.items() if topic in own.topics)
            for number in range(self.script.image.topics[topic].partition_count):
                wanted[readers[number % len(readers)]].add((topic, number))
        if self.is_cooperative:
            wanted = {who: {place for place in places if owners.get(place, who) == who} for who, places in wanted.items()}
        return {member_id: assignment(*places) for member_id, places in wanted.items()}

    def _synced(self, answer: Fields) -> None:
        error = answer["error_code"]
        self._heard_ms = self.script.now_ms
        if error == REBALANCE_IN_PROGRESS:
            self._phase = "out"
        elif error != 0:
            self._refused(error)
        else:
            content = decode_assignment(cast("bytes", answer["assignment"])) if answer["assignment"] else None
            assigned = {(topic, number) for topic, numbers in content.partitions for number in numbers} if content else set()
            gave_up = not self.owned <= assigned
            self.owned = assigned
            self._phase = "out" if self.is_cooperative and gave_up else "stable"


def step(clients: Sequence[Client | ClassicClient], script: MigrationScript) -> None:
    """One turn of every client, and a moment of time."""
    for client in clients:
        if isinstance(client, Client):
            client.beat()
        else:
            client.step()
        check(clients, script)
    script.move(1)


def check(clients: Sequence[Client | ClassicClient], script: MigrationScript) -> None:
    """No partition has two owners.

    Whoever is behind does not count: its commits are refused, and the next thing it hears is that it has to join again. After a quick
    change to and fro a classic member may be, because a classic generation only remembers what everybody should have, in Kafka as well.
    """
    owned = [place for client in clients if script.is_up_to_date(client) for place in client.owned]
    assert len(owned) == len(set(owned)), {id(client): client.owned for client in clients}


def settle(clients: Sequence[Client | ClassicClient], script: MigrationScript, *, rounds: int = 40) -> None:
    """Turns until everything is read by somebody and nobody has anything to do."""
    everything = {(name, number) for name, info in script.image.topics.items() for number in range(info.partition_count)}
    for _ in range(rounds):
        step(clients, script)
        owned = {place for client in clients for place in client.owned}
        if script.kind[1] == "Stable" and owned == everything and all(isinstance(one, Client) or one.is_settled for one in clients):
            return
    raise AssertionError(f"after {rounds} rounds the group is {script.kind}, owned: {[client.owned for client in clients]}")
