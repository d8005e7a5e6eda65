"""A member of a classic group: who it is, what it offers, what it was assigned, and the request of its that waits for an answer.

Not durable: protocols other than the chosen one, waiters, deadlines. A member that waits in a JoinGroup or SyncGroup cannot send
heartbeats, so its session does not expire meanwhile; only a member that is new and was never answered can be given up while it waits.
"""

from collections.abc import Container

from millstream.coordinator_shard import Fields, Outcome, Waiter
from millstream.errors import RebalanceInProgress
from millstream.groups.classic.answers import join_error, sync_answer
from millstream.groups.classic.records import MemberRecord
from millstream.groups.commands import JoinGroup, Protocol

NO_ASSIGNMENT = b""


class ClassicMember:
    """One member."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "deadline_ms",
        "instance_id",
        "is_new",
        "join_waiter",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "reported_deadline_ms",
        "session_timeout_ms",
        "sync_waiter",
    )

    def __init__(
        self, member_id: str, instance_id: str | None, *, client_id: str, client_host: str, protocols: tuple[Protocol, ...]
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.protocols = protocols
        self.session_timeout_ms = 0
        self.rebalance_timeout_ms = 0
        self.assignment = NO_ASSIGNMENT
        self.join_waiter: Waiter | None = None
        self.sync_waiter: Waiter | None = None
        self.deadline_ms: int | None = None
        """When the session is over; None while nothing is expected from the member."""
        self.reported_deadline_ms: int | None = None
        """The end of a session that `silence` has reported."""
        self.is_new = False

    @classmethod
    def joining(cls, member_id: str, command: JoinGroup) -> "ClassicMember":
        """The member that a JoinGroup describes."""
        member = cls(
            member_id,
            command.instance_id,
            client_id=command.client_id,
            client_host=command.client_host,
            protocols=command.protocols,
        )
        member.take_timeouts(command)
        return member

    @classmethod
    def restored(cls, record: MemberRecord, *, protocol_name: str) -> "ClassicMember":
        """The member that a record remembers."""
        member = cls(
            record.member_id,
            record.instance_id,
            client_id=record.client_id,
            client_host=record.client_host,
            protocols=(Protocol(protocol_name, record.subscription),),
        )
        member.session_timeout_ms = record.session_timeout_ms
        member.rebalance_timeout_ms = record.rebalance_timeout_ms
        member.assignment = record.assignment
        return member

    def take_timeouts(self, command: JoinGroup) -> None:
        """The timeouts of a JoinGroup; the first version of it has only one."""
        self.session_timeout_ms = command.session_timeout_ms
        self.rebalance_timeout_ms = command.rebalance_timeout_ms if command.rebalance_timeout_ms >= 0 else command.session_timeout_ms

    @property
    def is_awaiting_join(self) -> bool:
        """Whether a JoinGroup of its waits."""
        return self.join_waiter is not None

    @property
    def is_excused(self) -> bool:
        """Whether the member may be silent because it is we who owe it an answer."""
        return not self.is_new and self.is_waiting

    @property
    def is_waiting(self) -> bool:
        """Whether a request of it has not been answered yet."""
        return self.join_waiter is not None or self.sync_waiter is not None

    def await_join(self, waiter: Waiter, outcome: Outcome) -> None:
        """A JoinGroup waits; one that waited before it is answered."""
        self.answer_join(join_error(RebalanceInProgress.code, member_id=self.member_id), outcome)
        self.join_waiter = waiter

    def await_sync(self, waiter: Waiter, outcome: Outcome) -> None:
        """A SyncGroup waits; one that waited before it is answered."""
        self.answer_sync(sync_answer(RebalanceInProgress.code), outcome)
        self.sync_waiter = waiter

    def answer_join(self, fields: Fields, outcome: Outcome) -> None:
        """Answer the JoinGroup, if one waits."""
        if self.join_waiter is not None:
            outcome.reply(self.join_waiter, fields)
            self.join_waiter = None

    def answer_sync(self, fields: Fields, outcome: Outcome) -> None:
        """Answer the SyncGroup, if one waits."""
        if self.sync_waiter is not None:
            outcome.reply(self.sync_waiter, fields)
            self.sync_waiter = None

    def metadata(self, protocol_name: str) -> bytes:
        """What the member said under that protocol."""
        for protocol in self.protocols:
            if protocol.name == protocol_name:
                return protocol.metadata
        raise KeyError(protocol_name)

    def vote(self, candidates: Container[str]) -> str:
        """The candidate it likes most."""
        return next(protocol.name for protocol in self.protocols if protocol.name in candidates)

    def to_record(self, protocol_name: str) -> MemberRecord:
        """What is remembered of the member."""
        return MemberRecord(
            self.member_id,
            self.instance_id,
            self.client_id,
            self.client_host,
            self.rebalance_timeout_ms,
            self.session_timeout_ms,
            self.metadata(protocol_name),
            self.assignment,
        )

    def describe(self, protocol_name: str | None) -> Fields:
        """The member as DescribeGroups shows it; its metadata only if a protocol is in force."""
        return {
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
            "client_id": self.client_id,
            "client_host": self.client_host,
            "member_metadata": self.metadata(protocol_name) if protocol_name is not None else b"",
            "member_assignment": self.assignment,
        }
