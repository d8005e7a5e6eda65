"""What is asked of the transaction coordinators of other brokers: AddPartitionsToTxn of many producers, together.

One request per broker is under way at a time; what is asked meanwhile goes with the next. A transactional id stands in a request once, as
Kafka wants it. Too many questions for a broker, or one that does not answer, are answered in its place with codes that let clients try
again.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from millstream.broker.cluster.peers import Peers
from millstream.broker.tasks import Spawn
from millstream.broker.transactions.verification import NETWORK_EXCEPTION
from millstream.client.codecs.request import MessageRequest
from millstream.errors import CoordinatorNotAvailable, MillstreamError
from millstream.topic_partition import TopicPartition, by_topic
from millstream.transactions.commands import AddPartitions, VerifyPartitions
from millstream.wire.api import ApiKey

if TYPE_CHECKING:
    from millstream.wire.responses.add_partitions_to_txn import AddPartitionsToTxnResponse, AddPartitionsToTxnResult

TIMEOUT_S: Final = 10.0
"""How long a coordinator may take."""
MAX_WAITING: Final = 10_000
"""Questions that wait for one broker."""
MAX_PER_REQUEST: Final = 500
_FIRST_FROM_BROKERS: Final = 4

Codes = dict[TopicPartition, int]


class _Waiting(NamedTuple):
    question: AddPartitions | VerifyPartitions
    done: Callable[[Codes], None]


class CoordinatorQuestions:
    """The questions to all other brokers."""

    def __init__(self, peers: Peers, spawn: Spawn) -> None:
        self._peers = peers
        self._spawn = spawn
        self._waiting: dict[int, deque[_Waiting]] = {}
        """By broker; there is a task for each."""

    def ask(self, node_id: int, question: AddPartitions | VerifyPartitions, done: Callable[[Codes], None]) -> None:
        """Ask one broker; `done` is called once, with a code per partition."""
        waiting = self._waiting.get(node_id)
        if waiting is None:
            self._waiting[node_id] = deque([_Waiting(question, done)])
            self._spawn(self._ask_all(node_id))
        elif len(waiting) >= MAX_WAITING:
            done(dict.fromkeys(question.partitions, CoordinatorNotAvailable.code))
        else:
            waiting.append(_Waiting(question, done))

    def close(self) -> None:
        """The broker stops: no answer is awaited any more."""
        self._waiting = {}

    async def _ask_all(self, node_id: int) -> None:
        while waiting := self._waiting.get(node_id):
            portion = _take_portion(waiting)
            request: MessageRequest[AddPartitionsToTxnResponse] = MessageRequest(
                ApiKey.ADD_PARTITIONS_TO_TXN, {"transactions": [_fields(one.question) for one in portion]}, lowest=_FIRST_FROM_BROKERS
            )
            try:
                answer = await self._peers.ask(node_id, request, timeout_s=TIMEOUT_S)
            except MillstreamError:
                _settle(portion, {}, missing=NETWORK_EXCEPTION)
                continue
            by_id = {result.transactional_id: result for result in answer.results_by_transaction}
            _settle(portion, by_id, missing=answer.error_code or NETWORK_EXCEPTION)
        self._waiting.pop(node_id, None)


def _take_portion(waiting: deque[_Waiting]) -> list[_Waiting]:
    """What goes into one request; of a transactional id that is there more than once, the first."""
    taken: dict[str, _Waiting] = {}
    left = []
    while waiting and len(taken) < MAX_PER_REQUEST:
        one = waiting.popleft()
        if one.question.transactional_id in taken:
            left.append(one)
        else:
            taken[one.question.transactional_id] = one
    waiting.extendleft(reversed(left))
    return list(taken.values())


def _fields(question: AddPartitions | VerifyPartitions) -> dict[str, object]:
    return {
        "transactional_id": question.transactional_id,
        "producer_id": question.producer.producer_id,
        "producer_epoch": question.producer.epoch,
        "verify_only": isinstance(question, VerifyPartitions),
        "topics": [{"name": topic, "partitions": indexes} for topic, indexes in by_topic(question.partitions).items()],
    }


def _settle(portion: Iterable[_Waiting], by_id: "dict[str, AddPartitionsToTxnResult]", *, missing: int) -> None:
    """Hand the answers out; what a broker left out has the code `missing`."""
    for question, done in portion:
        result = by_id.get(question.transactional_id)
        codes = dict.fromkeys(question.partitions, missing)
        for topic in () if result is None else result.topic_results:
            for one in topic.results_by_partition:
                codes[TopicPartition(topic.name, one.partition_index)] = one.partition_error_code
        done(codes)
