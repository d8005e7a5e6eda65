"""What else happens to partitions while they move: their topic grows or goes, elections, other moves; and the partitions of coordinators.

Groups go on committing while `__consumer_offsets` moves, and transactions go on while `__transaction_state` and what they write to does.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle, pairwise
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.brokers import IS_KAFKA
from tests.cluster.brokers_on_tree import BrokersOnTree
from tests.cluster.reassigning import (
    DEADLINE_S,
    PARTITIONS,
    await_moved,
    await_progress,
    away,
    has_files,
    listed,
    others,
    reassign,
    under_load,
)
from tests.connection import CREATE_PARTITIONS, DELETE_TOPICS
from tests.topics import fresh_name
from tests.waiting import wait_until

pytestmark = [pytest.mark.skipif(IS_KAFKA, reason="about Millstream's own files and znodes"), pytest.mark.slow]

ELECT_LEADERS = 43
PREFERRED, UNCLEAN = 0, 1


def elect(cluster: BrokersOnTree, topic: str, kind: int) -> list[int]:
    fields = {"election_type": kind, "topic_partitions": [{"topic": topic, "partitions": list(PARTITIONS)}], "timeout_ms": 10_000}
    return [one.error_code for one in cluster.ask(ELECT_LEADERS, 2, fields).replica_election_results[0].partition_result]


def grow(cluster: BrokersOnTree, topic: str, count: int) -> int:
    fields = {"topics": [{"name": topic, "count": count, "assignments": None}], "timeout_ms": 30_000, "validate_only": False}
    return int(cluster.ask(CREATE_PARTITIONS, 3, fields).results[0].error_code)


def delete(cluster: BrokersOnTree, topic: str) -> int:
    fields = {"topics": [{"name": topic, "topic_id": None}], "timeout_ms": 30_000}
    return int(cluster.ask(DELETE_TOPICS, 6, fields).responses[0].error_code)


def test_a_topic_that_grows_while_it_moves_has_no_more_replicas_than_it_will_have(cluster: BrokersOnTree) -> None:
    leader, follower, target = others(cluster, cluster.controller())
    topic = cluster.create(*[[leader, follower]] * 3)
    with under_load(cluster, topic):
        with away(cluster, target):
            assert reassign(cluster, topic, [target, follower]) == [0, 0, 0]
            assert grow(cluster, topic, 5) == 0
            assert {len(cluster.state(topic, number)["replicas"]) for number in (3, 4)} == {2}
        await_moved(cluster, topic, target, follower)


def test_a_topic_that_is_deleted_while_it_moves_leaves_nothing_anywhere(cluster: BrokersOnTree) -> None:
    leader, follower, target = others(cluster, cluster.controller())
    topic = cluster.create(*[[leader, follower]] * 3)
    assert reassign(cluster, topic, [target, follower]) == [0, 0, 0]
    with away(cluster, leader):
        assert reassign(cluster, topic, [follower, leader]) == [0, 0, 0]
        assert delete(cluster, topic) == 0
        assert listed(cluster, topic) == []
    wait_until(lambda: not any(has_files(cluster, node_id, topic) for node_id in cluster.nodes), "no broker has files of it")


def test_elections_while_partitions_move(cluster: BrokersOnTree) -> None:
    """The preferred leader of a partition that moves is the first of the target, which cannot lead yet."""
    leader, follower, target = others(cluster, cluster.controller())
    topic = cluster.create(*[[leader, follower]] * 3)
    with under_load(cluster, topic) as load:
        with away(cluster, target):
            assert reassign(cluster, topic, [target, follower]) == [0, 0, 0]
            assert 0 not in elect(cluster, topic, PREFERRED)
            assert 0 not in elect(cluster, topic, UNCLEAN), "they are led"
            await_progress(load)
        await_moved(cluster, topic, target, follower)


class Work:
    """Something that is done again and again by a thread; what it raises is raised at the end."""

    def __init__(self, step: Callable[[], None]) -> None:
        self._step = step
        self._asked_to_end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.done = 0
        self.error: BaseException | None = None

    def _run(self) -> None:
        try:
            while not self._asked_to_end.is_set():
                self._step()
                self.done += 1
        except BaseException as error:  # noqa: BLE001 -- raised by `end`
            self.error = error

    def await_progress(self) -> None:
        before = self.done
        wait_until(lambda: self.error or self.done >= before + 3, "it goes on", deadline_s=DEADLINE_S)

    @contextmanager
    def going_on(self) -> Iterator[None]:
        self._thread.start()
        try:
            self.await_progress()
            yield
            self.await_progress()
        finally:
            self._asked_to_end.set()
            self._thread.join(DEADLINE_S)
        if self.error is not None:
            raise self.error


def move_about(cluster: BrokersOnTree, topic: str, *, works: Work) -> None:
    """All partitions of the topic, from pair to pair of brokers; with one broker that leads some of them killed on the way."""
    numbers = range(len(cluster.tree.children(f"/cluster/brokers/topics/{topic}/partitions")))
    for former, target in pairwise([(1, 2), (3, 4), (4, 1), (2, 3)]):
        assert set(reassign(cluster, topic, target, numbers=numbers)) == {0}
        if former == (3, 4):
            with away(cluster, 3):
                works.await_progress()
        await_moved(cluster, topic, *target, numbers=numbers)
        works.await_progress()


def test_groups_commit_while_the_partitions_of_their_offsets_move(cluster: BrokersOnTree) -> None:
    topic = cluster.create([1, 2, 3, 4])
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": fresh_name("group"), "log_level": 0})
    place = TopicPartition(topic, 0)
    last = 0

    def commit() -> None:
        nonlocal last
        try:
            consumer.commit(offsets=[TopicPartition(topic, 0, last + 1)], asynchronous=False)
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
            return
        last += 1

    def committed() -> int:
        (found,) = consumer.committed([place], timeout=DEADLINE_S)
        return int(found.offset)

    try:
        commit()
        work = Work(commit)
        with work.going_on():
            move_about(cluster, "__consumer_offsets", works=work)
        assert committed() in (last, last + 1), "the last that was not acknowledged may have been done"
    finally:
        consumer.close()


def test_transactions_go_on_while_their_coordinators_and_what_they_write_to_move(cluster: BrokersOnTree) -> None:
    topic = cluster.create(*[[1, 2]] * 3)
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "transactional.id": fresh_name("id"),
            "log_level": 0,
            "transaction.timeout.ms": 60_000,
        }
    )
    producer.init_transactions(DEADLINE_S)
    numbers = cycle(range(10**9))
    committed: list[int] = []

    def transact() -> None:
        number, is_committed = next(numbers), len(committed) % 4 != 3
        producer.begin_transaction()
        for partition in PARTITIONS:
            producer.produce(topic, b"%d" % number, partition=partition)
        if is_committed:
            end(producer.commit_transaction)
            committed.append(number)
        else:
            end(producer.abort_transaction)
            committed.append(-1)

    work = Work(transact)
    with work.going_on():
        move_about(cluster, "__transaction_state", works=work)
        for target in ((3, 4), (1, 2)):
            assert reassign(cluster, topic, target) == [0, 0, 0]
            await_moved(cluster, topic, *target)
            work.await_progress()
    expected = [number for number in committed if number >= 0]
    await_committed(cluster, topic, expected)


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_transaction_that_is_open_while_its_partition_moves_ends_as_it_was_decided(cluster: BrokersOnTree, is_committed: bool) -> None:
    """None of those who keep the partition in the end was there when it began."""
    topic = cluster.create(*[[1, 2]] * 3)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": fresh_name("id"), "log_level": 0})
    producer.init_transactions(DEADLINE_S)
    producer.begin_transaction()
    for partition in PARTITIONS:
        producer.produce(topic, b"1", partition=partition)
    assert producer.flush(DEADLINE_S) == 0
    assert reassign(cluster, topic, [3, 4]) == [0, 0, 0]
    await_moved(cluster, topic, 3, 4)
    for partition in PARTITIONS:
        assert read_committed(cluster, topic, partition) == [], "it is open"
        producer.produce(topic, b"2", partition=partition)
    end(producer.commit_transaction if is_committed else producer.abort_transaction)
    producer.begin_transaction()
    for partition in PARTITIONS:
        producer.produce(topic, b"3", partition=partition)
    end(producer.commit_transaction)
    await_committed(cluster, topic, [1, 2, 3] if is_committed else [3])


def end(how: Callable[[float], Any]) -> None:
    """Commit or abort, again while the client says that this may help."""

    def is_done() -> bool:
        try:
            how(DEADLINE_S)
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
            return False
        return True

    wait_until(is_done, "the end of the transaction", deadline_s=DEADLINE_S)


def await_committed(cluster: BrokersOnTree, topic: str, expected: list[int]) -> None:
    """Until this is in each partition, and nothing else: a client hears of the end of a transaction before the partitions do."""
    for partition in PARTITIONS:
        found: list[int] = []

        def has_all(partition: int = partition, found: list[int] = found) -> bool:
            found[:] = read_committed(cluster, topic, partition)
            return len(found) >= len(expected)

        wait_until(has_all, "all that was committed", deadline_s=DEADLINE_S)
        assert found == expected, f"partition {partition}"


def read_committed(cluster: BrokersOnTree, topic: str, partition: int) -> list[int]:
    """All numbers of committed transactions, up to the end."""
    settings: dict[str, Any] = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": "none",
        "log_level": 0,
        "enable.partition.eof": True,
    }
    consumer = Consumer({**settings, "isolation.level": "read_committed"})
    found: list[int] = []
    consumer.assign([TopicPartition(topic, partition, 0)])

    def is_at_end() -> bool:
        for message in consumer.consume(1000, timeout=0.2):
            if message.error() is not None:
                return True
            found.append(int(message.value() or b""))
        return False

    try:
        wait_until(is_at_end, "the end", deadline_s=DEADLINE_S)
    finally:
        consumer.close()
    return found
