"""Scripts for the group coordinator: given records, when commands, then records and answers.

A script owns a coordinator, a clock that it moves itself, the log of all records and the answer to every waiter. That nobody is answered
twice is checked with every step.
"""

from collections.abc import Iterable

from millstream.coordinator_shard import CoordinatorRecord, Fields, Outcome
from millstream.groups.commands import (
    CommitOffsets,
    DeleteGroup,
    DeleteOffsets,
    GroupCommand,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    LeavingMember,
    MemberAssignment,
    PartitionOffset,
    Protocol,
    SyncGroup,
    TopicOffsets,
)
from millstream.groups.records import Decoded, decode_record
from millstream.groups.settings import GroupSettings
from millstream.groups.shard import GroupCoordinatorShard

GROUP = "group"
START_MS = 1_000_000
SESSION_MS = 10_000
REBALANCE_MS = 30_000
DELAY_MS = 3_000
SETTINGS = GroupSettings(initial_rebalance_delay_ms=DELAY_MS)


def subscription(*topics: str) -> bytes:
    """What a consumer says of itself, in version 0 of Kafka's format."""
    names = [topic.encode() for topic in topics]
    return b"\x00\x00" + len(names).to_bytes(4, "big") + b"".join(len(name).to_bytes(2, "big") + name for name in names) + b"\xff" * 4


RANGE = (Protocol("range", subscription("topic")),)


class CoordinatorScript:
    """One coordinator, and all that came out of it."""

    def __init__(self, coordinator: GroupCoordinatorShard, *, records: Iterable[CoordinatorRecord] = (), now_ms: int = START_MS) -> None:
        self.now_ms = now_ms
        self.log: list[CoordinatorRecord] = list(records)
        self.answers: dict[int, Fields] = {}
        self.asked = 0
        self.coordinator = coordinator
        self.load()

    def load(self) -> None:
        """Replay the log into the coordinator."""
        for record in self.log:
            self.coordinator.apply(record)
        self.take(self.coordinator.loaded(self.now_ms))

    def take(self, outcome: Outcome) -> Outcome:
        """Write the records, send the answers."""
        self.log += outcome.records
        for waiter, fields in outcome.replies:
            assert isinstance(waiter, int)
            assert waiter not in self.answers, "answered twice"
            self.answers[waiter] = fields
        return outcome

    def ask(self, command: GroupCommand) -> int:
        """Send a command; the number under which the answer will be found."""
        self.asked += 1
        self.take(self.coordinator.handle(command, self.asked, now_ms=self.now_ms))
        return self.asked

    def answer(self, command: GroupCommand) -> Fields:
        """Send a command that is answered at once."""
        return self.answers[self.ask(command)]

    def error(self, command: GroupCommand) -> object:
        """The error code of a command that is answered at once."""
        return self.answer(command)["error_code"]

    def waits(self, waiter: int) -> bool:
        """Whether the answer is still owed."""
        return waiter not in self.answers

    def move(self, duration_ms: int) -> None:
        """Let time pass, ticking whenever the coordinator wants to."""
        end_ms = self.now_ms + duration_ms
        while (deadline_ms := self.coordinator.next_deadline_ms()) is not None and deadline_ms <= end_ms:
            self.now_ms = max(self.now_ms, deadline_ms)
            self.take(self.coordinator.tick(self.now_ms))
        self.now_ms = end_ms


