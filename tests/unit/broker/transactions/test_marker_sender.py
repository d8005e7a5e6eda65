"""Markers on their way to leaders that are slow, move, refuse or go away."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, cast
from uuid import UUID

import pytest

from millstream.broker.cluster.peers import Peers
from millstream.broker.transactions import marker_sender
from millstream.broker.transactions.marker_sender import MarkerSender
from millstream.broker.transactions.marker_writes import MarkerResults, MarkerWrites, ProducerMarkers
from millstream.client.codecs.request import MessageRequest
from millstream.client.errors import BrokerUnavailable
from millstream.coordination.cluster_view import BrokerState, ClusterView, TopicState
from millstream.coordination.partition_state import PartitionState
from millstream.errors import InvalidProducerEpoch, NotLeaderOrFollower
from millstream.topic_partition import TopicPartition
from millstream.transaction_errors import TransactionCoordinatorFenced
from millstream.transactions.shard import MarkerBatch
from millstream.transactions.transaction import Producer
from millstream.wire.responses.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from tests.waiting import eventually

HERE = 1
Codes = dict[TopicPartition, int]


class Unmarked:
    """A transaction whose end is decided."""

    def __init__(self, producer_id: int, *partitions: TopicPartition) -> None:
        self.markers = MarkerBatch(f"t{producer_id}", Producer(producer_id, 3), 7, True, 2, frozenset(partitions))
        self.is_wanted = True
        self.is_writable = True
        self.completions = 0
        self._left = set(partitions)

    @property
    def is_marked(self) -> bool:
        return not self._left

    def marked(self, partitions: Iterable[TopicPartition]) -> None:
        self._left.difference_update(partitions)

    def fenced(self) -> None:
        self.is_wanted = False

    def complete(self) -> bool:
        self.completions += self.is_writable
        return self.is_writable


class Cluster:
    """Other brokers that are asked, the own one that writes, and who leads what."""

    def __init__(self, leaders: dict[str, int], *, brokers: Sequence[int] = (1, 2, 3)) -> None:
        self.brokers = list(brokers)
        self.leaders = leaders
        self.asked: list[tuple[int, dict[int, list[TopicPartition]], asyncio.Future[Codes]]] = []
        self.written_here: list[ProducerMarkers] = []
        self.looks = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self.sender = MarkerSender(
            node_id=HERE,
            view=self.view,
            peers=cast(Peers, self),
            writes=cast(MarkerWrites, self),
            spawn=self._spawn,
        )

    def view(self) -> ClusterView:
        self.looks += 1
        topics = {
            name: TopicState(
                name,
                UUID(int=number + 1),
                (PartitionState((1, 2, 3), leader, 0, (1, 2, 3)),),
            )
            for number, (name, leader) in enumerate(self.leaders.items())
        }
        return ClusterView(topics=topics, brokers={one: BrokerState(one, "localhost", 9000 + one) for one in self.brokers})

    async def ask(self, node_id: int, request: MessageRequest[WriteTxnMarkersResponse], *, timeout_s: float) -> WriteTxnMarkersResponse:
        markers = cast("list[dict[str, Any]]", request.fields["markers"])
        sent = {
            one["producer_id"]: [TopicPartition(topic["name"], index) for topic in one["topics"] for index in topic["partition_indexes"]]
            for one in markers
        }
        answer: asyncio.Future[Codes] = asyncio.get_running_loop().create_future()
        self.asked.append((node_id, sent, answer))
        codes = await answer
        return WriteTxnMarkersResponse(
            tuple(
                WritableTxnMarkerResult(
                    producer_id,
                    tuple(
                        WritableTxnMarkerTopicResult(one.topic, (WritableTxnMarkerPartitionResult(one.partition, codes.get(one, 0)),))
                        for one in partitions
                    ),
                )
                for producer_id, partitions in sent.items()
            )
        )

    def write(self, markers: Sequence[ProducerMarkers], *, timeout_ms: int, done: Callable[[MarkerResults], None]) -> None:
        self.written_here += markers
        done([dict.fromkeys(one.partitions) for one in markers])

    def close(self) -> None:
        """The connections to the others."""

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def next_request(self) -> tuple[int, dict[int, list[TopicPartition]], asyncio.Future[Codes]]:
        await eventually(lambda: self.asked)
        return self.asked.pop(0)


def of(topic: str) -> TopicPartition:
    return TopicPartition(topic, 0)


async def test_what_is_led_here_is_written_at_once_without_a_socket() -> None:
    cluster = Cluster({"a": HERE})
    one = Unmarked(10, of("a"))
    cluster.sender.send([one])
    assert (one.completions, cluster.asked) == (1, [])
    assert cluster.written_here == [ProducerMarkers(10, 3, 7, True, 2, (of("a"),))]


async def test_leader_gets_many_transactions_in_one_request_and_the_next_when_it_has_answered() -> None:
    cluster = Cluster({"a": 2, "b": 2})
    first, second, third = Unmarked(10, of("a"), of("b")), Unmarked(11, of("a")), Unmarked(12, of("a"))
    cluster.sender.send([first, second])
    node_id, sent, answer = await cluster.next_request()
    assert (node_id, sent) == (2, {10: [of("a"), of("b")], 11: [of("a")]})
    cluster.sender.send([third])
    await asyncio.sleep(0)
    assert not cluster.asked
    answer.set_result({})
    _, sent, answer = await cluster.next_request()
    assert (sent, first.completions, second.completions) == ({12: [of("a")]}, 1, 1)
    answer.set_result({})
    await eventually(lambda: third.completions == 1)


async def test_marker_follows_the_leader() -> None:
    cluster = Cluster({"a": 2, "b": 2})
    one = Unmarked(10, of("a"), of("b"))
    cluster.sender.send([one])
    _, _, answer = await cluster.next_request()
    cluster.leaders["a"] = 3
    answer.set_result({of("a"): NotLeaderOrFollower.code})
    node_id, sent, answer = await cluster.next_request()
    assert (node_id, sent, one.completions) == (3, {10: [of("a")]}, 0)
    answer.set_result({})
    await eventually(lambda: one.completions == 1)


async def test_partition_without_a_leader_waits_for_one_and_one_without_a_topic_needs_no_marker() -> None:
    cluster = Cluster({"a": -1})
    one = Unmarked(10, of("a"), of("gone"))
    cluster.sender.send([one])
    assert (one.completions, len(cluster.sender)) == (0, 1)
    cluster.leaders["a"] = HERE
    cluster.sender.view_changed()
    await eventually(lambda: one.completions == 1)
    assert [markers.partitions for markers in cluster.written_here] == [(of("a"),)]


class Counted(Unmarked):
    """Counts how often the sender looks at it."""

    looks = 0

    @property
    def is_wanted(self) -> bool:
        self.looks += 1
        return True

    @is_wanted.setter
    def is_wanted(self, value: bool) -> None:
        pass


async def test_what_cannot_be_delivered_is_tried_ever_more_seldom_though_others_are_delivered() -> None:
    cluster, stuck = Cluster({"a": -1, "b": HERE}), Counted(10, of("a"))
    cluster.sender.send([stuck])
    begun = time.monotonic()
    for number in range(40):
        cluster.sender.send([Unmarked(number + 11, of("b"))])
        await asyncio.sleep(0.025)
    # Some tries until the pause is the longest, and then one per second; not one for each of the forty others.
    assert stuck.looks / 2 <= 12 + (time.monotonic() - begun)
    assert stuck.completions == 0


async def test_broker_that_cannot_be_reached_is_asked_again() -> None:
    cluster = Cluster({"a": 2})
    one = Unmarked(10, of("a"))
    cluster.sender.send([one])
    _, _, answer = await cluster.next_request()
    answer.set_exception(BrokerUnavailable("away"))
    _, _, answer = await cluster.next_request()
    answer.set_result({})
    await eventually(lambda: one.completions == 1)


async def test_broker_that_never_answers_is_not_waited_for_when_it_is_gone() -> None:
    cluster = Cluster({"a": 2})
    one = Unmarked(10, of("a"))
    cluster.sender.send([one])
    await cluster.next_request()
    cluster.brokers, cluster.leaders["a"] = [1, 3], 3
    cluster.sender.view_changed()
    node_id, _, answer = await cluster.next_request()
    assert node_id == 3
    answer.set_result({})
    await eventually(lambda: one.completions == 1)


async def test_transaction_that_was_ended_by_hand_is_complete_and_that_of_another_coordinator_is_left_to_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = Cluster({"a": 2, "b": 2})
    by_hand, others = Unmarked(10, of("a")), Unmarked(11, of("b"))
    cluster.sender.send([by_hand, others])
    _, _, answer = await cluster.next_request()
    answer.set_result({of("a"): InvalidProducerEpoch.code, of("b"): TransactionCoordinatorFenced.code})
    await eventually(lambda: by_hand.completions == 1)
    assert (others.completions, others.is_wanted, len(cluster.sender)) == (0, False, 0)
    assert "a-0 has no use for a marker of 't10'" in caplog.text


async def test_producer_stands_in_a_request_once() -> None:
    cluster = Cluster({"a": 2})
    former, present = Unmarked(10, of("a")), Unmarked(10, of("a"))
    cluster.sender.send([former, present])
    _, sent, answer = await cluster.next_request()
    assert sent == {10: [of("a")]}
    present.is_wanted = False
    answer.set_result({})
    await eventually(lambda: former.completions == 1)
    assert (present.completions, cluster.asked) == (0, [])


async def test_large_transaction_goes_in_several_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marker_sender, "MARKERS_PER_REQUEST", 2)
    cluster = Cluster(dict.fromkeys("abc", 2))
    large, small = Unmarked(10, of("a"), of("b"), of("c")), Unmarked(11, of("a"))
    cluster.sender.send([large, small])
    sent = []
    for _ in range(2):
        _, markers, answer = await cluster.next_request()
        sent.append(markers)
        answer.set_result({})
    await eventually(lambda: large.completions == small.completions == 1)
    assert sent == [{10: [of("a"), of("b")]}, {10: [of("c")], 11: [of("a")]}]


async def test_end_that_cannot_be_written_down_is_tried_again() -> None:
    cluster = Cluster({"a": HERE})
    one = Unmarked(10, of("a"))
    one.is_writable = False
    cluster.sender.send([one])
    assert len(cluster.sender) == 1
    one.is_writable = True
    await eventually(lambda: one.completions == 1)
    assert (len(cluster.written_here), len(cluster.sender)) == (1, 0)


async def test_markers_that_cannot_be_written_for_long_are_reported_once_and_so_is_their_end(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level("INFO")
    monkeypatch.setattr(marker_sender, "_LONGEST_PAUSE_S", 0.04)
    cluster = Cluster({"a": -1, "b": HERE})
    stuck, lost = Unmarked(10, of("a")), Unmarked(11, of("a"))
    cluster.sender.send([stuck, lost])
    await eventually(lambda: caplog.messages)
    cluster.sender.send([Unmarked(12, of("b"))])
    looks = cluster.looks
    await eventually(lambda: cluster.looks > looks + 3, "it is tried again")
    lost.is_wanted = False
    cluster.sender.view_changed()
    assert len(cluster.sender) == 1
    cluster.leaders["a"] = HERE
    await eventually(lambda: stuck.completions == 1)
    assert caplog.messages == [
        "the markers of 2 ended transactions cannot be written yet: a-0 has no leader",
        "all markers of ended transactions are written",
    ]


async def test_nothing_is_sent_after_the_broker_has_stopped() -> None:
    cluster = Cluster({"a": -1})
    cluster.sender.send([Unmarked(10, of("a"))])
    cluster.sender.close()
    cluster.leaders["a"] = HERE
    cluster.sender.view_changed()
    assert (cluster.written_here, len(cluster.sender)) == ([], 0)
