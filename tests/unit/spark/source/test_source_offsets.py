"""Which partitions a query reads, when brokers answer with errors: a topic is gone when they say so, and only then."""

from collections.abc import Iterable
from typing import Any, cast
from uuid import UUID

import pytest

from millstream.arrow.data_loss import DataLoss
from millstream.client.cluster import Cluster
from millstream.client.codecs.list_offsets import OffsetAndTime
from millstream.errors import KafkaError, LeaderNotAvailable, UnknownTopicOrPartition
from millstream.spark.source.read_options import parse_read_options
from millstream.spark.source.source_offsets import SourceOffsets
from millstream.topic_partition import TopicPartition
from millstream.wire.responses.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic

UNKNOWN, LEADER_NOT_AVAILABLE, NOT_AUTHORIZED, STORAGE_ERROR = 3, 5, 29, 56
A, B = TopicPartition("a", 0), TopicPartition("b", 0)


class Answers:
    """A cluster that gives prepared answers about its topics, one after the other; the last one stays."""

    def __init__(self, *answers: dict[str, int]) -> None:
        self.answers = list(answers)
        self.asked = 0
        self.topic_id: UUID | None = None

    def call(self, _: object) -> MetadataResponse:
        self.asked += 1
        codes = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        partition = MetadataResponsePartition(leader_id=1, replica_nodes=(1,), isr_nodes=(1,))
        topics = (MetadataResponseTopic(code, name, self.topic_id, partitions=() if code else (partition,)) for name, code in codes.items())
        return MetadataResponse(topics=tuple(topics))

    def refresh(self, topics: object) -> None:
        """Nothing is remembered here."""

    def offsets(self, wanted: Iterable[TopicPartition], *, isolation_level: int) -> dict[TopicPartition, OffsetAndTime]:
        """Every partition ends at offset 7; a topic that the next answer does not have is gone already."""
        for place in wanted:
            if self.answers[0].get(place.topic, UNKNOWN) == UNKNOWN:
                raise UnknownTopicOrPartition(place.topic)
        return {place: OffsetAndTime(7, -1) for place in wanted}


def source(answers: Answers, **options: Any) -> SourceOffsets:
    named = {"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.request.timeout.ms": "300"} | options
    return SourceOffsets(cast("Cluster", answers), parse_read_options(named))


def places(answers: Answers, *, must_exist: bool = False, **options: Any) -> tuple[TopicPartition, ...]:
    return source(answers, **options).partitions(must_exist=must_exist)


@pytest.mark.parametrize("code", [LEADER_NOT_AVAILABLE, STORAGE_ERROR])
@pytest.mark.parametrize("selection", [{"subscribe": "a,b"}, {"subscribePattern": "[ab]"}])
def test_an_error_of_the_moment_is_waited_for(code: int, selection: dict[str, Any]) -> None:
    answers = Answers({"a": code, "b": 0}, {"a": 0, "b": 0})
    assert places(answers, **selection) == (A, B)
    assert answers.asked == 2


def test_an_error_that_stays_is_raised_and_no_deletion() -> None:
    with pytest.raises(LeaderNotAvailable, match="the topic 'a' cannot be used"):
        places(Answers({"a": LEADER_NOT_AVAILABLE, "b": 0}), subscribe="a,b")


def test_an_error_that_no_second_attempt_cures_is_raised_at_once() -> None:
    answers = Answers({"a": NOT_AUTHORIZED, "b": 0})
    with pytest.raises(KafkaError, match="the topic 'a' cannot be used"):
        places(answers, subscribe="a,b")
    assert answers.asked == 1


def test_a_topic_that_is_unknown_is_gone() -> None:
    assert places(Answers({"a": UNKNOWN, "b": 0}), subscribe="a,b") == (B,)
    with pytest.raises(UnknownTopicOrPartition, match="a: no such topic or partition"):
        places(Answers({"a": UNKNOWN, "b": 0}), must_exist=True, subscribe="a,b")


def test_a_topic_that_goes_away_between_two_questions_is_gone() -> None:
    assert source(Answers({"a": 0, "b": 0}, {"b": 0}), subscribe="a,b").ends() == {B: 7}


def test_the_error_of_a_topic_that_is_not_the_query_s_is_not_its_business() -> None:
    assert places(Answers({"a": 0, "other": NOT_AUTHORIZED}), subscribePattern="[ab]") == (A,)


def test_topics_of_kafka_s_own_are_read_when_they_are_named_and_hidden_from_patterns() -> None:
    topics = Answers({"a": 0, "__consumer_offsets": 0})
    assert places(topics, subscribePattern=".*") == (A,)
    own = TopicPartition("__consumer_offsets", 0)
    assert places(Answers({"__consumer_offsets": 0}), subscribe="__consumer_offsets") == (own,)
    assert places(Answers({"__consumer_offsets": 0}), assign='{"__consumer_offsets": [0]}') == (own,)


def test_a_topic_that_was_created_again_is_lost_data_however_much_is_in_it() -> None:
    answers = Answers({"a": 0})
    answers.topic_id = UUID(int=1)
    offsets = source(answers, subscribe="a")
    assert offsets.partitions() == offsets.partitions() == (A,)
    answers.topic_id = UUID(int=2)
    with pytest.raises(DataLoss, match="a was deleted and created again: its offsets mean other messages now"):
        offsets.partitions()


def test_whoever_goes_on_without_lost_data_reads_the_topic_that_was_created_again() -> None:
    answers = Answers({"a": 0})
    answers.topic_id = UUID(int=1)
    offsets = source(answers, subscribe="a", failOnDataLoss="false")
    offsets.partitions()
    answers.topic_id = UUID(int=2)
    assert offsets.partitions() == (A,)
