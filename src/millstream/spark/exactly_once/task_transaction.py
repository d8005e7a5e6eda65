"""The transaction of one task: begun with its first row, and left open for the driver; aborted if the task fails."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from millstream.client.raw_producer import RawProducer
from millstream.client.transactions import OpenTransaction
from millstream.errors import MillstreamError
from millstream.spark.worker_connections import await_brokers, transactions_for

_PATIENCE_S: Final = 5.0
"""For the end of a transaction whose task has failed already."""


@contextmanager
def task_transaction(producer: RawProducer, transactional_id: str | None) -> Iterator[OpenTransaction | None]:
    """Let the producer write in a transaction with this id, if there is one."""
    if transactional_id is None:
        yield None
        return
    timeout_ms = producer.settings.transaction_timeout_ms
    assert timeout_ms is not None, "a transaction of a producer that has none"
    await_brokers(producer.settings)
    transactions = transactions_for(producer.settings)
    opened = transactions.begin(transactional_id, timeout_ms=timeout_ms)
    producer.begin(transactions.writing(opened))
    try:
        yield opened
    except BaseException:
        # So that readers need not wait for its end. If that fails, too, the driver, the next attempt or the time-out ends it.
        with suppress(MillstreamError):
            transactions.end([opened], commit=False, timeout_s=_PATIENCE_S)
        raise
