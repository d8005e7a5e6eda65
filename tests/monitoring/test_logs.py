"""One line per event that an operator looks for, as JSON."""

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.batches import encode_batch
from tests.brokers import MillstreamBroker
from tests.clients.consumer_protocol import HandMadeMember
from tests.clients.group_requests import LEAVE_GROUP, SYNC_GROUP, join
from tests.connection import CREATE_PARTITIONS, INCREMENTAL_ALTER_CONFIGS, ConnectionEnded
from tests.group_offsets import find
from tests.topics import create_topic, delete_topic, fresh_name, produce, produce_values
from tests.waiting import wait_until

CONNECTIONS = 20


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MillstreamBroker]:
    options = {
        "log.retention.check.interval.ms": 300,
        "log.initial.task.delay.ms": 0,
        "group.initial.rebalance.delay.ms": 0,
        "group.min.session.timeout.ms": 100,
        "group.consumer.min.session.timeout.ms": 100,
        "group.consumer.session.timeout.ms": 400,
        "group.consumer.min.heartbeat.interval.ms": 50,
        "group.consumer.heartbeat.interval.ms": 100,
        "log.cleaner.backoff.ms": 50,
        "offsets.topic.num.partitions": 1,
        "max.connections.per.ip": CONNECTIONS,
    }
    own = MillstreamBroker(tmp_path_factory.mktemp("broker"), options)
    own.flags += ["--log-format", "json", "--log-level", "info"]
    own.start()
    yield own
    own.stop()


def lines(broker: MillstreamBroker) -> list[dict[str, str]]:
    """What was logged, whole lines only."""
    return [json.loads(line) for line in broker.stderr.read_text().splitlines(keepends=True) if line.endswith("\n")]


def await_line(broker: MillstreamBroker, area: str, *words: str) -> None:
    def is_logged() -> bool:
        return any(line["area"] == area and all(word in line["message"] for word in words) for line in lines(broker))

    wait_until(is_logged, f"a line of {area} with {words}")


def test_life_of_a_topic(broker: MillstreamBroker) -> None:
    topic = create_topic(broker, configs={"retention.ms": 3_600_000})
    await_line(broker, "cluster", f"topic {topic} created: 1 partition(s), 1 replica(s), retention.ms=3600000")
    with broker.connect() as connection:
        configs = [
            {"name": "retention.ms", "config_operation": 1, "value": None},
            {"name": "segment.ms", "config_operation": 0, "value": "9"},
        ]
        fields = {"resources": [{"resource_type": 2, "resource_name": topic, "configs": configs}], "validate_only": False}
        assert connection.ask(INCREMENTAL_ALTER_CONFIGS, 1, fields).responses[0].error_code == 0
        grown = {"topics": [{"name": topic, "count": 3, "assignments": None}], "timeout_ms": 30_000, "validate_only": False}
        assert connection.ask(CREATE_PARTITIONS, 3, grown).results[0].error_code == 0
    await_line(broker, "cluster", f"topic {topic} altered: segment.ms=9, retention.ms as by default")
    await_line(broker, "cluster", f"topic {topic} altered: it has 3 partitions now")
    delete_topic(broker, topic)
    await_line(broker, "cluster", f"topic {topic} deleted, with 3 partition(s)")


def test_what_retention_took(broker: MillstreamBroker) -> None:
    topic = create_topic(broker, configs={"retention.ms": 1})
    produce_values(broker, topic, [b"x"] * 10)
    await_line(broker, "storage", f"retention of {topic}-0: ", " bytes went, it begins at offset 10 now")


def test_what_compaction_made_of_a_log(broker: MillstreamBroker) -> None:
    configs = {"cleanup.policy": "compact", "segment.bytes": 1 << 20, "min.cleanable.dirty.ratio": "0.01"}
    topic = create_topic(broker, configs=configs)
    with broker.connect() as connection:
        for _ in range(4):  # of which each fills a segment, so that all but the last can be compacted
            assert produce(connection, topic, encode_batch([b"x" * 9_000] * 100, keys=[b"key"] * 100)).error_code == 0
    await_line(broker, "storage", f"compacted {topic}-0 up to offset 300: ", " bytes, 300 to 1 records, ", " s")


