"""`millstream group` against a real broker, ours or Apache Kafka: list, describe, seek, delete."""

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer
from kio.schema.errors import ErrorCode

from millstream.batch_memory import batch_memory_of
from millstream.mirror.group_names import members_of, progress_group
from tests.batches import encode_batch
from tests.brokers import Broker
from tests.clients.group_kinds import CONSUMER_PROTOCOL, RANGE, Kind
from tests.clients.group_member import Group
from tests.clients.group_requests import commit_alone, committed_offset, fetch_committed
from tests.topics import create_topic, delete_topic, fresh_name, produce, produce_values
from tests.unit.cli.conftest import Millstream, millstream
from tests.waiting import wait_until

__all__ = ["millstream"]

HOUR_MS = 3_600_000


@pytest.fixture
def brokers(group_broker: Broker) -> list[str]:
    return ["-b", group_broker.bootstrap_servers]


@pytest.fixture
def topic(group_broker: Broker) -> str:
    """Two partitions of ten messages: number n was written n hours ago, youngest last."""
    name = create_topic(group_broker, partitions=2)
    now = time.time_ns() // 1_000_000
    with group_broker.connect() as connection:
        for partition in range(2):
            for hours in range(10, 0, -1):
                batch = encode_batch([b"%d" % hours], timestamp=now - hours * HOUR_MS)
                assert produce(connection, name, batch, partition=partition).error_code == ErrorCode.none
    return name


@pytest.fixture
def group(group_broker: Broker, topic: str) -> str:
    """A group without members that has read four messages of partition 0 and all of partition 1."""
    name = fresh_name("group")
    with group_broker.connect() as connection:
        commit_alone(connection, name, topic, 4, partition=0, metadata="a note")
        commit_alone(connection, name, topic, 10, partition=1)
    return name


def offsets(broker: Broker, group: str, topic: str) -> list[int]:
    with broker.connect() as connection:
        return [committed_offset(connection, group, topic, partition=partition) for partition in range(2)]


@pytest.fixture(params=[RANGE, CONSUMER_PROTOCOL], ids=str)
def busy(request: pytest.FixtureRequest, group_broker: Broker, topic: str) -> Iterator[Group]:
    """A group with two members that have read everything."""
    kind: Kind = request.param
    with Group(group_broker, kind, topic) as made:
        made.join()
        made.join()
        made.wait_until_divided({(topic, 0), (topic, 1)})
        made.wait_for(20)
        yield made


def test_groups_are_listed_with_state_and_type(millstream: Millstream, brokers: list[str], group: str, busy: Group) -> None:
    listed = millstream("group", "list", "--output", "json", *brokers).documents[0]
    kind = "consumer" if busy.kind.is_new_protocol else "classic"
    by_name = {found["group"]: found for found in listed}
    assert {name: by_name[group][name] for name in ("state", "type", "members", "lag", "is")} == {
        "state": "empty",
        "type": "classic",
        "members": 0,
        "lag": 6,
        "is": "dead",
    }
    assert 6 * 3600 <= by_name[group]["lag_seconds"] < 6 * 3600 + 120
    assert [by_name[busy.name][name] for name in ("state", "type", "members")] == ["stable", kind, 2]
    assert [found["group"] for found in listed] == sorted(found["group"] for found in listed)
    empty = millstream("group", "list", "--state", "empty", "--type", "classic", *brokers).out
    assert group in empty
    assert busy.name not in empty


@pytest.mark.parametrize(
    ("name", "lag", "word"),
    [
        (fresh_name("group"), 20, "stuck"),
        (members_of(progress_group(fresh_name("mirror"))), 0, "ok"),  # it shares work, and commits elsewhere
    ],
    ids=["a group", "the processes of a mirror"],
)
def test_members_that_commit_nothing_are_stuck(
    millstream: Millstream, brokers: list[str], group_broker: Broker, topic: str, name: str, lag: int, word: str
) -> None:
    consumer = Consumer({"bootstrap.servers": group_broker.bootstrap_servers, "group.id": name, "enable.auto.commit": False})
    try:
        consumer.subscribe([topic])
        wait_until(lambda: consumer.poll(0.1) is None and len(consumer.assignment()) == 2, "a member with two partitions")
        listed = millstream("group", "list", "--observe", "0.5", "--output", "json", *brokers).documents[0]
    finally:
        consumer.close()
    (found,) = [row for row in listed if row["group"] == name]
    assert (found["members"], found["lag"], found["is"]) == (1, lag, word)


