"""`millstream topic` and `millstream top` against a real broker, ours or Apache Kafka: figures, options, partitions."""

import time

import pytest

from tests.batches import encode_batch
from tests.brokers import Broker
from tests.topics import create_topic, fresh_name, produce
from tests.unit.cli.conftest import Millstream, millstream
from tests.waiting import wait_until

__all__ = ["millstream"]

HOUR_MS = 3_600_000


@pytest.fixture
def written(broker: Broker) -> str:
    """Two partitions: six messages of an hour ago in one, thirty of now in the other."""
    name = create_topic(broker, partitions=2)
    now = time.time_ns() // 1_000_000
    with broker.connect() as connection:
        assert produce(connection, name, encode_batch([b"old"] * 6, timestamp=now - HOUR_MS), partition=0).error_code == 0
        assert produce(connection, name, encode_batch([b"new"] * 30, timestamp=now), partition=1).error_code == 0
    return name


def test_topics_are_listed_with_size_rate_and_last_write(millstream: Millstream, brokers: list[str], written: str) -> None:
    listed = millstream("topic", "list", "--output", "json", *brokers).documents[0]
    (found,) = [topic for topic in listed if topic["topic"] == written]
    assert (found["partitions"], found["replicas"], found["messages"]) == (2, 1, 36)
    assert 50 < found["size_bytes"] < 5_000
    assert found["messages_per_second"] in (0.5, 0)  # thirty in the last minute, unless this machine took a minute to get here
    assert 0 <= time.time() - found["last_write_ms"] / 1000 < 600
    assert written in millstream("topic", "list", *brokers).out


def test_options_are_set_and_reset(millstream: Millstream, brokers: list[str], written: str) -> None:
    def options() -> dict[str, str]:
        ((described,),) = millstream("topic", "describe", written, "--output", "json", *brokers).documents
        found: dict[str, str] = described["options"]
        return found

    altered = millstream("topic", "alter", written, "-c", "retention.ms=60000", "-c", "cleanup.policy=compact", *brokers)
    assert (altered.code, altered.out) == (0, f"altered {written}: retention.ms=60000, cleanup.policy=compact\n"), altered.err
    wait_until(lambda: options() == {"retention.ms": "60000", "cleanup.policy": "compact"}, "both options")
    assert millstream("topic", "alter", written, "--reset", "cleanup.policy", *brokers).out == f"altered {written}: cleanup.policy reset\n"
    wait_until(lambda: options() == {"retention.ms": "60000"}, "one option")


def test_partitions_are_added_and_never_taken_away(millstream: Millstream, brokers: list[str], written: str) -> None:
    more = millstream("topic", "alter", written, "-p", "5", *brokers)
    assert (more.code, more.out) == (0, f"altered {written}: 2 -> 5 partitions\n"), more.err
    assert "Keys go to other partitions" in more.err

    def same() -> str:
        return millstream("topic", "alter", written, "-p", "5", *brokers).out

    wait_until(lambda: same() == f"{written} has 5 partitions already\n", "five partitions")
    fewer = millstream("topic", "alter", written, "-p", "2", *brokers)
    assert (fewer.code, fewer.err.count("\n")) == (1, 1)
    assert "cannot get fewer" in fewer.err


@pytest.mark.parametrize(
    ("arguments", "code", "hint"),
    [
        ([], 2, "Say what to change"),
        (["-c", "retention.ms=1", "--reset", "retention.ms"], 2, "both set and reset"),
        (["-c", "retention.ms=soon"], 1, "was not altered"),
        (["-c", "no.such.option=1"], 1, "no.such.option"),
        (["-p", "0"], 2, "partitions"),
    ],
)
def test_what_cannot_be_altered_is_said(
    millstream: Millstream, brokers: list[str], written: str, arguments: list[str], code: int, hint: str
) -> None:
    outcome = millstream("topic", "alter", written, *arguments, *brokers)
    assert outcome.code == code
    assert hint in outcome.err


def test_a_topic_that_was_mistyped_is_answered_with_the_one_that_was_meant(millstream: Millstream, brokers: list[str]) -> None:
    meant = fresh_name("page-views")
    assert millstream("topic", "create", meant, *brokers).code == 0
    typed = meant.replace("views", "viws")
    for command in (["topic", "alter", typed, "-p", "2"], ["consume", typed], ["topic", "describe", typed]):
        outcome = millstream(*command, *brokers)
        assert (outcome.code, outcome.err.count("\n")) == (1, 1)
        assert f"did you mean {meant}?" in outcome.err


def test_top_and_watch_draw_what_is_there(millstream: Millstream, brokers: list[str], written: str) -> None:
    seen = millstream("top", "-n", "2", "--every", "0.1", *brokers)
    assert seen.code == 0, seen.err
    assert seen.out.count("  1 broker  ") == 2
    assert "topics" in seen.out
    assert "groups" in seen.out


def test_top_refuses_what_is_no_page(millstream: Millstream, brokers: list[str]) -> None:
    outcome = millstream("top", "--metrics", "localhost:9308", *brokers)
    assert outcome.code == 2
    assert "http://HOST:9308" in outcome.err
