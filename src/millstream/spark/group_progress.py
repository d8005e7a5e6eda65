"""The progress of a query as the committed offsets of a consumer group, so that every tool that shows lag shows the query's.

Commits are those of a client without membership (generation -1), which a group takes while it has no members. Spark's checkpoint stays the
truth about where a query goes on: a source commits its offsets and never reads them (`ReportedProgress`). A sink commits what it has
written last, and reads that (`sink.sink_progress`).
"""

import logging
from collections.abc import Callable
from time import monotonic
from typing import Any, Final, NamedTuple, TypeVar

from millstream.client.cluster import Cluster
from millstream.client.errors import kafka_error
from millstream.client.request import MessageRequest
from millstream.client.retry import retry
from millstream.errors import MillstreamError, UnknownMemberId
from millstream.spark.positions import Offsets
from millstream.topic_partition import TopicPartition
from millstream.wire.api import ApiKey

logger = logging.getLogger(__name__)

T = TypeVar("T")

_GROUP: Final = 0
_LAST_WITH_TOPIC_NAMES: Final = 9
"""From version 10 on OffsetCommit and OffsetFetch know topics by their ids."""
_MOST_PATIENCE_S: Final = 5.0
_REPORT_PAUSE_S: Final = 30.0


class CommittedOffset(NamedTuple):
    """An offset, and the text that was committed with it."""

    offset: int
    metadata: str


class GroupProgress:
    """The committed offsets of a group; what did not change is not sent again."""

    def __init__(self, cluster: Cluster, group_id: str, *, timeout_s: float) -> None:
        self._cluster = cluster
        self._group_id = group_id
        self._timeout_s = timeout_s
        self._coordinator: int | None = None
        self._committed: dict[TopicPartition, int] = {}

    def commit(self, offsets: Offsets, *, metadata: str = "") -> None:
        """Commit these offsets, each with this text beside it; tries again while the coordinator moves or loads."""
        changed = {place: offset for place, offset in offsets.items() if self._committed.get(place) != offset}
        if not changed:
            return
        try:
            self._retry(lambda coordinator: self._commit_once(coordinator, changed, metadata))
        except UnknownMemberId:
            raise UnknownMemberId(
                f"the progress of the query cannot be committed to the group {self._group_id!r}, because consumers are members of it: "
                "let the option group.id name a group of the query's own"
            ) from None
        self._committed.update(changed)

    def committed(self) -> dict[TopicPartition, CommittedOffset]:
        """All offsets of the group; asks again while the coordinator moves or loads."""
        return self._retry(self._fetch_once)

    def _retry(self, ask: Callable[[int], T]) -> T:
        """Ask the coordinator, and again while it moves or loads."""

        def attempt() -> T:
            # Unless it answers, it is looked for again.
            coordinator, self._coordinator = self._coordinator, None
            coordinator = self._find_coordinator() if coordinator is None else coordinator
            answer = ask(coordinator)
            self._coordinator = coordinator
            return answer

        return retry(attempt, timeout_s=self._timeout_s)

    def _commit_once(self, coordinator: int, offsets: Offsets, metadata: str) -> None:
        topics: dict[str, list[dict[str, object]]] = {}
        for (topic, partition), offset in sorted(offsets.items()):
            entry = {"partition_index": partition, "committed_offset": offset, "committed_leader_epoch": -1, "committed_metadata": metadata}
            topics.setdefault(topic, []).append(entry)
        fields = {
            "group_id": self._group_id,
            "generation_id_or_member_epoch": -1,
            "member_id": "",
            "topics": [{"name": topic, "partitions": partitions} for topic, partitions in topics.items()],
        }
        request: MessageRequest[Any] = MessageRequest(ApiKey.OFFSET_COMMIT, fields, lowest=2, highest=_LAST_WITH_TOPIC_NAMES)
        answer = self._cluster.connection(coordinator).call(request)
        for topic in answer.topics:
            for partition in topic.partitions:
                _check(int(partition.error_code), f"committing an offset of {topic.name} for the group {self._group_id!r} failed")

    def _fetch_once(self, coordinator: int) -> dict[TopicPartition, CommittedOffset]:
        group = {"group_id": self._group_id, "member_id": None, "member_epoch": -1, "topics": None}
        fields = {"group_id": self._group_id, "topics": None, "groups": [group], "require_stable": False}
        request: MessageRequest[Any] = MessageRequest(ApiKey.OFFSET_FETCH, fields, lowest=2, highest=_LAST_WITH_TOPIC_NAMES)
        answer: Any = self._cluster.connection(coordinator).call(request)
        found = answer.groups[0] if answer.groups else answer
        _check(int(found.error_code), f"asking for the offsets of the group {self._group_id!r} failed")
        return {
            TopicPartition(topic.name, int(partition.partition_index)): CommittedOffset(
                int(partition.committed_offset), partition.metadata or ""
            )
            for topic in found.topics
            for partition in topic.partitions
        }

    def _find_coordinator(self) -> int:
        fields = {"key": self._group_id, "key_type": _GROUP, "coordinator_keys": [self._group_id]}
        answer: Any = self._cluster.call(MessageRequest(ApiKey.FIND_COORDINATOR, fields, lowest=1))
        found = answer.coordinators[0] if answer.coordinators else answer
        _check(int(found.error_code), f"the coordinator of the group {self._group_id!r} was not found")
        return int(found.node_id)


class ReportedProgress:
    """The progress of a source, committed as far as that is possible: it never ends a query, because the query does not read it.

    What cannot be committed (a group with members, a coordinator that is away) is a warning, and is tried again later: a query does not
    wait for it before every micro-batch.
    """

    def __init__(self, cluster: Cluster, group_id: str, *, timeout_s: float, clock: Callable[[], float] = monotonic) -> None:
        self._progress = GroupProgress(cluster, group_id, timeout_s=min(timeout_s, _MOST_PATIENCE_S))
        self._group_id = group_id
        self._clock = clock
        self._next_attempt = 0.0

    def report(self, offsets: Offsets) -> None:
        """Commit these offsets, or log why not."""
        if self._clock() < self._next_attempt:
            return
        try:
            self._progress.commit(offsets)
        except MillstreamError as error:
            self._next_attempt = self._clock() + _REPORT_PAUSE_S
            logger.warning(
                "the progress of the query is not committed to the group %r, and tried again in %d s; the query goes on. %s",
                self._group_id,
                _REPORT_PAUSE_S,
                error,
            )


def _check(code: int, what: str) -> None:
    if code:
        raise kafka_error(code, what)