def test_group_that_rebalances_and_is_left(broker: MillstreamBroker) -> None:
    group = fresh_name("group")
    with broker.connect() as connection:
        wait_until(lambda: find(connection, group)[0].error_code == 0, "the coordinator")
        joined = join(connection, group)
        member = {"group_id": group, "member_id": joined.member_id}
        protocol = {"protocol_type": joined.protocol_type, "protocol_name": joined.protocol_name}
        assignment = {"generation_id": joined.generation_id, "assignments": [{"member_id": joined.member_id, "assignment": b""}]}
        assert connection.ask(SYNC_GROUP, 5, member | protocol | assignment).error_code == 0
        await_line(broker, "groups", f"group {group} rebalanced: generation 1, 1 member(s)")
        assert connection.ask(LEAVE_GROUP, 1, member).error_code == 0
    await_line(broker, "groups", f"group {group} has no members any more")


def test_member_that_does_not_come_back(broker: MillstreamBroker) -> None:
    group = fresh_name("group")
    with broker.connect() as connection:
        wait_until(lambda: find(connection, group)[0].error_code == 0, "the coordinator")
        joined = join(connection, group, session_timeout_ms=200)
    await_line(broker, "groups", f"group {group}: {joined.member_id} did not send a heartbeat for ", "its session ends in 0.")
    await_line(broker, "groups", f"group {group}: {joined.member_id} expired, without a sign of life for 200 ms")


def test_member_of_the_new_protocol(broker: MillstreamBroker) -> None:
    topic, group = create_topic(broker), fresh_name("group")
    with broker.connect() as connection:
        wait_until(lambda: find(connection, group)[0].error_code == 0, "the coordinator")
    member = HandMadeMember(broker, group, [topic])
    member.join()
    member.close()
    await_line(broker, "groups", f"group {group} rebalanced: epoch ", ", 1 member(s)")
    await_line(broker, "groups", f"group {group}: {member.member_id} did not send a heartbeat for ", "its session ends in 0.")
    await_line(broker, "groups", f"group {group}: {member.member_id} expired, without a sign of life")
    await_line(broker, "groups", f"group {group} has no members any more")


def test_connection_that_is_closed_for_what_it_sent(broker: MillstreamBroker) -> None:
    with socket.create_connection(broker.address, timeout=30) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert connection.recv(1) == b""
    await_line(broker, "network", "closed the connection from 127.0.0.1", "HTTP")


def test_connection_that_is_refused(broker: MillstreamBroker) -> None:
    with ExitStack() as stack:
        with pytest.raises((ConnectionEnded, OSError)):
            open_too_many(broker, stack)
        await_line(broker, "network", "refused a connection from 127.0.0.1", "max.connections.per.ip")


def open_too_many(broker: MillstreamBroker, stack: ExitStack) -> None:
    for _ in range(CONNECTIONS + 1):
        find(stack.enter_context(broker.connect()), "g")


def test_slow_requests_and_levels_of_areas(tmp_path: Path) -> None:
    own = MillstreamBroker(
        tmp_path, {"offsets.topic.num.partitions": 1, "group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 100}
    )
    own.flags += ["--log-format", "json", "--slow-request-ms", "1", "--log-level", "warning", "--log-level", "groups=debug"]
    try:
        own.start()
        group = fresh_name("group")
        create_topic(own, partitions=20)  # more than a millisecond of work anywhere
        with own.connect() as connection:
            wait_until(lambda: find(connection, group)[0].error_code == 0, "the coordinator")
            join(connection, group, session_timeout_ms=200)
        await_line(own, "requests", "slow request: CreateTopics from 127.0.0.1", " ms")
        await_line(own, "groups", f"group {group}: ", "expired")
        assert not any(line["area"] == "cluster" and line["level"] == "info" for line in lines(own))
    finally:
        own.stop()
