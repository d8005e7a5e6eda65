"""Exactly once, step by step: what a reader of committed data gets when tasks, the driver or the broker die; without Spark around it."""

import random
import threading
from unittest.mock import patch

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from millstream.client.admin.transaction_admin import TransactionAdmin
from millstream.client.cluster import Cluster
from millstream.client.errors import DeliveryFailed
from millstream.client.transactions import OpenTransaction, Transactions
from millstream.errors import OffsetMetadataTooLarge
from millstream.spark import worker_connections
from millstream.spark.exactly_once.batch_commit import PartlyCommitted, TransactionsLost
from millstream.spark.exactly_once.driver import Driver, TakenOver
from millstream.spark.sink.sink_progress import SinkProgress, WrittenBatch, transaction_pool
from millstream.spark.sink.writer import BatchWriter, UnfinishedBatch
from millstream.topic_partition import TopicPartition
from tests.brokers import Broker
from tests.spark.dying_commits import STEPS
from tests.spark.transactional_query import ROWS, TaskContext, TransactionalQuery, dying, revive
from tests.topics import create_topic
from tests.waiting import wait_until


@pytest.fixture(params=[1, 2])
def version(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Which protocol is spoken: a cluster that has agreed on the second takes both."""
    monkeypatch.setattr(Transactions, "version", lambda _: request.param)
    revive()
    return int(request.param)


def query_on(peer: Broker, *, partitions: int = 2, **options: object) -> TransactionalQuery:
    return TransactionalQuery(peer, create_topic(peer, partitions=partitions), **options)


@pytest.mark.usefixtures("version")
@pytest.mark.parametrize("step", STEPS)
def test_a_driver_that_dies_at_any_step_leaves_every_row_once(peer: Broker, step: str) -> None:
    query = query_on(peer)
    query.run(0, range(10), range(10, 20))
    with dying(step):
        query.run(1, range(20, 30), range(30, 40), range(40, 50))
    query.run(1, range(20, 30), range(30, 40), range(40, 50))
    query.run(2, range(50, 60))
    query.await_committed(range(60))
    assert query.open_ids() == []


@pytest.mark.usefixtures("version")
def test_attempts_that_died_are_fenced_and_not_seen(peer: Broker) -> None:
    query = query_on(peer)
    dead = query.write(0, 0, range(5))
    slow = query.write(0, 1, range(10, 20), attempt=1)
    written = [query.write(0, 0, range(10), attempt=1), query.write(0, 1, range(10, 20))]
    assert len(query.open_ids()) == 4
    query.writer.commit(written, 0)
    assert query.open_ids() == []
    query.await_committed(range(20))
    assert dead.transaction is not None
    assert slow.transaction is not None
    with Cluster(peer.bootstrap_servers) as cluster:
        assert len(Transactions(cluster, timeout_s=30).end([dead.transaction, slow.transaction], commit=True)) == 2


def test_a_driver_that_comes_back_with_fewer_tasks_ends_what_the_others_left(peer: Broker) -> None:
    query = query_on(peer)
    for task in range(5):
        query.write(0, task, range(task * 2, task * 2 + 2))
    revive()
    query.run(0, range(10))
    query.await_committed(range(10))
    assert query.open_ids() == []


def test_a_task_that_fails_aborts_its_transaction(peer: Broker) -> None:
    query = query_on(peer, kafka_max_request_size=2_000, kafka_batch_size=500)
    with pytest.raises(DeliveryFailed, match=r"more than kafka.max.request.size"):
        query.write(0, 0, [*range(100), 10**2_500])
    wait_until(lambda: not query.open_ids(), "the abort")


def test_a_write_that_failed_is_aborted_and_one_that_may_be_decided_is_not(peer: Broker) -> None:
    query = query_on(peer)
    written = [query.write(0, task, [task]) for task in range(2)]
    query.writer.abort(written, 0)
    assert len(query.open_ids()) == 2
    query.writer.abort([*written, None], 0)
    assert query.open_ids() == []


def test_a_batch_write_that_failed_leaves_nothing_open_also_of_tasks_that_were_killed(peer: Broker) -> None:
    topic = create_topic(peer)
    options = {"kafka.bootstrap.servers": peer.bootstrap_servers, "topic": topic, "delivery.guarantee": "exactly-once"}
    writer = BatchWriter(options, from_arrow_schema(ROWS), overwrite=False)
    for task in range(2):
        with patch("millstream.spark.sink.writer.TaskContext", TaskContext("", 0, task=task, attempt=0)):
            written = writer.write(iter(pa.table({"key": ["a"], "value": ["b"]}, schema=ROWS).to_batches()))
    with Cluster(peer.bootstrap_servers) as cluster:
        admin = TransactionAdmin(cluster, timeout_s=30)
        assert len(admin.open_on([TopicPartition(topic, 0)])) == 2
        writer.abort([written, None])
        wait_until(lambda: not admin.open_on([TopicPartition(topic, 0)]), "the markers")


@pytest.mark.usefixtures("version")
def test_a_transaction_that_timed_out_before_the_decision_fails_the_micro_batch_as_a_whole(peer: Broker) -> None:
    query = query_on(peer, kafka_transaction_timeout_ms=1000)
    first = query.write(0, 0, range(5))
    wait_until(lambda: not query.open_ids(), "the time-out", deadline_s=60)
    written = [first, query.write(0, 1, range(5, 10))]
    with pytest.raises(TransactionsLost, match=r"1 of 2 transactions ended before all tasks had written .*timeout.ms = 1000: raise it"):
        query.writer.commit(written, 0)
    assert query.open_ids() == []
    query.options["kafka.transaction.timeout.ms"] = "60000"
    query.run(0, range(5), range(5, 10))
    query.await_committed(range(10))


@pytest.mark.usefixtures("version")
def test_a_decided_micro_batch_that_comes_back_too_late_stops_with_a_sentence(peer: Broker) -> None:
    query = query_on(peer, kafka_transaction_timeout_ms=2000)
    with dying("between two EndTxns"):
        query.run(0, range(5), range(5, 10))
    wait_until(lambda: not query.open_ids(), "the time-out", deadline_s=60)
    for _ in range(2):
        with pytest.raises(
            PartlyCommitted, match=r"the micro-batch 0 was decided, but 1 of its 2 transactions are committed: .*ReplayedBatches"
        ):
            query.run(0, range(5), range(5, 10))
    query.options["skipReplayedBatches"] = "false"
    query.run(0, range(5), range(5, 10))
    query.await_committed([*range(5), *range(10)])


def test_a_query_from_a_copy_of_the_checkpoint_fences_and_says_so(peer: Broker) -> None:
    query = query_on(peer)
    first = query.write(0, 0, range(5))
    second = query.write(0, 0, range(5))
    with pytest.raises(TransactionsLost, match="another query runs from a copy of this checkpoint"):
        query.writer.commit([first], 0)
    query.writer.commit([second], 0)
    query.await_committed(range(5))


@pytest.mark.usefixtures("version")
@pytest.mark.parametrize("step", ["before the decision", "in the decision", "before the rewrite"])
def test_a_driver_that_wakes_up_stores_nothing_over_its_successor(peer: Broker, step: str) -> None:
    query = query_on(peer)
    first = [query.write(0, task, range(task * 5, task * 5 + 5)) for task in range(2)]
    remember, commit = SinkProgress.remember, Transactions.commit

    def go_on() -> None:
        with patch.object(SinkProgress, "remember", remember), patch.object(Transactions, "commit", commit):
            worker_connections._begun.clear()
            query.run(0, range(5), range(5, 10))
            query.run(1, range(10, 15))

    def pause_and_remember(self: SinkProgress, batch: WrittenBatch, driver: Driver | None = None) -> None:
        if bool(batch.transactions) == (step == "before the decision"):
            go_on()
        remember(self, batch, driver)

    def pause_and_commit(self: Transactions, opened: OpenTransaction) -> OpenTransaction:
        go_on()
        return commit(self, opened)

    with pytest.MonkeyPatch.context() as patched:
        if step == "in the decision":
            patched.setattr(Transactions, "commit", pause_and_commit)
        else:
            patched.setattr(SinkProgress, "remember", pause_and_remember)
        with pytest.raises(TakenOver, match="another driver has taken this query over"):
            query.writer.commit(first, 0)
    query.run(1, range(10, 15))
    query.run(2, range(15, 20))
    query.await_committed(range(20))
    assert query.open_ids() == []


def test_a_driver_whose_tasks_wrote_while_another_decided_stops(peer: Broker) -> None:
    query = query_on(peer)
    late = [query.write(0, 0, range(5))]
    query.run(0, range(5))
    with pytest.raises(TakenOver, match="the micro-batch 0 was committed while this one wrote another"):
        query.writer.commit(late, 0)
    query.run(1, range(5, 10))
    query.await_committed(range(10))


def test_a_micro_batch_that_comes_after_one_that_is_decided_and_not_committed_stops(peer: Broker) -> None:
    query = query_on(peer)
    with dying("after the decision"):
        query.run(0, range(5), range(5, 10))
    query.writer.commit([], 0)
    with pytest.raises(UnfinishedBatch, match=r"0 with 10 rows was decided, but .* now 1 comes without it: its rows would be lost"):
        query.run(1, range(10, 15))
    # Nothing is lost: the transactions are still open.
    query.run(0, range(5), range(5, 10))
    query.run(1, range(10, 15))
    query.await_committed(range(15))


def test_a_query_may_change_its_guarantee_in_the_middle_of_a_micro_batch(peer: Broker) -> None:
    query = query_on(peer)
    with dying("after the decision"):
        query.run(0, range(5), range(5, 10))
    assert len(query.remembered_transactions()) == 2
    query.options["delivery.guarantee"] = "at-least-once"
    query.run(0, range(5), range(5, 10))
    assert query.remembered_transactions() == ()
    query.run(1, range(10, 15))
    query.options["delivery.guarantee"] = "exactly-once"
    query.run(1, range(10, 15))
    query.run(2, range(15, 20))
    query.await_committed(range(20))


def test_a_broker_that_is_killed_in_the_middle_costs_only_time(peer: Broker) -> None:
    decided, written = query_on(peer), query_on(peer)
    with dying("between two EndTxns"):
        decided.run(0, range(5), range(5, 10))
    messages = [written.write(0, 0, range(5)), written.write(0, 1, range(5, 10))]
    peer.kill()
    peer.start()
    written.writer.commit(messages, 0)
    decided.run(0, range(5), range(5, 10))
    for query in (decided, written):
        query.await_committed(range(10))


def test_so_many_tasks_that_the_decision_has_no_room_are_an_error(peer: Broker) -> None:
    query = query_on(peer)
    generator = random.Random(5)
    pool = transaction_pool(query.query_id, query.topic)
    opened = tuple(OpenTransaction(pool.id_of(task, 0), generator.randrange(2**40), generator.randrange(2**15)) for task in range(900))
    with pytest.raises(OffsetMetadataTooLarge, match=r"written by 900 tasks, .* has no room for so many .* let fewer tasks write"):
        query.remember(WrittenBatch(0, 5, 5, frozenset({query.topic}), transactions=opened))
    assert query.remembered() is None
    few = WrittenBatch(0, 5, 5, frozenset({query.topic}), transactions=opened[:100])
    query.remember(few)
    assert query.remembered() == few


def test_a_query_and_a_broker_that_are_killed_again_and_again_commit_every_row_once(transactional_broker: Broker) -> None:
    query = query_on(transactional_broker, partitions=3)
    generator = random.Random(7)

    def kill_and_start() -> None:
        transactional_broker.kill()
        transactional_broker.start()

    for batch_id in range(24):
        tasks = [range(batch_id * 30 + task * 10, batch_id * 30 + task * 10 + 10) for task in range(3)]
        for step in sorted(generator.sample(STEPS, generator.randrange(3)), key=STEPS.index):
            with dying(step):
                query.run(batch_id, *tasks)
        killer = threading.Timer(generator.random() / 20, kill_and_start)
        if batch_id % 4 == 0:
            killer.start()
        query.run(batch_id, *tasks)
        if batch_id % 4 == 0:
            killer.join()
    query.await_committed(range(720))
    assert query.open_ids() == []
