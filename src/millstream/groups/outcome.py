"""What a machine decided: records for `__consumer_offsets`, and answers to requests.

When a machine returns an `Outcome` it has already applied the records to itself. The shell appends them as one batch and sends the answers
once that batch is committed (below the high watermark); answers without records wait for whatever was written before them. If the append
fails the shard has to be given up (`unloaded`) and replayed, because the machine knows more than the log does.

A waiter is whatever the shell handed in with a command to find the request again; the machine keeps it and gives it back, exactly once.
The answer to a JoinGroup or SyncGroup may come in the outcome of a later command or tick.

An answer is a mapping of Kafka's field names: ints for error codes, milliseconds for durations. Fields that a version does not have are
dropped by the writer of the message, so one answer fits all versions.
"""

from typing import NamedTuple

Fields = dict[str, object]
"""An answer, or a part of one, by Kafka's snake_case names."""

Waiter = object
"""Opaque: what the shell handed in with a command."""


class GroupRecord(NamedTuple):
    """One record of `__consumer_offsets` in Kafka's own format; a value of None deletes the key."""

    key: bytes
    value: bytes | None


class Outcome:
    """Records to write and answers to send."""

    __slots__ = ("records", "replies")

    def __init__(self) -> None:
        self.records: list[GroupRecord] = []
        self.replies: list[tuple[Waiter, Fields]] = []

    def reply(self, waiter: Waiter, fields: Fields) -> None:
        """Answer the request that came with `waiter`."""
        self.replies.append((waiter, fields))

    def write(self, record: GroupRecord) -> None:
        """Add a record, which the machine has applied to itself."""
        self.records.append(record)

    def merge(self, other: "Outcome") -> None:
        """Take over what `other` holds, after what is here."""
        self.records += other.records
        self.replies += other.replies

    def __repr__(self) -> str:
        return f"Outcome(records={self.records!r}, replies={self.replies!r})"
