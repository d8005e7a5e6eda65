"""The machine behind one partition of a coordinator's topic: what every coordinator has in common, whatever it coordinates.

A machine is pure: it neither waits nor writes. While the log is replayed, `apply` is the only way its state changes. Then operations and
ticks are decided one at a time, and each returns an `Outcome`: the records that say what was decided, and answers to requests.

When a machine returns an `Outcome` it has applied the records to itself. The runtime (`broker.coordinators.runtime`) appends them as
one batch and sends the answers once that batch is committed (below the high watermark); answers without records wait for whatever was
written before them. An outcome may also have consequences outside the coordinator, which wait for the same. If the append fails, the
machine is given up (`unloaded`) and replayed, because it knows more than the log does.

Records can be part of a client's transaction, as the offsets are that a producer commits. Those the machine does not apply to itself: it is
handed them when they are in the log (`apply_pending`), because the log may refuse them, and the end of the transaction when its marker is.

A waiter stands for the request that came with an operation; the machine keeps it and gives it back, exactly once, in this outcome or in a
later one.

An answer is a mapping of Kafka's field names: ints for error codes, milliseconds for durations. Fields that a version does not have are
dropped by the writer of the message, so one answer fits all versions.
"""

from typing import NamedTuple, Protocol

Fields = dict[str, object]
"""An answer, or a part of one, by Kafka's snake_case names."""

Waiter = object
"""Opaque to a machine: what was handed in with an operation."""


class CoordinatorRecord(NamedTuple):
    """One record of a coordinator's topic in Kafka's own format; a value of None deletes the key."""

    key: bytes
    value: bytes | None


class Outcome:
    """Records to write and answers to send."""

    __slots__ = ("records", "replies")

    def __init__(self) -> None:
        self.records: list[CoordinatorRecord] = []
        self.replies: list[tuple[Waiter, Fields]] = []

    @property
    def has_consequences(self) -> bool:
        """Whether something has to be done elsewhere when the records are committed; what it is, the machine's service knows."""
        return False

    def reply(self, waiter: Waiter, fields: Fields) -> None:
        """Answer the request that came with `waiter`."""
        self.replies.append((waiter, fields))

    def write(self, record: CoordinatorRecord) -> None:
        """Add a record, which the machine has applied to itself."""
        self.records.append(record)

    def merge(self, other: "Outcome") -> None:
        """Take over what `other` holds, after what is here."""
        self.records += other.records
        self.replies += other.replies

    def __repr__(self) -> str:
        return f"Outcome(records={self.records!r}, replies={self.replies!r})"


class CoordinatorShard(Protocol):
    """What the runtime needs of a machine; what it decides besides, the operations that are handed to the runtime know."""

    def apply(self, record: CoordinatorRecord) -> None:
        """Replay one record. MalformedFrame if it makes no sense."""

    def apply_pending(self, record: CoordinatorRecord, producer_id: int) -> None:
        """Take one record that stands in the log in a transaction of a producer. MalformedFrame if it makes no sense."""

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """Take the end of a producer's transaction, whose marker stands in the log."""

    def loaded(self, now_ms: int) -> Outcome:
        """The log has been replayed: time begins to count."""

    def unloaded(self) -> Outcome:
        """Answer every waiter with NOT_COORDINATOR; the machine is not used afterwards."""

    def tick(self, now_ms: int) -> Outcome:
        """Do what is due."""

    def next_deadline_ms(self) -> int | None:
        """When to tick next, or earlier; a time that has passed means as soon as possible. None if nothing can become due."""