class Script(CoordinatorScript):
    """Requests of one classic group."""

    def __init__(self, settings: GroupSettings = SETTINGS, *, records: Iterable[CoordinatorRecord] = (), now_ms: int = START_MS) -> None:
        self.settings = settings
        super().__init__(GroupCoordinatorShard(settings), records=records, now_ms=now_ms)

    def restarted(self) -> "Script":
        """The same log in a new coordinator."""
        return Script(self.settings, records=self.log, now_ms=self.now_ms)

    def last_record(self) -> Decoded:
        """What was written last."""
        return decode_record(self.log[-1])

    @property
    def state(self) -> object:
        """The state of the group."""
        return self.coordinator.describe(GROUP)["group_state"]

    # --- requests of one group ----------------------------------------------------------------------------------------------------------

    def join(self, member_id: str = "", *, protocols: tuple[Protocol, ...] = RANGE, **changes: object) -> int:
        """JoinGroup, by default as an old client without the handshake."""
        command = JoinGroup(
            group_id=GROUP,
            member_id=member_id,
            client_id="client",
            client_host="/127.0.0.1",
            protocol_type="consumer",
            protocols=protocols,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            requires_known_member_id=False,
        )
        return self.ask(command._replace(**changes))  # type: ignore[arg-type]

    def sync(self, member_id: str, generation_id: int, *, assignments: dict[str, bytes] | None = None, **changes: object) -> int:
        """SyncGroup; the leader brings assignments."""
        brought = tuple(MemberAssignment(*pair) for pair in (assignments or {}).items())
        command = SyncGroup(group_id=GROUP, member_id=member_id, generation_id=generation_id, assignments=brought)
        return self.ask(command._replace(**changes))  # type: ignore[arg-type]

    def heartbeat(self, member_id: str, generation_id: int, instance_id: str | None = None) -> object:
        """The error code of a Heartbeat."""
        return self.error(Heartbeat(group_id=GROUP, member_id=member_id, generation_id=generation_id, instance_id=instance_id))

    def leave(self, *members: tuple[str, str | None]) -> list[object]:
        """The error codes of a LeaveGroup, member by member."""
        answer = self.answer(LeaveGroup(group_id=GROUP, members=tuple(LeavingMember(*member) for member in members)))
        assert answer["error_code"] == 0
        return [member["error_code"] for member in answer["members"]]  # type: ignore[attr-defined]

    def commit(self, offset: int, member_id: str = "", generation_id: int = -1, *, partition: int = 0, **changes: object) -> object:
        """The error code of an OffsetCommit of one partition."""
        topics = [TopicOffsets("topic", None, [PartitionOffset(partition, offset)])]
        command = CommitOffsets(group_id=GROUP, member_id=member_id, generation_or_member_epoch=generation_id, topics=topics)
        answer = self.answer(command._replace(**changes))  # type: ignore[arg-type]
        return answer["topics"][0]["partitions"][0]["error_code"]  # type: ignore[index]

    def committed(self, partition: int = 0, *, topic: str = "topic", group_id: str = GROUP) -> object:
        """The offset that OffsetFetch shows."""
        answer = self.coordinator.fetch_offsets(group_id, [(topic, None, [partition])])
        return answer["topics"][0]["partitions"][0]["committed_offset"]  # type: ignore[index]

    def delete_offset(self, topic: str = "topic", partition: int = 0) -> Fields:
        """The answer to an OffsetDelete of one partition."""
        return self.answer(DeleteOffsets(group_id=GROUP, topics=((topic, (partition,)),)))

    def delete_group(self) -> object:
        """The error code of a DeleteGroups."""
        return self.error(DeleteGroup(group_id=GROUP))

    # --- whole rebalances ---------------------------------------------------------------------------------------------------------------

    def joined(self, waiter: int) -> Fields:
        """The answer to a JoinGroup that succeeded."""
        answer = self.answers[waiter]
        assert answer["error_code"] == 0
        return answer

    def stable_group(self, count: int, *, instance_ids: bool = False, protocols: tuple[Protocol, ...] = RANGE) -> list[str]:
        """Members of a first generation; the first leads, each is assigned its own id."""
        waiters = [self.join(instance_id=f"instance-{number}" if instance_ids else None, protocols=protocols) for number in range(count)]
        self.move(DELAY_MS * (1 if count == 1 else 2))
        members = [str(self.joined(waiter)["member_id"]) for waiter in waiters]
        self.assign(members, 1)
        assert self.state == "Stable"
        return members

    def assign(self, members: list[str], generation_id: int) -> list[Fields]:
        """All send SyncGroup, the leader (the first) last."""
        assignments = {member_id: member_id.encode() for member_id in members}
        waiters = [self.sync(member_id, generation_id) for member_id in members[1:]]
        assert all(self.waits(waiter) for waiter in waiters)
        waiters.insert(0, self.sync(members[0], generation_id, assignments=assignments))
        return [self.answers[waiter] for waiter in waiters]
