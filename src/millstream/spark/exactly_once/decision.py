"""The transactions of a micro-batch as a short text, which stands in the record of its decision.

The record is the metadata of a committed offset (`sink.sink_progress`), of which Kafka takes 4 KiB (`offset.metadata.max.bytes`). So the
numbers are written by column, each as its distance from the one before, as JSON, compressed, in base85:

    [[0, 1, 1], [0, 0, 0], [4000, 1, 1], [7, 0, 0], [2, 0, 0]]        tasks, attempts, producer ids, epochs, versions of the protocol

Tasks are counted up and the ids of a pool are asked for together, so most distances are small and alike: a thousand tasks fit.
"""

import json
import zlib
from base64 import b85decode, b85encode
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise

from millstream.client.transactions import OpenTransaction
from millstream.spark.exactly_once.transaction_pool import TransactionPool


def write_transactions(transactions: Iterable[OpenTransaction], pool: TransactionPool) -> str:
    """The text for transactions of this pool."""
    rows = []
    for transactional_id, *numbers in transactions:
        place = pool.place_of(transactional_id)
        assert place is not None, f"{transactional_id} is no id of {pool.prefix}"
        rows.append((*place, *numbers))
    columns = [_distances(column) for column in zip(*sorted(rows), strict=True)]
    return b85encode(zlib.compress(json.dumps(columns, separators=(",", ":")).encode(), 9)).decode()


def read_transactions(text: str, pool: TransactionPool) -> tuple[OpenTransaction, ...]:
    """The transactions of such a text, in the order of their tasks; `ValueError` for any other."""
    try:
        columns = [accumulate(column) for column in json.loads(zlib.decompress(b85decode(text)))]
    except (ValueError, zlib.error) as error:
        raise ValueError(f"no transactions: {error}") from None
    rows = zip(*columns, strict=True)
    return tuple(OpenTransaction(pool.id_of(task, attempt), *numbers) for task, attempt, *numbers in rows)


def _distances(numbers: Sequence[int]) -> list[int]:
    return [numbers[0], *(after - before for before, after in pairwise(numbers))] if numbers else []
