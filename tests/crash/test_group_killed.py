"""Consumers and brokers killed with SIGKILL: groups go on without those who are gone, and find themselves again when the broker is back."""

from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.brokers import Broker, StartBroker
from tests.clients.consumer_protocol import HandMadeMember, describe_consumer_group
from tests.clients.group_broker import GROUP_OPTIONS
from tests.clients.group_kinds import AIOKAFKA, CONSUMER_PROTOCOL, COOPERATIVE, KAFKA_PYTHON, RANGE, Kind
from tests.clients.group_requests import (
    Committed,
    Identity,
    await_coordinator,
    commit,
    commit_alone,
    delete,
    describe,
    enter,
    fetch_committed,
    heartbeat,
    leave,
)
from tests.clients.numbered import Numbered
from tests.crash.consumer_processes import ConsumerProcesses
from tests.topics import create_topic, fresh_name, topic_id
from tests.waiting import wait_until

each_kind = pytest.mark.parametrize("kind", [RANGE, COOPERATIVE, CONSUMER_PROTOCOL, KAFKA_PYTHON, AIOKAFKA], ids=str)


@pytest.fixture
def broker(start_broker: StartBroker) -> Broker:
    options: dict[str, Any] = {name.replace(".", "_"): value for name, value in GROUP_OPTIONS.items()}
    started = start_broker(**options)
    await_coordinator(started)
    return started


def revive(broker: Broker, group: str) -> None:
    """Kill the broker, start it again, wait until it has read its offsets topic."""
    broker.kill()
    broker.start()
    await_coordinator(broker, group)


def assert_everything_came(messages: Numbered, processes: ConsumerProcesses) -> None:
    """At least once, and in order within what one process got of a partition between two starts."""
    for process in processes.started:
        previous: dict[str, int] = {}
        for line in process.lines:
            if line.startswith("owns"):
                previous.clear()
                continue
            partition, offset, _ = line.split()
            before = previous.get(partition)
            assert before is None or int(offset) == before + 1 or int(offset) <= before, line
            previous[partition] = int(offset)
    assert messages.is_complete(processes.delivered())


@each_kind
def test_partitions_of_a_killed_consumer_go_to_the_others_and_nothing_is_lost(broker: Broker, tmp_path: Path, kind: Kind) -> None:
    messages = Numbered(broker, create_topic(broker, partitions=4), partitions=4)
    with ConsumerProcesses(tmp_path, broker, kind, group=fresh_name("group"), topic=messages.topic) as processes:
        victim, other = processes.start(), processes.start()
        messages.write(50)
        wait_until(lambda: (victim.owned, other.owned) == (2, 2), "an even division")
        messages.write(50)
        processes.kill(victim)
        messages.write(50)
        wait_until(lambda: other.owned == 4, "everything goes to the other")
        processes.start()
        messages.write(50)
        wait_until(lambda: messages.is_complete(processes.delivered()), "every message")
        assert_everything_came(messages, processes)


@each_kind
def test_consumers_outlive_a_killed_broker(broker: Broker, tmp_path: Path, kind: Kind) -> None:
    messages = Numbered(broker, create_topic(broker, partitions=2), partitions=2)
    group = fresh_name("group")
    with ConsumerProcesses(tmp_path, broker, kind, group=group, topic=messages.topic) as processes:
        one, other = processes.start(), processes.start()
        messages.write(50)
        wait_until(lambda: (one.owned, other.owned) == (1, 1), "an even division")
        wait_until(lambda: messages.is_complete(processes.delivered()), "every message")
        broker.kill()
        broker.start()
        messages.write(50)
        wait_until(lambda: messages.is_complete(processes.delivered()), "every message after the restart")
        wait_until(lambda: (one.owned, other.owned) == (1, 1), "an even division")
        assert_everything_came(messages, processes)