def test_what_sparks_sink_remembers_is_no_lag(millstream: Millstream, brokers: list[str], group_broker: Broker, topic: str) -> None:
    name = batch_memory_of(fresh_name("query"), topic)
    with group_broker.connect() as connection:
        commit_alone(connection, name, topic, 3)
    [described] = millstream("group", "describe", name, "--output", "json", *brokers).documents[0]
    assert (described["lag"], described["partitions"]) == (0, [])


def test_partitions_without_a_commit_count_and_are_moved(
    millstream: Millstream, brokers: list[str], group_broker: Broker, topic: str
) -> None:
    name = fresh_name("group")
    with group_broker.connect() as connection:
        commit_alone(connection, name, topic, 4, partition=0)
    ((described,),) = millstream("group", "describe", name, "--output", "json", *brokers).documents
    assert described["lag"] == 16
    assert [(row["committed"], row["lag"]) for row in described["partitions"]] == [(4, 6), (None, 10)]
    assert millstream("group", "seek", name, "7", "--execute", *brokers).code == 0
    assert offsets(group_broker, name, topic) == [7, 7]


def test_lag_is_shown_in_messages_and_in_seconds(millstream: Millstream, brokers: list[str], group: str, topic: str) -> None:
    ((described,),) = millstream("group", "describe", group, "--output", "json", *brokers).documents
    assert (described["state"], described["members"], described["lag"]) == ("empty", [], 6)
    behind, done = described["partitions"]
    assert (behind["topic"], behind["partition"], behind["committed"], behind["latest"], behind["lag"]) == (topic, 0, 4, 10, 6)
    assert behind["metadata"] == "a note"
    assert 6 * 3600 <= behind["lag_seconds"] < 6 * 3600 + 120
    assert (done["committed"], done["lag"], done["lag_seconds"]) == (10, 0, 0)
    assert described["lag_seconds"] == behind["lag_seconds"]


def test_table_of_a_group_is_plain_columns(millstream: Millstream, brokers: list[str], group: str, topic: str) -> None:
    lines = millstream("group", "describe", group, *brokers).out.splitlines()
    assert lines[0].startswith(f"{group}  empty  classic protocol  0 members  lag 6  216")
    assert lines[1].split() == ["topic", "partition", "committed", "latest", "lag", "lag", "seconds", "member"]
    assert lines[2].split()[:5] == [topic, "0", "4", "10", "6"]
    assert lines[3].split() == [topic, "1", "10", "10", "0", "0.0", "-"]


def test_members_are_shown_with_what_they_own(millstream: Millstream, brokers: list[str], busy: Group, topic: str) -> None:
    outcome = millstream("group", "describe", busy.name, "--output", "json", *brokers)
    ((described,),) = outcome.documents
    assert described["state"] == "stable"
    assert described["assignor"] == ("uniform" if busy.kind.is_new_protocol else "range")
    assert sorted(member["partitions"] for member in described["members"]) == [[[topic, 0]], [[topic, 1]]]
    assert {member["host"] for member in described["members"]} == {"127.0.0.1"}
    owners = {partition["member"] for partition in described["partitions"]}
    assert owners == {member["member"] for member in described["members"]}


def test_group_that_does_not_exist_is_an_error(millstream: Millstream, brokers: list[str]) -> None:
    for command in (["describe"], ["delete"], ["seek", "latest"]):
        outcome = millstream("group", command[0], "nobody-here", *command[1:], *brokers)
        assert (outcome.code, outcome.out) == (1, "")
        assert outcome.err.count("\n") == 1
        assert "There is no group 'nobody-here'" in outcome.err


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (["earliest"], [0, 0]),
        (["latest"], [10, 10]),
        (["7"], [7, 7]),
        (["99"], [10, 10]),
        (["-3"], [7, 7]),
        (["--by", "2"], [6, 10]),
        (["--by", "-5"], [0, 5]),
        (["5", "-p", "1"], [4, 5]),
    ],
    ids=str,
)
def test_seek_moves_what_is_committed(
    millstream: Millstream, brokers: list[str], group_broker: Broker, group: str, topic: str, *, where: list[str], expected: list[int]
) -> None:
    dry = millstream("group", "seek", group, *where, "--output", "json", *brokers)
    assert dry.code == 0, dry.err
    assert "Nothing was changed" in dry.err
    assert offsets(group_broker, group, topic) == [4, 10]
    done = millstream("group", "seek", group, *where, "--execute", "--output", "json", *brokers)
    assert (done.code, done.err) == (0, "")
    assert offsets(group_broker, group, topic) == expected
    assert done.documents == dry.documents
    moved = {(row["partition"], row["from"], row["to"], row["change"]) for row in done.documents[0]}
    assert moved <= {(p, old, new, new - old) for p, old, new in zip((0, 1), (4, 10), expected, strict=True)}


