"""What the driver asks the brokers: which partitions there are, and at which offsets they begin, end, or were at some time."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar
from uuid import UUID

from millstream.client.cluster import Cluster
from millstream.client.codecs.fetch import READ_COMMITTED, READ_UNCOMMITTED
from millstream.client.codecs.metadata import TopicMetadata, metadata_request, read_metadata
from millstream.client.errors import BrokerUnavailable
from millstream.client.retry import may_pass, retry
from millstream.coordination.topic_names import INTERNAL_TOPICS
from millstream.errors import InvalidTopic, UnknownTopicOrPartition
from millstream.offset import EARLIEST, LATEST
from millstream.spark.options import OptionError
from millstream.spark.positions import AtEdge, AtOffsets, AtTime, AtTimes, Position
from millstream.spark.source.read_options import ReadOptions
from millstream.topic_partition import TopicPartition

T = TypeVar("T")

_NOTHING_SO_NEW: Final = -1
_MISSING: Final = {UnknownTopicOrPartition.code, InvalidTopic.code}
"""How a broker says that there is no such topic. Any other error is one of the moment, or a reason to stop."""


class SourceOffsets:
    """The partitions of a query's topics and their offsets, as they are now."""

    def __init__(self, cluster: Cluster, options: ReadOptions) -> None:
        self._cluster = cluster
        self._options = options
        self._has_answered = False
        self._topic_ids: dict[str, UUID] = {}
        self._isolation = READ_COMMITTED if options.read_committed else READ_UNCOMMITTED

    def partitions(self, *, must_exist: bool = True) -> tuple[TopicPartition, ...]:
        """The partitions that the query reads; a topic that is named and missing is an error, or, if it need not exist, has none."""
        selection = self._options.selection
        names = selection.names()
        topics = self._ask(self._existing_topics)
        self._cluster.refresh(topics)
        existing = {name: topic.partitions for name, topic in topics.items()}
        chosen = selection.choose(existing)
        missing = sorted(set(names or ()).difference(existing)) or sorted(map(str, set(selection.partitions).difference(chosen)))
        if must_exist and missing:
            raise UnknownTopicOrPartition(
                f"{', '.join(missing)}: no such topic or partition at {self._options.bootstrap_servers}; "
                "see the options subscribe and assign"
            )
        return chosen

    def ends(self) -> dict[TopicPartition, int]:
        """Where the partitions that there are end. One may go away between the two questions: then both are asked again."""
        return self._ask(lambda: self.latest(self.partitions(must_exist=False)))

    def earliest(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Where each partition begins."""
        return self._at(dict.fromkeys(places, EARLIEST))

    def latest(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Where each partition ends, for readers of this isolation level."""
        return self._at(dict.fromkeys(places, LATEST))

    def starting(self, position: Position, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offsets where a new query begins."""
        if isinstance(position, AtTime | AtTimes):
            option = "startingTimestamp" if isinstance(position, AtTime) else "startingOffsetsByTimestamp"
            found = self._at_times(option, position, places)
            return self._where_nothing_is_so_new(found, refuse=not self._options.starting_latest_if_no_match, option=option)
        return self._at_offsets("startingOffsets", position, places)

    def ending(self, position: Position, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offsets where a batch ends."""
        if isinstance(position, AtTime | AtTimes):
            option = "endingTimestamp" if isinstance(position, AtTime) else "endingOffsetsByTimestamp"
            return self._where_nothing_is_so_new(self._at_times(option, position, places), refuse=False, option=option)
        return self._at_offsets("endingOffsets", position, places)

    def _existing_topics(self) -> Mapping[str, TopicMetadata]:
        """The topics of the query that exist. Not what the cluster remembers: topics and partitions come and go."""
        selection = self._options.selection
        topics = read_metadata(self._cluster.call(metadata_request(selection.names()))).topics
        # As Kafka's consumers: no pattern is meant to match these (`exclude.internal.topics`), and who names one reads it.
        hidden = INTERNAL_TOPICS if selection.pattern else frozenset()
        wanted = {name: topic for name, topic in topics.items() if selection.matches(name) and name not in hidden}
        existing = {name: topic for name, topic in wanted.items() if topic.error_code not in _MISSING}
        for topic in existing.values():
            topic.check()
        self._check_same_topics(existing)
        return existing

    def _check_same_topics(self, existing: Mapping[str, TopicMetadata]) -> None:
        """A topic that was deleted and created again has the same name and perhaps as many messages, but others."""
        ids = {name: topic.topic_id for name, topic in existing.items() if topic.topic_id is not None}
        anew = sorted(name for name, topic_id in ids.items() if self._topic_ids.get(name, topic_id) != topic_id)
        self._topic_ids |= ids
        if anew:
            self._options.report_data_loss(f"{', '.join(anew)} was deleted and created again: its offsets mean other messages now")

    def _ask(self, attempt: Callable[[], T]) -> T:
        """Ask any broker. One that does not answer is asked again, while there is time, only where a broker has answered before: a wrong
        address is an error at once."""
        final = BrokerUnavailable if not self._has_answered else ()
        timeout_s = self._options.request_timeout_ms / 1000
        answer = retry(attempt, timeout_s=timeout_s, may_pass=lambda error: may_pass(error) and not isinstance(error, final))
        self._has_answered = True
        return answer

    def _at(self, wanted: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        if not wanted:
            return {}
        return {place: found.offset for place, found in self._cluster.offsets(wanted, isolation_level=self._isolation).items()}

    def _at_offsets(self, option: str, position: AtEdge | AtOffsets, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        if isinstance(position, AtEdge):
            return self._at(dict.fromkeys(places, position.edge))
        _check_same_partitions(option, position.offsets, places, hint="use -1 for latest and -2 for earliest")
        edges = self._at({place: offset for place, offset in position.offsets.items() if offset < 0})
        return dict(position.offsets) | edges

    def _at_times(self, option: str, position: AtTime | AtTimes, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        if isinstance(position, AtTime):
            return self._at(dict.fromkeys(places, position.timestamp_ms))
        _check_same_partitions(option, position.timestamps_ms, places, hint="give a time for each")
        return self._at(dict(position.timestamps_ms))

    def _where_nothing_is_so_new(self, found: dict[TopicPartition, int], *, refuse: bool, option: str) -> dict[TopicPartition, int]:
        missing = [place for place, offset in found.items() if offset == _NOTHING_SO_NEW]
        if missing and refuse:
            raise OptionError(
                option,
                f"{', '.join(map(str, missing))} has no record of that time or later. "
                "startingOffsetsByTimestampStrategy = latest begins at the end instead",
            )
        return found | self.latest(missing)


def _check_same_partitions(option: str, given: Iterable[TopicPartition], places: Iterable[TopicPartition], *, hint: str) -> None:
    named, existing = set(given), set(places)
    if named != existing:
        missing = ", ".join(map(str, sorted(existing - named))) or "none"
        unknown = ", ".join(map(str, sorted(named - existing))) or "none"
        raise OptionError(option, f"it must name exactly the partitions that are read, {hint}. Missing: {missing}. Not read: {unknown}")
