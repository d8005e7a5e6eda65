"""Scripts for offsets in transactions: a log in which records stand plainly or in a producer's transaction, and markers.

As the runtime does it, what is decided about a commit in a transaction is written, and then handed back to the coordinator.
"""

from collections.abc import Iterable
from typing import NamedTuple, cast

from millstream.coordinator_shard import CoordinatorRecord, Fields, Outcome
from millstream.groups.commands import CommitPendingOffsets, PartitionOffset, TopicOffsets
from millstream.groups.settings import GroupSettings
from tests.machines.group_script import GROUP, SETTINGS, START_MS, Script


class Written(NamedTuple):
    """A record as it stands in the log; `producer_id` if it is in a transaction."""

    record: CoordinatorRecord
    producer_id: int | None = None


class EndMarker(NamedTuple):
    """The end of a producer's transaction."""

    producer_id: int
    is_commit: bool


class PendingOffsetsScript(Script):
    """A coordinator with transactions in its log."""

    def __init__(self, settings: GroupSettings = SETTINGS, *, entries: Iterable[Written | EndMarker] = (), now_ms: int = START_MS) -> None:
        self.entries = list(entries)
        super().__init__(settings, now_ms=now_ms)

    def load(self) -> None:
        for entry in self.entries:
            if isinstance(entry, EndMarker):
                self.coordinator.end_transaction(entry.producer_id, is_commit=entry.is_commit)
            elif entry.producer_id is None:
                self.coordinator.apply(entry.record)
            else:
                self.coordinator.apply_pending(entry.record, entry.producer_id)
        self.take(self.coordinator.loaded(self.now_ms))

    def take(self, outcome: Outcome) -> Outcome:
        self.entries += [Written(record) for record in outcome.records]
        return super().take(outcome)

    def restarted(self) -> "PendingOffsetsScript":
        return PendingOffsetsScript(self.settings, entries=self.entries, now_ms=self.now_ms)

    def commit_pending(
        self,
        producer_id: int,
        offset: int,
        member_id: str = "",
        generation_id: int = -1,
        *,
        partition: int = 0,
        topics: list[TopicOffsets] | None = None,
        **changes: object,
    ) -> object:
        """The error code of a TxnOffsetCommit, of one partition unless `topics` says otherwise."""
        if topics is None:
            topics = [TopicOffsets("topic", None, [PartitionOffset(partition, offset)])]
        command = CommitPendingOffsets(GROUP, member_id, generation_id, topics)._replace(**changes)  # type: ignore[arg-type]
        self.asked += 1
        outcome = self.coordinator.commit_pending(command, self.asked, now_ms=self.now_ms)
        records, outcome.records = outcome.records, []
        self.take(outcome)
        for record in records:
            self.entries.append(Written(record, producer_id))
            self.coordinator.apply_pending(record, producer_id)
        answered = cast("list[Fields]", self.answers[self.asked]["topics"])
        return cast("list[Fields]", answered[0]["partitions"])[0]["error_code"]

    def end(self, producer_id: int, *, is_commit: bool) -> None:
        """A marker is written."""
        self.entries.append(EndMarker(producer_id, is_commit))
        self.coordinator.end_transaction(producer_id, is_commit=is_commit)

    def fetched(self, *partitions: int, is_stable_required: bool = True, topic: str = "topic") -> list[tuple[object, object]]:
        """Offset and error code per partition, as OffsetFetch shows them."""
        answer = self.coordinator.fetch_offsets(GROUP, [(topic, None, partitions)], is_stable_required=is_stable_required)
        (shown,) = cast("list[Fields]", answer["topics"])
        return [(one["committed_offset"], one["error_code"]) for one in cast("list[Fields]", shown["partitions"])]
