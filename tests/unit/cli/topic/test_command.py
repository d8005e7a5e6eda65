import socket
from collections.abc import Iterator

import pytest

from millstream.testing import Broker
from tests.unit.cli.conftest import Millstream


@pytest.fixture
def brokers(millstream_broker: Broker) -> list[str]:
    return ["-b", millstream_broker.bootstrap_servers]


def test_a_created_topic_is_listed_described_and_deleted(millstream: Millstream, brokers: list[str]) -> None:
    created = millstream("topic", "create", "cli-life", "-p", "3", "-c", "retention.ms=60000", *brokers)
    assert (created.code, created.out) == (0, "created cli-life\n"), created.err
    listed = millstream("topic", "list", "--output", "json", *brokers).documents[0]
    (found,) = [topic for topic in listed if topic["topic"] == "cli-life"]
    assert found == {
        "topic": "cli-life",
        "partitions": 3,
        "replicas": 1,
        "messages": 0,
        "size_bytes": 0,
        "messages_per_second": 0,
        "last_write": None,
        "last_write_ms": None,
    }
    ((described,),) = millstream("topic", "describe", "cli-life", "--output", "json", *brokers).documents
    assert described["options"] == {"retention.ms": "60000"}
    assert [(p["partition"], p["earliest_offset"], p["latest_offset"]) for p in described["partitions"]] == [
        (0, 0, 0),
        (1, 0, 0),
        (2, 0, 0),
    ]
    assert millstream("topic", "delete", "cli-life", *brokers).code == 0
    assert millstream("topic", "describe", "cli-life", *brokers).code == 1


def test_tables_are_plain_columns_in_a_pipe(millstream: Millstream, brokers: list[str]) -> None:
    millstream("topic", "create", "cli-columns", "-p", "2", *brokers)
    rows = [line.split() for line in millstream("topic", "list", *brokers).out.splitlines()]
    assert rows[0] == ["topic", "partitions", "replicas", "messages", "size", "messages/s", "last", "write"]
    assert ["cli-columns", "2", "1", "0", "0", "B", "0", "-"] in rows
    described = millstream("topic", "describe", "cli-columns", *brokers).out.splitlines()
    assert described[0].startswith("cli-columns  id ")
    assert len(described) == 4


def test_a_topic_that_exists_is_an_error_unless_that_is_fine(millstream: Millstream, brokers: list[str]) -> None:
    millstream("topic", "create", "cli-twice", *brokers)
    again = millstream("topic", "create", "cli-twice", *brokers)
    assert again.code == 1
    assert "cli-twice" in again.err
    assert again.err.count("\n") == 1
    assert millstream("topic", "create", "cli-twice", "--if-not-exists", *brokers).code == 0


def test_a_topic_that_is_missing_is_an_error_unless_that_is_fine(millstream: Millstream, brokers: list[str]) -> None:
    millstream("topic", "create", "cli-named", *brokers)
    refused = millstream("topic", "delete", "cli-named", "cli-namd", *brokers)
    assert (refused.code, refused.out, "There is no topic 'cli-namd'" in refused.err) == (1, "", True)
    assert refused.err.endswith("; did you mean cli-named?\n")
    assert millstream("topic", "delete", "cli-named", *brokers).out == "deleted cli-named\n"
    assert millstream("topic", "delete", "cli-never", *brokers).code == 1
    assert millstream("topic", "delete", "cli-never", "--if-exists", *brokers).code == 0


def test_asking_for_a_topic_does_not_create_it(millstream: Millstream, brokers: list[str]) -> None:
    assert millstream("topic", "describe", "cli-asked", *brokers).code == 1
    assert millstream("consume", "cli-asked", *brokers).code == 1
    assert "cli-asked" not in millstream("topic", "list", *brokers).out


@pytest.mark.parametrize("arguments", [["no such name!"], ["cli-refused", "-c", "no.such.option=1"], ["cli-refused", "-r", "5"]])
def test_what_the_broker_refuses_is_reported_in_its_words(millstream: Millstream, brokers: list[str], arguments: list[str]) -> None:
    outcome = millstream("topic", "create", *arguments, *brokers)
    assert outcome.code == 1
    assert outcome.err.count("\n") == 1
    assert arguments[0] in outcome.err


@pytest.mark.parametrize("command", [["topic", "list"], ["produce", "t", "v"], ["consume", "t"]])
def test_a_broker_that_is_not_there_is_reported_with_what_to_do(millstream: Millstream, command: list[str]) -> None:
    outcome = millstream(*command, "-b", "127.0.0.1:1")
    assert outcome.code == 1
    assert outcome.out == ""
    assert outcome.err.count("\n") == 1
    assert "127.0.0.1:1 (Connection refused)" in outcome.err
    assert "millstream serve" in outcome.err


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port where connections are accepted and nothing is ever said."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.slow
def test_something_that_is_no_broker_is_reported_within_seconds(millstream: Millstream, silent_port: int) -> None:
    outcome = millstream("topic", "list", "-b", f"127.0.0.1:{silent_port}")
    assert outcome.code == 1
    assert "No broker answers" in outcome.err


def test_a_client_option_that_does_not_exist_is_reported(millstream: Millstream) -> None:
    outcome = millstream("topic", "list", "-X", "no.such.option=1")
    assert outcome.code == 2
    assert "no.such.option" in outcome.err


@pytest.mark.parametrize(
    "arguments", [["create", "t", "-p", "100000000"], ["create", "t", "-r", "40000"], ["alter", "t", "-p", "100000000"]], ids=str
)
def test_numbers_that_no_client_sends_are_refused(millstream: Millstream, brokers: list[str], arguments: list[str]) -> None:
    outcome = millstream("topic", *arguments, *brokers)
    assert (outcome.code, "should be less than" in outcome.err) == (2, True), outcome.err
