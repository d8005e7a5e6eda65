"""Progress that a source reports: what cannot be committed is a warning, and not tried again at every micro-batch."""

import logging
from collections.abc import Iterator

import pytest

from millstream.client.cluster import Cluster
from millstream.errors import MalformedFrame
from millstream.spark.group_progress import ReportedProgress
from millstream.topic_partition import TopicPartition
from tests.brokers import Broker
from tests.spark.admin import committed, member_of
from tests.spark.topic_content import write_numbers
from tests.topics import fresh_name


@pytest.fixture
def cluster(broker: Broker) -> Iterator[Cluster]:
    """The shared broker, as a task sees it."""
    with Cluster(broker.bootstrap_servers) as found:
        yield found


def test_what_a_group_with_members_refuses_is_committed_later(
    broker: Broker, cluster: Cluster, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    write_numbers(broker, topic, range(3))
    group, now = fresh_name("group"), [100.0]
    progress = ReportedProgress(cluster, group, timeout_s=30, clock=lambda: now[0])
    consumer = member_of(broker, group, topic)
    with caplog.at_level(logging.WARNING):
        progress.report({TopicPartition(topic, 0): 1})
        progress.report({TopicPartition(topic, 0): 2})
    consumer.close()
    assert len(caplog.messages) == 1
    assert f"is not committed to the group {group!r}" in caplog.messages[0]
    assert "let the option group.id name a group of the query's own" in caplog.messages[0]
    progress.report({TopicPartition(topic, 0): 2})
    assert committed(broker, group).get(0) != 2
    now[0] += 60
    progress.report({TopicPartition(topic, 0): 2})
    assert committed(broker, group) == {0: 2}


def test_a_topic_that_is_gone_is_a_warning(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    progress = ReportedProgress(cluster, fresh_name("group"), timeout_s=0.1)
    progress.report({TopicPartition(fresh_name("missing"), 0): 1})
    assert "the query goes on" in caplog.text


def test_a_broker_that_answers_nonsense_is_a_warning(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer_nonsense(*_: object) -> None:
        raise MalformedFrame("the broker sent an answer to which there is no request")

    monkeypatch.setattr(cluster, "call", answer_nonsense)
    ReportedProgress(cluster, fresh_name("group"), timeout_s=0.1).report({TopicPartition("t", 0): 1})
    assert "the query goes on. the broker sent an answer" in caplog.text
