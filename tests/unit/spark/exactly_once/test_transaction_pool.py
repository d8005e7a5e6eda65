"""The names of transactions, and whose they are."""

import pytest

from millstream.batch_memory import batch_memory_of
from millstream.spark.exactly_once.transaction_pool import MOST_ATTEMPTS, TransactionPool


def test_each_attempt_of_a_task_has_an_id_and_there_are_only_so_many() -> None:
    pool = TransactionPool("p")
    assert pool.id_of(3, 0) == "p-3-0"
    assert len({pool.id_of(3, attempt) for attempt in range(100)}) == MOST_ATTEMPTS
    assert TransactionPool.of("p-3-0") == pool


@pytest.mark.parametrize("topics", [("x", "x-1"), (None, "5"), (None, "5-6"), ("x-1", "x-1-0"), ("a", "ab")])
def test_the_ids_of_one_topic_are_not_those_of_another(topics: tuple[str | None, str]) -> None:
    first, second = (TransactionPool(batch_memory_of("q", topic)) for topic in topics)
    assert first.place_of(first.id_of(7, 1)) == (7, 1)
    assert first.place_of(second.id_of(7, 1)) is None
    assert second.place_of(first.id_of(7, 1)) is None
    assert first.place_of("strange") is None
