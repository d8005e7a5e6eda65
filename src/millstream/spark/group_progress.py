"""The progress of a query as the committed offsets of a consumer group, so that every tool that shows lag shows the query's.

Commits are those of a client without membership (generation -1), which a group takes while it has no members. Spark's checkpoint stays the
truth about where a query goes on: a source commits its offsets and never reads them (`ReportedProgress`). A sink commits what it has
written last, and reads that (`sink.sink_progress`).
"""

import logging
from collections.abc import Callable
from time import monotonic
from typing import Any, Final, NamedTuple

from millstream.client.cluster import Cluster
from millstream.client.codecs.request import MessageRequest
from millstream.client.coordinators import GROUP, Coordinators
from millstream.client.errors import kafka_error
from millstream.client.retry import retry
from millstream.client.transactions import SECOND_PROTOCOL, OpenTransaction
from millstream.errors import MillstreamError, UnknownMemberId, UnstableOffsetCommit
from millstream.spark.positions import Offsets
from millstream.topic_partition import TopicPartition
from millstream.wire.api import ApiKey

logger = logging.getLogger(__name__)

_LAST_WITH_TOPIC_NAMES: Final = 9
"""From version 10 on OffsetCommit and OffsetFetch know topics by their ids."""
_TXN_OFFSET_COMMITS: Final = {1: (0, 4), SECOND_PROTOCOL: (5, 5)}
"""Versions of TxnOffsetCommit by the protocol of the transaction: version 5 also adds the group to it."""
_MOST_PATIENCE_S: Final = 5.0
_REPORT_PAUSE_S: Final = 30.0


class CommittedOffset(NamedTuple):
    """An offset, and the text that was committed with it."""

    offset: int
    metadata: str


class GroupProgress:
    """The committed offsets of a group; what did not change is not sent again."""

    def __init__(self, cluster: Cluster, group_id: str, *, timeout_s: float) -> None:
        self._group_id = group_id
        self._coordinators = Coordinators(cluster, GROUP, timeout_s=timeout_s)
        self._committed: dict[TopicPartition, int] = {}

    def commit(self, offsets: Offsets, *, metadata: str = "") -> None:
        """Commit these offsets, each with this text beside it; tries again while the coordinator moves or loads."""
        changed = {place: offset for place, offset in offsets.items() if self._committed.get(place) != offset}
        if not changed:
            return
        try:
            self._coordinators.ask(self._group_id, self._commit_request(changed, metadata), self._check_commit)
        except UnknownMemberId:
            raise UnknownMemberId(
                f"the progress of the query cannot be committed to the group {self._group_id!r}, because consumers are members of it: "
                "let the option group.id name a group of the query's own"
            ) from None
        self._committed.update(changed)

    def commit_in(self, transaction: OpenTransaction, offsets: Offsets, *, metadata: str) -> None:
        """Commit these offsets in a transaction: they count when it is committed."""
        fields = {
            "transactional_id": transaction.transactional_id,
            "group_id": self._group_id,
            "producer_id": transaction.producer_id,
            "producer_epoch": transaction.epoch,
            "topics": _topics(offsets, metadata),
        }
        lowest, highest = _TXN_OFFSET_COMMITS[transaction.version]
        request: MessageRequest[Any] = MessageRequest(ApiKey.TXN_OFFSET_COMMIT, fields, lowest=lowest, highest=highest)
        self._coordinators.ask(self._group_id, request, self._check_commit)

    def committed(self, topic: str | None = None, *, patience_s: float) -> dict[TopicPartition, CommittedOffset]:
        """The offsets of a topic's first partition, or all of the group; waits for the transactions that are about to replace them, and
        raises `UnstableOffsetCommit` if one of them is open for longer."""
        return retry(
            lambda: self._coordinators.ask(self._group_id, self._fetch_request(topic), self._read_fetch),
            timeout_s=patience_s,
            may_pass=lambda error: isinstance(error, UnstableOffsetCommit),
        )

    def _commit_request(self, offsets: Offsets, metadata: str) -> MessageRequest[Any]:
        fields = {
            "group_id": self._group_id,
            "generation_id_or_member_epoch": -1,
            "member_id": "",
            "topics": _topics(offsets, metadata),
        }
        return MessageRequest(ApiKey.OFFSET_COMMIT, fields, lowest=2, highest=_LAST_WITH_TOPIC_NAMES)

    def _check_commit(self, answer: Any) -> None:
        for topic in answer.topics:
            for partition in topic.partitions:
                _check(int(partition.error_code), f"committing an offset of {topic.name} for the group {self._group_id!r} failed")

    def _fetch_request(self, topic: str | None) -> MessageRequest[Any]:
        # All offsets of a group are not those that have only been committed in an open transaction: a topic is named if there is one.
        topics = None if topic is None else [{"name": topic, "partition_indexes": [0]}]
        group = {"group_id": self._group_id, "member_id": None, "member_epoch": -1, "topics": topics}
        fields = {"group_id": self._group_id, "topics": topics, "groups": [group], "require_stable": True}
        return MessageRequest(ApiKey.OFFSET_FETCH, fields, lowest=2, highest=_LAST_WITH_TOPIC_NAMES)

    def _read_fetch(self, answer: Any) -> dict[TopicPartition, CommittedOffset]:
        found = answer.groups[0] if answer.groups else answer
        what = f"asking for the offsets of the group {self._group_id!r} failed"
        _check(int(found.error_code), what)
        for topic in found.topics:
            for partition in topic.partitions:
                if partition.error_code == UnstableOffsetCommit.code:
                    _check(UnstableOffsetCommit.code, what)
        return {
            TopicPartition(topic.name, int(partition.partition_index)): CommittedOffset(
                int(partition.committed_offset), partition.metadata or ""
            )
            for topic in found.topics
            for partition in topic.partitions
        }


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


def _topics(offsets: Offsets, metadata: str) -> list[dict[str, object]]:
    """As both requests name them."""
    topics: dict[str, list[dict[str, object]]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        entry = {"partition_index": partition, "committed_offset": offset, "committed_leader_epoch": -1, "committed_metadata": metadata}
        topics.setdefault(topic, []).append(entry)
    return [{"name": topic, "partitions": partitions} for topic, partitions in topics.items()]


def _check(code: int, what: str) -> None:
    if code:
        raise kafka_error(code, what)
