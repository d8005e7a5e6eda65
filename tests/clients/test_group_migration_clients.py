"""Real clients move a live group from the classic protocol to the new one and back, one member after the other, while messages come in."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.brokers import Broker, StartBroker
from tests.clients.consumer_protocol import HandMadeMember
from tests.clients.group_broker import GROUP_OPTIONS
from tests.clients.group_kinds import AIOKAFKA, CONSUMER_PROTOCOL, COOPERATIVE, KAFKA_PYTHON, KAFKA_PYTHON_COOPERATIVE, RANGE, Kind
from tests.clients.group_member import Group
from tests.clients.group_requests import await_coordinator
from tests.clients.numbered import Numbered
from tests.clients.test_group_migration import kind_of
from tests.topics import create_topic

PARTITIONS = 4
MOST_WRITES = 5_000
PATIENCE_MS = 30_000
"""Longer than a broker takes to start."""


@contextmanager
def traffic(messages: Numbered) -> Iterator[None]:
    """Messages in all partitions while the block runs."""
    is_over = threading.Event()

    def write() -> None:
        for _ in range(MOST_WRITES):
            messages.write(2, batch=2)
            if is_over.wait(0.01):
                return

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    try:
        yield
    finally:
        is_over.set()
        writer.join(timeout=30)
    assert not writer.is_alive()


def kind_of_group(broker: Broker, group: str) -> str:
    with broker.connect() as connection:
        return kind_of(connection, group)[0]


@pytest.mark.parametrize("kind", [RANGE, KAFKA_PYTHON, KAFKA_PYTHON_COOPERATIVE, AIOKAFKA], ids=str)
def test_rolling_upgrade_and_downgrade_under_traffic_lose_nothing(group_broker: Broker, kind: Kind) -> None:
    messages = Numbered(group_broker, create_topic(group_broker, partitions=PARTITIONS), partitions=PARTITIONS)
    with Group(group_broker, kind, messages.topic) as group:
        with traffic(messages):
            for _ in range(2):
                group.join()
            group.wait_until_divided(messages.places)
            for other in (CONSUMER_PROTOCOL, kind):
                for _ in range(2):
                    group.leave(group.members[0])
                    group.join(kind=other)
                    group.wait_until_divided(messages.places)
                assert kind_of_group(group_broker, group.name) == ("consumer" if other is CONSUMER_PROTOCOL else "classic")
        group.wait_for_all(messages)
    messages.check(group.delivered)


@pytest.mark.parametrize("kind", [RANGE, KAFKA_PYTHON_COOPERATIVE], ids=str)
def test_new_members_that_come_before_the_old_ones_go_lose_nothing(group_broker: Broker, kind: Kind) -> None:
    """Nothing is waited for between the steps: the next change meets a group that has not settled."""
    messages = Numbered(group_broker, create_topic(group_broker, partitions=PARTITIONS), partitions=PARTITIONS)
    with Group(group_broker, kind, messages.topic) as group:
        with traffic(messages):
            group.join()
            group.join()
            group.wait_for(1)
            for other in (CONSUMER_PROTOCOL, kind, CONSUMER_PROTOCOL):
                group.join(kind=other)
                group.leave(group.members[0])
            group.wait_until_divided(messages.places)
        group.wait_for_all(messages)
    messages.check(group.delivered)


def test_cooperative_members_of_librdkafka_have_to_stop_first(group_broker: Broker) -> None:
    """Its assignor tells members more than partitions, which would be lost: Kafka refuses to convert the group, and it goes on as it is."""
    messages = Numbered(group_broker, create_topic(group_broker, partitions=2), partitions=2)
    with Group(group_broker, COOPERATIVE, messages.topic) as group:
        old = []
        for _ in range(2):  # the first one has something when it joins again, and gets its own data back with the assignment
            old.append(group.join())
            group.wait_until_divided(messages.places)
        new = HandMadeMember(group_broker, group.name, [messages.topic])
        answer = new.ask(topic_partitions=[], rebalance_timeout_ms=1_000, subscribed_topic_names=[messages.topic])
        assert answer.error_code == ErrorCode.group_id_not_found
        assert "custom assignor" in answer.error_message
        new.close()
        messages.write(10)
        group.wait_for_all(messages)
        for member in old:
            group.leave(member)
        group.join(kind=CONSUMER_PROTOCOL)
        group.wait_until_divided(messages.places)
    messages.check(group.delivered)


def test_broker_that_is_killed_in_the_middle_of_a_migration_goes_on_with_it(start_broker: StartBroker) -> None:
    options: dict[str, Any] = {name.replace(".", "_"): value for name, value in GROUP_OPTIONS.items()}
    broker = start_broker(**options | {"group_consumer_session_timeout_ms": PATIENCE_MS})
    await_coordinator(broker)
    messages = Numbered(broker, create_topic(broker, partitions=PARTITIONS), partitions=PARTITIONS)
    with Group(broker, RANGE, messages.topic, session_timeout_ms=PATIENCE_MS) as group:
        old = group.join()
        group.wait_until_divided(messages.places)
        new = group.join(kind=CONSUMER_PROTOCOL)
        group.wait_until_divided(messages.places)
        messages.write(20)
        broker.kill()
        broker.start()
        await_coordinator(broker, group.name)
        assert kind_of_group(broker, group.name) == "consumer"
        messages.write(20)
        group.wait_for_all(messages)
        group.wait_until_divided(messages.places)
        group.leave(new)
        group.wait_until_divided(messages.places)
        assert kind_of_group(broker, group.name) == "classic"
        broker.kill()
        broker.start()
        await_coordinator(broker, group.name)
        messages.write(20)
        group.wait_for_all(messages)
        assert old.failure is None
    messages.check(group.delivered)
