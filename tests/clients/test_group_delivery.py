"""After any mix of joining, leaving and growing, a group has got every message at least once, and in order within its partition."""

import pytest

from tests.brokers import Broker
from tests.clients.group_kinds import AIOKAFKA_RANGE, EVERY_KIND, KAFKA_PYTHON, RANGE, Kind
from tests.clients.group_member import Group
from tests.clients.numbered import Numbered
from tests.clients.test_group_membership import add_partitions
from tests.topics import create_topic


@pytest.mark.parametrize("kind", EVERY_KIND, ids=str)
def test_members_that_come_and_go_all_the_time_lose_nothing(group_broker: Broker, kind: Kind) -> None:
    """Nothing is waited for between the steps: the next change meets a group that has not settled."""
    messages = Numbered(group_broker, create_topic(group_broker, partitions=4), partitions=4)
    with Group(group_broker, kind, messages.topic) as group:
        first = group.join()
        messages.write(30)
        second = group.join()
        group.wait_for(1)
        group.join()
        messages.write(30)
        group.leave(second)
        messages.write(30)
        add_partitions(group_broker, messages.topic, 6)
        messages.grow(6)
        messages.write(30)
        group.join()
        group.leave(first)
        messages.write(30)
        group.wait_for_all(messages)
        group.wait_until_divided(messages.places)
    messages.check(group.delivered)


@pytest.mark.flaky(reruns=2)  # kafka-python is one of the members: see conftest
def test_members_of_different_clients_share_one_group(group_broker: Broker) -> None:
    messages = Numbered(group_broker, create_topic(group_broker, partitions=6), partitions=6)
    with Group(group_broker, RANGE, messages.topic) as group:
        for kind in (RANGE, KAFKA_PYTHON, AIOKAFKA_RANGE):
            group.join(kind=kind)
            messages.write(20)
        group.wait_until_divided(messages.places, busy=3)
        messages.write(20)
        group.wait_for_all(messages)
        group.leave(group.members[0])
        group.wait_until_divided(messages.places, busy=2)
        messages.write(20)
        group.wait_for_all(messages)
    messages.check(group.delivered)


def test_settled_group_delivers_every_message_once(group_broker: Broker) -> None:
    messages = Numbered(group_broker, create_topic(group_broker, partitions=4), partitions=4)
    with Group(group_broker, RANGE, messages.topic) as group:
        group.join()
        group.join()
        group.wait_until_divided(messages.places)
        messages.write(500, batch=50)
        group.wait_for(messages.total)
    messages.check(group.delivered, at_most=1)
