"""Positions of real consumers: committed with and without waiting, found again by the next one, left aside by a seek."""

import pytest

from tests.brokers import Broker
from tests.clients.group_kinds import EVERY_CLIENT, Kind
from tests.clients.group_member import Group
from tests.clients.group_requests import fetch_committed
from tests.clients.numbered import Numbered
from tests.topics import create_topic
from tests.waiting import wait_until

each_client = pytest.mark.parametrize("kind", EVERY_CLIENT, ids=str)


@pytest.fixture
def messages(group_broker: Broker) -> Numbered:
    made = Numbered(group_broker, create_topic(group_broker, partitions=2), partitions=2)
    made.write(20)
    return made


@each_client
def test_next_consumer_goes_on_where_the_last_one_committed(group_broker: Broker, messages: Numbered, kind: Kind) -> None:
    with Group(group_broker, kind, messages.topic) as group:
        first = group.join(commits=False)
        group.wait_for(40)
        first.ask(lambda consumer: consumer.commit())
        assert first.ask(lambda consumer: consumer.committed(messages.places)) == dict.fromkeys(messages.places, 20)
        group.leave(first)
        messages.write(5)
        second = group.join(commits=False)
        group.wait_for(50)
        messages.check(group.delivered, at_most=1)
        group.leave(second)
        group.join(commits=False)
        group.wait_for(60)
        messages.check(group.delivered[:50], at_most=1)
        assert {delivery.offset for delivery in group.delivered[50:]} == set(range(20, 25))


@each_client
def test_commit_that_is_not_waited_for_arrives(group_broker: Broker, messages: Numbered, kind: Kind) -> None:
    with Group(group_broker, kind, messages.topic) as group, group_broker.connect() as connection:
        member = group.join(commits=False)
        group.wait_for(40)
        member.ask(lambda consumer: consumer.commit_later())
        wanted = dict.fromkeys(messages.places, 20)

        def is_there() -> bool:
            found = fetch_committed(connection, group.name, None)[1]
            return {place: committed.offset for place, committed in found.items()} == wanted

        wait_until(is_there, "the commit")


@each_client
def test_commit_of_chosen_offsets_carries_its_note(group_broker: Broker, messages: Numbered, kind: Kind) -> None:
    place = (messages.topic, 1)
    with Group(group_broker, kind, messages.topic) as group, group_broker.connect() as connection:
        member = group.join(commits=False)
        group.wait_for(40)
        member.ask(lambda consumer: consumer.commit({place: 7}, metadata="seven"))
        _, found = fetch_committed(connection, group.name, None)
        # confluent-kafka sends the zero byte that ends its string in C along with it.
        assert {at: (one.offset, (one.metadata or "").rstrip("\0")) for at, one in found.items()} == {place: (7, "seven")}
        group.leave(member)
        group.join(commits=False)
        group.wait_for(40 + 20 + 13)
        again = [delivery.offset for delivery in group.delivered[40:] if delivery.place == place]
        assert again == list(range(7, 20))


@each_client
def test_seek_goes_back_and_forth_and_leaves_the_commit_alone(group_broker: Broker, messages: Numbered, kind: Kind) -> None:
    place = (messages.topic, 0)
    with Group(group_broker, kind, messages.topic) as group:
        member = group.join(commits=False)
        group.wait_for(40)
        member.ask(lambda consumer: consumer.commit())
        member.ask(lambda consumer: consumer.seek(place, 15))
        group.wait_for(45)
        assert [delivery.offset for delivery in group.delivered[40:]] == list(range(15, 20))
        assert member.ask(lambda consumer: consumer.committed([place])) == {place: 20}
        member.ask(lambda consumer: consumer.seek(place, 0))
        group.wait_for(65)
        assert [delivery.offset for delivery in group.delivered[45:]] == list(range(20))
