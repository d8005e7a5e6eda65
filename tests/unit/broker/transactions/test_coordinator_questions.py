"""Questions to other brokers: many in one request, one request at a time, and an answer for each whatever happens."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from millstream.broker.cluster.peers import Peers
from millstream.broker.transactions import coordinator_questions
from millstream.broker.transactions.coordinator_questions import CoordinatorQuestions
from millstream.broker.transactions.verification import NETWORK_EXCEPTION
from millstream.client.codecs.request import MessageRequest
from millstream.client.errors import BrokerUnavailable
from millstream.errors import CoordinatorNotAvailable
from millstream.topic_partition import TopicPartition
from millstream.transactions.commands import AddPartitions, VerifyPartitions
from millstream.transactions.transaction import Producer
from millstream.wire.responses.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)

ONE, TWO = TopicPartition("a", 1), TopicPartition("b", 2)


class FakePeers:
    """Other brokers: what they are asked is kept until it is answered."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, list[dict[str, Any]], asyncio.Future[AddPartitionsToTxnResponse]]] = []

    async def ask(self, node_id: int, request: MessageRequest[AddPartitionsToTxnResponse], *, timeout_s: float) -> Any:
        answer: asyncio.Future[AddPartitionsToTxnResponse] = asyncio.get_running_loop().create_future()
        self.asked.append((node_id, cast("list[dict[str, Any]]", request.fields["transactions"]), answer))
        return await answer


def result(transactional_id: str, **codes: int) -> AddPartitionsToTxnResult:
    topics = tuple(
        AddPartitionsToTxnTopicResult(topic, (AddPartitionsToTxnPartitionResult(1 if topic == "a" else 2, code),))
        for topic, code in codes.items()
    )
    return AddPartitionsToTxnResult(transactional_id, topics)


@pytest.fixture
def peers() -> FakePeers:
    return FakePeers()


@pytest.fixture
async def questions(peers: FakePeers) -> CoordinatorQuestions:
    tasks: list[asyncio.Task[None]] = []
    return CoordinatorQuestions(cast(Peers, peers), lambda work: tasks.append(asyncio.ensure_future(work)))


def verify(transactional_id: str) -> VerifyPartitions:
    return VerifyPartitions(transactional_id, Producer(7, 0), frozenset((ONE,)))


async def turn() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_what_is_asked_while_a_request_is_under_way_goes_with_the_next(questions: CoordinatorQuestions, peers: FakePeers) -> None:
    answers: list[Any] = []

    def done(name: str) -> Callable[[dict[TopicPartition, int]], None]:
        return lambda codes: answers.append((name, codes))

    questions.ask(2, AddPartitions("t", Producer(7, 0), frozenset((ONE, TWO)), client_version=2), done("first"))
    await turn()
    for name in ("u", "u", "v"):
        questions.ask(2, verify(name), done(name))
    questions.ask(3, verify("w"), done("w"))
    await turn()
    assert [(node_id, [one["transactional_id"] for one in asked]) for node_id, asked, _ in peers.asked] == [(2, ["t"]), (3, ["w"])]
    assert peers.asked[0][1] == [
        {
            "transactional_id": "t",
            "producer_id": 7,
            "producer_epoch": 0,
            "verify_only": False,
            "topics": [{"name": "a", "partitions": [1]}, {"name": "b", "partitions": [2]}],
        }
    ]
    peers.asked[0][2].set_result(AddPartitionsToTxnResponse(results_by_transaction=(result("t", a=0, b=48),)))
    await turn()
    assert answers == [("first", {ONE: 0, TWO: 48})]
    assert [one["transactional_id"] for one in peers.asked[2][1]] == ["u", "v"]
    peers.asked[2][2].set_result(AddPartitionsToTxnResponse(results_by_transaction=(result("u", a=0),)))
    await turn()
    assert answers[1:] == [("u", {ONE: 0}), ("v", {ONE: NETWORK_EXCEPTION})]
    assert [one["transactional_id"] for one in peers.asked[3][1]] == ["u"]


async def test_a_broker_that_does_not_answer_is_a_network_exception(questions: CoordinatorQuestions, peers: FakePeers) -> None:
    answers: list[dict[TopicPartition, int]] = []
    questions.ask(2, verify("t"), answers.append)
    await turn()
    peers.asked[0][2].set_exception(BrokerUnavailable("away"))
    await turn()
    assert answers == [{ONE: NETWORK_EXCEPTION}]
    questions.ask(2, verify("t"), answers.append)
    await turn()
    peers.asked[1][2].set_result(AddPartitionsToTxnResponse(error_code=31))
    await turn()
    assert answers[1] == {ONE: 31}


async def test_too_many_questions_are_refused(questions: CoordinatorQuestions, peers: FakePeers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator_questions, "MAX_WAITING", 2)
    answers: list[dict[TopicPartition, int]] = []
    questions.ask(2, verify("first"), answers.append)
    await turn()
    for number in range(3):
        questions.ask(2, verify(str(number)), answers.append)
    assert answers == [{ONE: CoordinatorNotAvailable.code}]
    assert len(peers.asked) == 1
