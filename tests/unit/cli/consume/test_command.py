import pytest

from millstream.testing import Broker
from tests.unit.cli.conftest import Millstream

TOPIC = "cli-consume"


@pytest.fixture(scope="module")
def filled(millstream_broker: Broker) -> list[str]:
    """Flags for a broker with ten records in each of two partitions, `0-0` to `1-9`, one second of event time apart."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    servers: dict[str, str | int | float | bool] = {"bootstrap.servers": millstream_broker.bootstrap_servers}
    admin = AdminClient(servers)
    admin.create_topics([NewTopic(TOPIC, 2, 1)])[TOPIC].result(10)
    producer = Producer(servers)
    for partition in (0, 1):
        for number in range(10):
            value = f"{partition}-{number}"
            producer.produce(TOPIC, value, key="k", partition=partition, timestamp=1_700_000_000_000 + number * 1_000)
    assert producer.flush(10) == 0
    return ["-b", millstream_broker.bootstrap_servers]


@pytest.mark.parametrize(
    ("offset", "numbers"),
    [
        ("earliest", range(10)),
        ("latest", range(0)),
        ("7", range(7, 10)),
        ("99", range(0)),
        ("-3", range(7, 10)),
        ("-99", range(10)),
        ("@1700000004000", range(4, 10)),
        ("@2023-11-14T22:13:25.500", range(6, 10)),
        ("@2040-01-01", range(0)),
    ],
)
def test_reading_starts_where_it_was_asked_to_and_stops_at_the_end(
    millstream: Millstream, filled: list[str], offset: str, numbers: range
) -> None:
    outcome = millstream("consume", TOPIC, "-o", offset, *filled)
    assert outcome.code == 0, outcome.err
    assert sorted(outcome.out.split()) == [f"{partition}-{number}" for partition in (0, 1) for number in numbers]


def test_only_the_chosen_partitions_are_read(millstream: Millstream, filled: list[str]) -> None:
    outcome = millstream("consume", TOPIC, "-p", "1", *filled)
    assert outcome.out.split() == [f"1-{number}" for number in range(10)]


def test_a_count_ends_the_reading(millstream: Millstream, filled: list[str]) -> None:
    assert millstream("consume", TOPIC, "-p", "0", "-n", "2", *filled).out == "0-0\n0-1\n"


def test_the_key_is_written_before_the_separator(millstream: Millstream, filled: list[str]) -> None:
    assert millstream("consume", TOPIC, "-p", "0", "-n", "1", "-K", ":", *filled).out == "k:0-0\n"


def test_a_table_has_a_heading_and_a_row_per_record(millstream: Millstream, filled: list[str]) -> None:
    heading, row = millstream("consume", TOPIC, "-p", "1", "-o", "-1", "--output", "table", *filled).out.splitlines()
    assert heading.split() == ["partition", "offset", "timestamp", "key", "value"]
    assert row.split() == ["1", "9", "2023-11-14T22:13:29.000Z", "k", "1-9"]


@pytest.mark.parametrize(
    ("arguments", "code", "hint"),
    [
        (["cli-no-such-topic"], 1, "no topic 'cli-no-such-topic'"),
        ([TOPIC, "-p", "9"], 1, "no partition 9"),
        ([TOPIC, "-o", "middle"], 2, "--from takes"),
        ([TOPIC, "--from", "beginning"], 2, "--from takes"),
        ([TOPIC, "--follow", "--to", "5"], 2, "--follow"),
        ([TOPIC, "-f", "%v", "--output", "json"], 2, "one"),
        ([TOPIC, "-K", ":", "--output", "json"], 2, "--key-separator"),
    ],
)
def test_what_cannot_be_read_is_reported(millstream: Millstream, filled: list[str], arguments: list[str], code: int, hint: str) -> None:
    outcome = millstream("consume", *arguments, *filled)
    assert outcome.code == code
    assert hint in outcome.err
    assert outcome.err.count("\n") == 1
