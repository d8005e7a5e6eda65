"""Every row is committed once, wherever a query dies; or the query stops and says why."""

from collections.abc import Iterator
from contextlib import suppress

import pytest

from millstream.spark.exactly_once.batch_commit import BatchCommit, PartlyCommitted, TransactionsLost
from tests.unit.spark.exactly_once.model import BATCH_ROWS, POOL, TIMEOUT_MS, Died, Query

BATCHES = 3


def run(query: Query, *, batches: int = BATCHES) -> None:
    """Run to the end, and again after each death."""
    while query.next_batch < batches:
        with suppress(Died):
            query.run_batch(failed_attempts=1)


def deaths(*, version: int = 2) -> Iterator[Query]:
    """Queries that have died, one at each step that there is."""
    whole = Query(tasks=3)
    run(whole)
    assert whole.steps.count > 60
    for step in range(1, whole.steps.count + 1):
        query = Query(tasks=3, version=version)
        query.steps.dies_at = step
        while query.steps.is_mortal:
            with suppress(Died):
                query.run_batch(failed_attempts=1)
        yield query


def numbers(query: Query) -> list[int]:
    """What has to be committed."""
    return list(range(query.next_batch * BATCH_ROWS))


@pytest.mark.parametrize("version", [1, 2])
def test_a_query_that_dies_at_any_step_commits_every_row_once(version: int) -> None:
    for query in deaths(version=version):
        run(query)
        assert sorted(query.coordinators.committed) == numbers(query)
        assert not query.coordinators.open_ids()


@pytest.mark.parametrize("tasks_after", [1, 5])
def test_a_query_that_comes_back_with_other_tasks_leaves_no_transaction_open(tasks_after: int) -> None:
    for query in deaths():
        query.tasks = tasks_after
        run(query, batches=query.next_batch + 2)
        assert sorted(query.coordinators.committed) == numbers(query)
        assert not query.coordinators.open_ids()


@pytest.mark.parametrize("version", [1, 2])
def test_a_query_that_comes_back_too_late_commits_every_row_once_or_stops(version: int) -> None:
    stopped = 0
    for query in deaths(version=version):
        query.coordinators.time_out()
        try:
            run(query)
        except PartlyCommitted:
            stopped += 1
            committed = query.coordinators.committed
            assert len(numbers(query)) <= len(committed) == len(set(committed)) < len(numbers(query)) + BATCH_ROWS
        else:
            assert sorted(query.coordinators.committed) == numbers(query)
    # After the decision, and after the first and the second of three transactions.
    assert stopped > BATCHES * 3


def test_a_transaction_that_ended_before_the_decision_lets_all_of_them_be_aborted() -> None:
    query = Query(tasks=2)
    coordinators = query.coordinators
    opened = [coordinators.begin(POOL.id_of(task, 0), timeout_ms=TIMEOUT_MS) for task in range(2)]
    for number, one in enumerate(opened):
        coordinators.write(one, [number])
    coordinators.begin(opened[1].transactional_id, timeout_ms=TIMEOUT_MS)
    with pytest.raises(
        TransactionsLost, match=r"1 of 2 transactions ended before .* \(millstream-sink-q-t-1-0\).*transaction.timeout.ms = 60000"
    ):
        BatchCommit(coordinators, coordinators, opened, timeout_ms=TIMEOUT_MS).prepare()
    assert not coordinators.open_ids()
    assert coordinators.committed == []


def test_the_sentence_says_how_much_is_committed() -> None:
    query = Query(tasks=5)
    coordinators = query.coordinators
    opened = [coordinators.begin(POOL.id_of(task, 0), timeout_ms=TIMEOUT_MS) for task in range(5)]
    for number, one in enumerate(opened):
        coordinators.write(one, [number])
    coordinators.end(opened[:1], commit=True)
    coordinators.time_out()
    commit = BatchCommit(coordinators, coordinators, opened, timeout_ms=TIMEOUT_MS)
    with pytest.raises(
        PartlyCommitted, match=r"it was decided, but 1 of its 5 transactions are committed: .* and 1 more: ProducerFenced\). Do this"
    ):
        commit.finish(what="it", advice="Do this")


def test_transactions_of_others_are_left_alone() -> None:
    query = Query(tasks=1)
    other = query.coordinators.begin("millstream-sink-q-t-1-0-0", timeout_ms=TIMEOUT_MS)
    query.coordinators.write(other, [99])
    query.run_batch()
    assert query.coordinators.open_ids() == [other.transactional_id]


def test_without_transactions_nothing_is_asked() -> None:
    query = Query(tasks=1)
    commit = BatchCommit(query.coordinators, query.coordinators, [], timeout_ms=TIMEOUT_MS)
    commit.prepare()
    commit.finish(what="it", advice="")
    commit.abort()
    assert query.steps.count == 0
