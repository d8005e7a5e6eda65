"""What the paper's consumer says when it has nothing to read, so that a person learns why: the truth, once, and nothing else."""

import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from millstream import Consumer
from millstream.errors import UnknownTopicOrPartition
from millstream.testing import Broker
from tests.topics import fresh_name
from tests.waiting import wait_until

PROJECT = Path(__file__).parents[2]
SESSION_S = 3.0


@pytest.fixture
def topic(served: Broker) -> str:
    name = fresh_name("clicks")
    served.create_topic(name)
    return name


class Said(logging.Handler):
    """What a program that set up no logging shows: warnings and worse."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


@pytest.fixture
def said() -> Iterator[list[str]]:
    handler, logger = Said(), logging.getLogger("millstream.paper")
    logger.addHandler(handler)
    yield handler.messages
    logger.removeHandler(handler)


def delete(broker: Broker, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})  # the request ends with it, so it is kept
    admin.delete_topics([topic])[topic].result(30)


def consumer(broker: Broker, group: str, name: str) -> Consumer:
    return Consumer(broker.coordination, group, consumer_id=name, session_timeout_s=SESSION_S)


def test_a_missing_topic_is_the_first_and_only_thing_that_is_said(served: Broker, said: list[str]) -> None:
    with pytest.raises(UnknownTopicOrPartition) as refused, consumer(served, fresh_name("group"), "one") as one:
        one.create_message_streams("nosuch")
    assert str(refused.value) == "there is no topic 'nosuch': create it, for example with `millstream topic create nosuch`"
    assert said == []


def test_a_stream_whose_topic_is_deleted_says_so_and_goes_on_with_the_next_of_that_name(
    served: Broker, topic: str, said: list[str]
) -> None:
    with consumer(served, fresh_name("group"), "one") as one:
        [stream] = one.create_message_streams(topic)
        delete(served, topic)
        gone = f"the topic {topic!r} was deleted: its streams wait until there is a topic of this name again, or they are closed"
        wait_until(lambda: said == [gone], "the stream says that its topic was deleted")
        assert stream.partitions == []
        served.create_topic(topic)
        wait_until(lambda: said == [gone, f"there is a topic {topic!r} again: its streams go on with it"], "and that it is back")
        wait_until(lambda: stream.partitions == [0], "the stream has its partition again")


def test_who_gets_nothing_because_a_consumer_was_killed_learns_how_long(
    served: Broker, topic: str, said: list[str], tmp_path: Path
) -> None:
    group, notes = fresh_name("group"), tmp_path / "notes"
    module = "tests.paper.consumer_process"
    killed = subprocess.Popen([sys.executable, "-m", module, served.coordination, group, topic, "a", str(notes), "0"], cwd=PROJECT)
    try:
        wait_until(lambda: notes.exists() and b"joined" in notes.read_bytes(), "the process is in the group")
    finally:
        killed.kill()
        killed.wait(30)
    with consumer(served, group, "b") as second:
        [stream] = second.create_message_streams(topic)
        wait_until(lambda: stream.partitions == [0], "the partition is free")
    nothing = f"consumer b of the group {group!r} has no partition of {topic!r}: all 1 are with a."
    freed = "those of one that was killed come free when its session ends, at most 3 s from now"
    assert said == [f"{nothing} A consumer that leaves gives its partitions up at once; {freed}"]


def test_the_name_of_a_killed_consumer_is_waited_for_with_a_word(served: Broker, topic: str, said: list[str]) -> None:
    group = fresh_name("group")
    with consumer(served, group, "a") as first:
        first.create_message_streams(topic)
        with consumer(served, group, "a") as second, pytest.raises(Exception, match="give each an id of its own"):
            second.create_message_streams(topic)
    waiting = f"another consumer of the group {group!r} is called 'a'; if that was killed, its session ends within 3 s: waiting for that"
    assert set(said) == {waiting}


def test_a_rewind_that_moves_nothing_says_so(served: Broker, topic: str, said: list[str]) -> None:
    group = fresh_name("group")
    with consumer(served, group, "a") as first, consumer(served, group, "b") as second:
        first.create_message_streams(topic)
        second.create_message_streams(topic)
        assert first.rewind(topic, to="earliest") == {0: 0}
        assert said == []
        assert second.rewind(topic, to="earliest") == {}
    assert said[0] == f"rewind moved nothing: consumer b owns no partition of {topic!r} now, and it rewinds only its own"
