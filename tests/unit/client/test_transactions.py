"""Both protocols of transactions: what is sent, and what the answers mean."""

from types import SimpleNamespace
from typing import Any

import pytest

from millstream.client.codecs.request import MessageRequest
from millstream.client.transactions import OpenTransaction, Transactions
from millstream.errors import InvalidTransactionTimeout, TransactionalIdAuthorizationFailed
from millstream.topic_partition import TopicPartition
from millstream.transaction_errors import ConcurrentTransactions, InvalidTxnState, ProducerFenced
from millstream.wire.api import ApiKey
from tests.unit.client.model_cluster import ModelCluster

NAMES = ("a", "b", "c")


class Broker:
    """One coordinator: answers with errors by the name of the transactional id, the first that is left of each."""

    def __init__(self, *, version: int) -> None:
        self.errors: dict[str, list[int]] = {}
        self.cluster = ModelCluster(dict.fromkeys(NAMES, 1), self._answer)
        self.transactions = Transactions(self.cluster.as_cluster, timeout_s=5)
        self._features = [SimpleNamespace(name="transaction.version", max_version_level=version)] if version else []

    def requests(self, api: ApiKey) -> list[MessageRequest[Any]]:
        return [request for _, request in self.cluster.sent if request.api_key == api]

    def _answer(self, _broker: int, request: MessageRequest[Any]) -> Any:
        if request.api_key == ApiKey.API_VERSIONS:
            return SimpleNamespace(finalized_features=self._features)
        name = str(request.fields.get("transactional_id") or request.fields["v3_and_below_transactional_id"])
        left = self.errors.get(name, [])
        code = left.pop(0) if left else 0
        if request.api_key == ApiKey.ADD_PARTITIONS_TO_TXN:
            one = SimpleNamespace(partition_index=0, partition_error_code=code)
            return SimpleNamespace(results_by_topic_v3_and_below=[SimpleNamespace(name="t", results_by_partition=[one])])
        return SimpleNamespace(error_code=code, producer_id=7, producer_epoch=3)


@pytest.mark.parametrize(("feature", "version", "produce", "end"), [(2, 2, 12, (5, 5)), (1, 1, 9, (0, 4)), (0, 1, 9, (0, 4))])
def test_the_protocol_is_the_one_that_the_cluster_has_agreed_on(feature: int, version: int, produce: int, end: tuple[int, int]) -> None:
    broker = Broker(version=feature)
    opened = broker.transactions.begin("a", timeout_ms=1000)
    assert opened == OpenTransaction("a", 7, 3, version)
    writing = broker.transactions.writing(opened)
    assert writing.produce_version == produce
    writing.add_partitions([TopicPartition("u", 1), TopicPartition("t", 0), TopicPartition("u", 0)])
    added = [request.fields["v3_and_below_topics"] for request in broker.requests(ApiKey.ADD_PARTITIONS_TO_TXN)]
    expected = [{"name": "t", "partitions": [0]}, {"name": "u", "partitions": [0, 1]}]
    assert added == ([] if version == 2 else [expected])
    assert broker.transactions.end([opened], commit=True) == {}
    [request] = broker.requests(ApiKey.END_TXN)
    assert request.versions == end
    assert request.fields == {"transactional_id": "a", "producer_id": 7, "producer_epoch": 3, "committed": True}


def test_what_cannot_be_ended_is_returned_and_the_others_are_ended() -> None:
    broker = Broker(version=2)
    broker.errors = {"a": [ConcurrentTransactions.code, 0], "b": [ProducerFenced.code], "c": [InvalidTxnState.code]}
    a, b, c = (OpenTransaction(name, 7, 3) for name in NAMES)
    lost = broker.transactions.end([a, b, c], commit=True)
    assert {opened: type(error) for opened, error in lost.items()} == {b: ProducerFenced, c: InvalidTxnState}
    assert [request.fields["transactional_id"] for request in broker.requests(ApiKey.END_TXN)] == ["a", "b", "c", "a"]


def test_an_error_that_says_nothing_of_the_transaction_is_raised() -> None:
    broker = Broker(version=2)
    broker.errors = {"b": [TransactionalIdAuthorizationFailed.code]}
    with pytest.raises(TransactionalIdAuthorizationFailed, match="the transaction of 'b' was not aborted"):
        broker.transactions.end([OpenTransaction("a", 7, 3), OpenTransaction("b", 7, 3)], commit=False)


def test_a_begin_waits_for_the_end_of_what_was_open_and_says_what_is_not_allowed() -> None:
    broker = Broker(version=2)
    broker.errors = {"a": [ConcurrentTransactions.code, ConcurrentTransactions.code], "b": [InvalidTransactionTimeout.code]}
    assert broker.transactions.begin("a", timeout_ms=1000).producer_id == 7
    assert len(broker.requests(ApiKey.INIT_PRODUCER_ID)) == 3
    with pytest.raises(InvalidTransactionTimeout, match=r"no transaction.timeout.ms of 5000: lower it, or raise their transaction.max"):
        broker.transactions.begin("b", timeout_ms=5000)
    broker.transactions.fence(["a", "c"], timeout_ms=1000)
    assert len(broker.requests(ApiKey.INIT_PRODUCER_ID)) == 6


@pytest.mark.parametrize(("version", "added", "following"), [(1, [{"group_id": "g"}], (7, 2)), (2, [], (7, 3))])
def test_offsets_are_added_and_the_end_names_the_next_transaction(
    version: int, added: list[dict[str, str]], following: tuple[int, int]
) -> None:
    broker = Broker(version=version)
    opened = OpenTransaction("a", 7, 2, version)
    broker.transactions.add_group(opened, "g")
    sent = broker.requests(ApiKey.ADD_OFFSETS_TO_TXN)
    assert [request.fields for request in sent] == [
        {"transactional_id": "a", "producer_id": 7, "producer_epoch": 2} | group for group in added
    ]
    assert broker.transactions.commit(opened) == OpenTransaction("a", *following, version)


def test_a_commit_that_cannot_be_is_raised() -> None:
    broker = Broker(version=2)
    broker.errors = {"a": [ConcurrentTransactions.code, ProducerFenced.code]}
    with pytest.raises(ProducerFenced, match="the transaction of 'a' was not committed"):
        broker.transactions.commit(OpenTransaction("a", 7, 2))
