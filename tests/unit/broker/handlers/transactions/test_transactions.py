from typing import Any, cast

import pytest

from millstream.broker.handlers.transactions.transactions import MAX_PARTITIONS, MAX_TRANSACTIONS, TransactionsFamily
from millstream.coordination.cluster_view import ClusterView
from millstream.errors import MalformedFrame
from millstream.wire.api import ApiKey
from tests.unit.broker.handlers.desk import Desk

UNUSED = cast(Any, None)


async def test_request_with_too_many_partitions_is_not_begun(desk: Desk) -> None:
    family = TransactionsFamily(UNUSED, UNUSED, UNUSED, view=ClusterView)
    topics = [{"name": "orders", "partitions": list(range(MAX_PARTITIONS))}, {"name": "payments", "partitions": [0]}]
    with pytest.raises(MalformedFrame):
        await desk.ask(family.add_partitions_to_txn, ApiKey.ADD_PARTITIONS_TO_TXN, 3, v3_and_below_topics=topics)
    transactions = [{"transactional_id": "t", "topics": [topic]} for topic in topics]
    with pytest.raises(MalformedFrame):
        await desk.ask(family.add_partitions_to_txn, ApiKey.ADD_PARTITIONS_TO_TXN, 5, transactions=transactions)


async def test_request_with_too_many_transactions_is_not_begun(desk: Desk) -> None:
    family = TransactionsFamily(UNUSED, UNUSED, UNUSED, view=ClusterView)
    transactions = [{"transactional_id": f"t{number}", "topics": []} for number in range(MAX_TRANSACTIONS + 1)]
    with pytest.raises(MalformedFrame):
        await desk.ask(family.add_partitions_to_txn, ApiKey.ADD_PARTITIONS_TO_TXN, 5, transactions=transactions)