def test_seek_finds_an_offset_by_time(millstream: Millstream, brokers: list[str], group_broker: Broker, group: str, topic: str) -> None:
    hours_ago = time.time_ns() // 1_000_000 - int(2.5 * HOUR_MS)
    date = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(hours_ago / 1000))
    for moment in (f"@{hours_ago}", f"@{date}"):
        assert millstream("group", "seek", group, moment, "--execute", *brokers).code == 0
        assert offsets(group_broker, group, topic) == [8, 8]
    assert millstream("group", "seek", group, "@2100-01-01", "--execute", *brokers).code == 0
    assert offsets(group_broker, group, topic) == [10, 10]


def test_seek_of_a_named_topic_makes_a_new_group(millstream: Millstream, brokers: list[str], group_broker: Broker, topic: str) -> None:
    name = fresh_name("group")
    outcome = millstream("group", "seek", name, "-t", topic, "3", "--execute", *brokers)
    assert outcome.code == 0, outcome.err
    assert offsets(group_broker, name, topic) == [3, 3]
    assert outcome.out.splitlines()[1].split() == [topic, "0", "-", "3", "-"]


def test_group_with_members_is_neither_moved_nor_deleted(
    millstream: Millstream, brokers: list[str], group_broker: Broker, busy: Group, topic: str
) -> None:
    dry = millstream("group", "seek", busy.name, "-t", topic, "earliest", *brokers)
    assert dry.code == 0
    assert "2 members" in dry.err
    for command in (["seek", busy.name, "-t", topic, "earliest", "--execute"], ["delete", busy.name, "--execute"]):
        outcome = millstream("group", *command, *brokers)
        assert (outcome.code, outcome.out) == (1, "")
        assert "2 members" in outcome.err
    assert millstream("group", "describe", busy.name, *brokers).code == 0


def test_deletion_is_a_dry_run_unless_it_is_executed(millstream: Millstream, brokers: list[str], group_broker: Broker, group: str) -> None:
    dry = millstream("group", "delete", group, *brokers)
    assert (dry.code, dry.out) == (0, f"would delete {group}\n")
    assert "--execute" in dry.err
    done = millstream("group", "delete", group, "--execute", *brokers)
    assert (done.code, done.out) == (0, f"deleted {group}\n"), done.err
    with group_broker.connect() as connection:
        assert fetch_committed(connection, group, None) == (ErrorCode.none, {})


def test_partition_or_topic_that_does_not_exist_is_an_error(millstream: Millstream, brokers: list[str], group: str, topic: str) -> None:
    no_partition = millstream("group", "seek", group, "0", "-t", topic, "-p", "7", *brokers)
    assert (no_partition.code, "no partition 7" in no_partition.err) == (1, True)
    no_topic = millstream("group", "seek", group, "-t", "no-such-topic", "0", *brokers)
    assert (no_topic.code, "no-such-topic" in no_topic.err) == (1, True)
    unshifted = millstream("group", "seek", group, "-p", "9", "--by", "1", *brokers)
    assert unshifted.code == 1


def test_offsets_of_a_topic_that_is_gone_do_not_disturb(
    millstream: Millstream, brokers: list[str], group_broker: Broker, group: str
) -> None:
    gone = create_topic(group_broker)
    produce_values(group_broker, gone, [b"x"])
    with group_broker.connect() as connection:
        commit_alone(connection, group, gone, 0)
    delete_topic(group_broker, gone)
    outcome = millstream("group", "describe", group, *brokers)
    assert outcome.code == 0, outcome.err
