import logging

import pytest

from millstream.broker.replication.fetch_troubles import FetchTroubles
from millstream.errors import NotLeaderOrFollower, StorageError, UnknownLeaderEpoch
from millstream.topic_partition import TopicPartition
from tests.waiting import eventually


async def test_a_thousand_partitions_with_one_trouble_are_one_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    troubles = FetchTroubles(2)
    for number in range(1_000):
        troubles.is_tried_again(TopicPartition("orders", number), UnknownLeaderEpoch("newer"))
    troubles.is_tried_again(TopicPartition("clicks", 0), NotLeaderOrFollower("another leads"))
    troubles.is_given_up(TopicPartition("clicks", 1), StorageError("full"))
    assert not caplog.messages
    await eventually(lambda: caplog.messages)
    assert caplog.messages == [
        (
            "1000 partitions (orders-0, orders-1, orders-2, orders-3, orders-4 and 995 more) are not fetched from broker 2, tried again: "
            "UnknownLeaderEpoch: newer"
        ),
        "clicks-0 is not fetched from broker 2, tried again: NotLeaderOrFollower: another leads",
        "clicks-1 is offline here and not copied from broker 2 any more: full",
    ]
    troubles.is_tried_again(TopicPartition("orders", 0), UnknownLeaderEpoch("again"))
    await eventually(lambda: len(caplog.messages) == 4)
