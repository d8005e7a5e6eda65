"""Two drivers from one checkpoint: one pauses at any step, the other goes on, and the first wakes up."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import product
from threading import Semaphore
from unittest.mock import patch

import pytest

from millstream.client.transactions import OpenTransaction
from millstream.errors import InvalidProducerEpoch, KafkaError
from millstream.spark.exactly_once.batch_commit import PartlyCommitted, TransactionsLost
from millstream.spark.exactly_once.driver import LONGEST_DECISION_MS, Driver, TakenOver
from millstream.transaction_errors import ProducerFenced
from tests.unit.spark.exactly_once.model import BATCH_ROWS, Query


def paused(*, step: int, version: int, batches: int) -> tuple[Query, list[str]]:
    """A query whose driver pauses at a step of the micro-batch 1, while another runs so many of them; and how both have ended."""
    first = Query(tasks=3, version=version)
    first.run_batch()
    second = first.copy()
    ends: list[str] = []

    def go_on() -> None:
        with suppress(TakenOver, TransactionsLost):
            for _ in range(batches):
                second.run_batch(failed_attempts=1)
            ends.append("second")

    first.steps.pauses_at, first.steps.meanwhile = first.steps.count + step, go_on
    with suppress(TakenOver, TransactionsLost, ProducerFenced):
        first.run_batch()
        ends.append("first")
    return second, ends


def steps_of_a_batch(version: int) -> int:
    query = Query(tasks=3, version=version)
    query.run_batch()
    before = query.steps.count
    query.run_batch()
    return query.steps.count - before


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("batches", [1, 2, 3])
def test_a_driver_that_wakes_up_stores_nothing_over_its_successor(version: int, batches: int) -> None:
    steps = steps_of_a_batch(version)
    assert steps > 20
    for step in range(1, steps + 1):
        query, ends = paused(step=step, version=version, batches=batches)
        assert "second" in ends, step
        record = query.coordinators.record
        assert record is not None, step
        assert (record.batch_id, record.transactions) == (batches, ""), step
        # The successor crashes before its checkpoint knows: its last micro-batch comes again, and another one.
        query.next_batch -= 1
        again = query.copy()
        again.run_batch()
        again.run_batch()
        assert sorted(query.coordinators.committed) == list(range(again.next_batch * BATCH_ROWS)), step
        assert not query.coordinators.open_ids(), step


class Coordinator:
    """Answers with an error, and counts epochs and producer ids as the second protocol does."""

    def __init__(self) -> None:
        self.error: KafkaError | None = None
        self.begun: list[int] = []
        self.committed: list[OpenTransaction] = []

    def begin(self, transactional_id: str, *, timeout_ms: int) -> OpenTransaction:
        self.begun.append(timeout_ms)
        return OpenTransaction(transactional_id, 7, 32_766)

    def add_group(self, opened: OpenTransaction, group_id: str) -> None:
        assert group_id == "g"

    def commit(self, opened: OpenTransaction) -> OpenTransaction:
        if self.error is not None:
            raise self.error
        self.committed.append(opened)
        return opened._replace(producer_id=8, epoch=0)


def test_a_driver_goes_on_with_the_producer_that_the_end_of_a_transaction_gives_it() -> None:
    coordinator, written = Coordinator(), list[OpenTransaction]()
    driver = Driver(coordinator, "q-driver", timeout_ms=900_000)
    driver.take_over()
    for _ in range(2):
        driver.store("g", written.append)
    assert [(opened.producer_id, opened.epoch) for opened in written] == [(7, 32_766), (8, 0)]
    assert coordinator.committed == written
    assert coordinator.begun == [LONGEST_DECISION_MS]


@pytest.mark.parametrize("error", [InvalidProducerEpoch(), ProducerFenced()])
def test_a_fenced_driver_says_what_has_happened_and_what_to_do(error: KafkaError) -> None:
    coordinator = Coordinator()
    driver = Driver(coordinator, "q-driver", timeout_ms=1000)
    driver.take_over()
    coordinator.error = error
    with pytest.raises(TakenOver, match=r"another driver has taken this query over: .*q-driver was fenced .*stop one of them"):
        driver.store("g", lambda opened: None)


class Turns:
    """Lets one of two threads act at a time: the first until its step, the second until its own, then each to its end."""

    def __init__(self, query: Query, steps: Sequence[int]) -> None:
        self._steps = query.steps
        self._left = list(steps)
        self._turns = (Semaphore(0), Semaphore(0))
        self._is_done = [False, False]
        self._now = 0

    def run(self, queries: Sequence[Query]) -> None:
        """Run a micro-batch of each."""
        with patch.object(self._steps, "_pass", self._pass), ThreadPoolExecutor(2) as threads:
            ends = [threads.submit(self._run, number, query) for number, query in enumerate(queries)]
            self._turns[0].release()
            for end in ends:
                end.result(timeout=60)

    def _run(self, number: int, query: Query) -> None:
        assert self._turns[number].acquire(timeout=60)
        try:
            with suppress(TakenOver, TransactionsLost, PartlyCommitted, ProducerFenced):
                query.run_batch()
        finally:
            self._is_done[number] = True
            self._switch(number)

    def _pass(self) -> None:
        number = self._now
        self._left[number] -= 1
        if self._left[number] == 0 and not self._is_done[1 - number]:
            self._switch(number)
            assert self._turns[number].acquire(timeout=60)

    def _switch(self, number: int) -> None:
        self._now = 1 - number
        self._turns[1 - number].release()


@pytest.mark.parametrize("version", [1, 2])
def test_two_drivers_that_overtake_each_other_commit_every_row_once_or_stop(version: int) -> None:
    steps, stopped = steps_of_a_batch(version), 0
    for pair in product(range(1, steps + 1), repeat=2):
        first = Query(tasks=2, version=version)
        first.run_batch()
        second = first.copy()
        Turns(first, pair).run([first, second])
        after = first.copy() if first.next_batch < second.next_batch else second.copy()
        committed = after.coordinators.committed
        try:
            after.run_batch()
            after.run_batch()
        except PartlyCommitted:
            # Tasks of the one have looked before the other decided, and begun after it: that has aborted what was decided.
            stopped += 1
            assert len(set(committed)) == len(committed) < 2 * BATCH_ROWS, pair
        else:
            assert sorted(committed) == list(range(after.next_batch * BATCH_ROWS)), pair
    assert stopped < steps
