"""The transactions of a micro-batch in few bytes."""

import random

import pytest

from millstream.client.transactions import OpenTransaction
from millstream.spark.exactly_once.decision import read_transactions, write_transactions
from millstream.spark.exactly_once.transaction_pool import TransactionPool

POOL = TransactionPool("millstream-sink-q-t")
OFFSET_METADATA_MAX_BYTES = 4096


def test_what_is_written_is_read_in_the_order_of_tasks() -> None:
    opened = [OpenTransaction(POOL.id_of(3, 2), 2**62, 32_766, 1), OpenTransaction(POOL.id_of(0, 0), 5, 0, 2)]
    assert read_transactions(write_transactions(opened, POOL), POOL) == tuple(reversed(opened))


def test_a_thousand_tasks_fit_beside_an_offset() -> None:
    generator = random.Random(1)
    producer_ids = list(range(41_000, 42_000))
    generator.shuffle(producer_ids)
    opened = [
        OpenTransaction(POOL.id_of(task, int(generator.random() < 0.02)), producer_id, 300 + int(generator.random() < 0.05))
        for task, producer_id in enumerate(producer_ids)
    ]
    text = write_transactions(opened, POOL)
    assert len(text) < OFFSET_METADATA_MAX_BYTES * 0.9
    assert read_transactions(text, POOL) == tuple(opened)


@pytest.mark.parametrize("text", ["", "nonsense", "c-pm", "é"])
def test_another_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no transactions"):
        read_transactions(text, POOL)