def test_committed_offsets_survive(broker: Broker) -> None:
    topic, groups = create_topic(broker, partitions=3), [fresh_name("group") for _ in range(5)]
    with broker.connect() as connection:
        for number, group in enumerate(groups):
            for partition in range(3):
                commit_alone(connection, group, topic, 100 * number + partition, partition=partition, metadata=f"note {number}")
        commit_alone(connection, groups[0], topic, 7, partition=0)
        delete(connection, groups[4])
    revive(broker, groups[0])
    with broker.connect() as connection:
        for number, group in enumerate(groups[:4]):
            expected = {(topic, at): Committed(100 * number + at, f"note {number}", ErrorCode.none) for at in range(3)}
            if number == 0:
                expected[topic, 0] = Committed(7, "", ErrorCode.none)
            wait_until(lambda group=group, expected=expected: fetch_committed(connection, group, None)[1] == expected, group)  # type: ignore[misc]
        assert fetch_committed(connection, groups[4], None) == (ErrorCode.none, {})
        assert describe(connection, groups[4]).error_code == ErrorCode.group_id_not_found


def test_offsets_survive_again_and_again(broker: Broker) -> None:
    topic, group = create_topic(broker), fresh_name("group")
    for life in range(1, 4):
        with broker.connect() as connection:
            for offset in range(1000 * life, 1000 * life + 50):
                commit_alone(connection, group, topic, offset)
        revive(broker, group)
        with broker.connect() as connection:
            assert fetch_committed(connection, group, {topic: [0]})[1][topic, 0].offset == 1000 * life + 49


def test_classic_group_goes_on_with_the_members_and_the_generation_it_had(broker: Broker) -> None:
    topic, group, other = create_topic(broker), fresh_name("group"), fresh_name("group")
    with broker.connect() as connection:
        who = enter(connection, group, session_timeout_ms=10_000)
        static = enter(connection, other, instance="first")
        assert commit(connection, who, {(topic, 0): 3}) == {(topic, 0): ErrorCode.none}
    revive(broker, group)
    with broker.connect() as connection:
        wait_until(lambda: heartbeat(connection, static) == ErrorCode.none, "the static member is known")
        assert heartbeat(connection, who) == ErrorCode.none
        described = describe(connection, group)
        assert (described.group_state, described.protocol_data) == ("Stable", "range")
        assert [(member.member_id, member.member_assignment) for member in described.members] == [(who.member_id, b"all")]
        assert commit(connection, who, {(topic, 0): 4}) == {(topic, 0): ErrorCode.none}
        assert heartbeat(connection, who._replace(generation=who.generation + 1)) == ErrorCode.illegal_generation
        assert leave(connection, who) == ErrorCode.none


def test_member_that_does_not_come_back_is_dropped_a_session_timeout_after_the_restart(broker: Broker) -> None:
    group = fresh_name("group")
    with broker.connect() as connection:
        enter(connection, group, session_timeout_ms=600)
    revive(broker, group)
    with broker.connect() as connection:
        wait_until(lambda: describe(connection, group).group_state == "Empty", "the group is empty")


def test_group_of_the_new_protocol_goes_on_with_the_epochs_it_had(start_broker: StartBroker) -> None:
    broker = start_broker(group_consumer_session_timeout_ms=45_000)
    await_coordinator(broker)
    topic, group = create_topic(broker, partitions=2), fresh_name("group")
    member = HandMadeMember(broker, group, [topic])
    member.join()
    member.beat()
    identity = topic_id(broker, topic)
    assert commit(member.connection, member.identity, {(topic, 0): 3}) == {(topic, 0): ErrorCode.none}
    member.close()
    revive(broker, group)
    member.connection = broker.connect()
    before = member.epoch
    wait_until(lambda: member.ask().error_code not in (ErrorCode.coordinator_load_in_progress, ErrorCode.not_coordinator), "a coordinator")
    member.beat()
    assert member.epoch == before
    assert member.owned == {(identity, 0), (identity, 1)}
    described = describe_consumer_group(member.connection, group)
    assert (described.error_code, described.group_state, described.group_epoch) == (ErrorCode.none, "Stable", before)
    assert commit(member.connection, member.identity, {(topic, 0): 4}) == {(topic, 0): ErrorCode.none}
    assert commit(member.connection, Identity(group, "x", 1), {(topic, 0): 4}) == {(topic, 0): ErrorCode.unknown_member_id}
    member.close()
