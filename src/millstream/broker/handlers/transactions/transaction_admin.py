"""DescribeTransactions (65), ListTransactions (66): what people and tools ask about transactions.

DescribeTransactions 0. ListTransactions 0-2. 1: filter by duration. 2: filter by a pattern of ids (KIP-1152).
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from millstream.broker.coordinators.context import Answerable
from millstream.broker.coordinators.reply import AwaitedReply, CoordinatorReply, GatheredReply, Refusal, refuse_nothing
from millstream.broker.coordinators.transaction_coordinator import TransactionCoordinator
from millstream.broker.network.api import Fields, Request, api
from millstream.broker.network.outbox import Chunk
from millstream.broker.storage.loop_turns import TaskTurns
from millstream.clock import Clock
from millstream.errors import CoordinatorLoadInProgress, KafkaError, NotCoordinator
from millstream.groups.consumer.topic_patterns import TopicPattern
from millstream.topic_partition import by_topic
from millstream.transactions.shard import TransactionShard
from millstream.transactions.transaction import State, Transaction
from millstream.wire.api import ApiKey
from millstream.wire.last_array import framed_with_elements
from millstream.wire.message_writer import message_writer
from millstream.wire.schema import schema_at

if TYPE_CHECKING:
    from millstream.wire.requests.describe_transactions import DescribeTransactionsRequest
    from millstream.wire.requests.list_transactions import ListTransactionsRequest

IDS_PER_TURN: Final = 1_000
"""Transactional ids that are looked at before others have a turn of the loop: about a millisecond, a pattern apart."""
MATCHED_PER_TURN: Final = 10
"""The same where a pattern, which may be hostile, has to be matched."""
_LONGEST_MATCHED_HERE: Final = 249
"""Characters of an id that is matched on the loop: those of a topic's name, for which the costs of patterns are bounded. The longest id
has 32 767, and takes a hostile pattern a tenth of a second."""
_MOST_REPEATED: Final = 10
"""An id that is named twice is described twice, as in Kafka; but a small request that repeats itself is not to get a huge answer."""


class TransactionAdminFamily:
    """Shows transactions."""

    def __init__(self, transactions: TransactionCoordinator, clock: Clock) -> None:
        self._transactions = transactions
        self._clock = clock

    @api(ApiKey.DESCRIBE_TRANSACTIONS, 0, 0)
    def describe_transactions(self, request: Request) -> Sequence[Chunk] | Coroutine[Any, Any, Sequence[Chunk]] | None:
        """Who has a transactional id, and what its transaction has come to."""
        message: DescribeTransactionsRequest = request.decode()
        ids = message.transactional_ids
        if len(ids) > _MOST_REPEATED:
            ids = tuple(dict.fromkeys(ids))
        if len(ids) > 1:
            return self._describe_many(request, ids)
        reply = CoordinatorReply(request, refuse_nothing)
        gathered = GatheredReply(reply, len(ids), lambda states: {"transaction_states": states})
        for number, transactional_id in enumerate(ids):
            self._describe(transactional_id, gathered.part(number, _refuse_description(transactional_id)))
        return reply.result()

    async def _describe_many(self, request: Request, ids: Sequence[str]) -> Sequence[Chunk]:
        """In turns: tools ask about all that they have listed, and each may have thousands of partitions."""
        from millstream.wire.responses.describe_transactions import TRANSACTION_STATE  # a broker starts sooner without it

        encode = message_writer(schema_at(TRANSACTION_STATE, 0, is_flexible=True))
        turns = TaskTurns()
        found: list[bytes] = []
        for transactional_id in ids:
            reply = AwaitedReply(_refuse_description(transactional_id))
            self._describe(transactional_id, reply)
            found.append(encode(await reply.fields))
            await turns.share()
        return [framed_with_elements(request.encode({"transaction_states": []}), found)]

    def _describe(self, transactional_id: str, reply: Answerable) -> None:
        self._transactions.runtime.read(transactional_id, partial(_describe, transactional_id), reply)

    @api(ApiKey.LIST_TRANSACTIONS, 0, 2)
    def list_transactions(self, request: Request) -> Coroutine[Any, Any, Sequence[Chunk]]:
        """The transactions of this broker that match a filter."""
        return self._list(request, request.decode())

    async def _list(self, request: Request, message: "ListTransactionsRequest") -> Sequence[Chunk]:
        unknown = [state for state in dict.fromkeys(message.state_filters) if state not in _STATES]
        try:
            pattern = TopicPattern(message.transactional_id_pattern) if message.transactional_id_pattern else None
            found = await self._find(self._filter(message), pattern)
        except KafkaError as error:
            return [request.encode({"error_code": error.code, "unknown_state_filters": [], "transaction_states": []})]
        answer = request.encode({"error_code": 0, "unknown_state_filters": unknown, "transaction_states": []})
        return [framed_with_elements(answer, found)]

    def _filter(self, message: "ListTransactionsRequest") -> Callable[[Transaction], bool]:
        """All but the pattern of ids."""
        states = {_STATES[state] for state in message.state_filters if state in _STATES}
        producer_ids = frozenset(message.producer_id_filters)
        begun_before_ms = self._clock.now_ms() - message.duration_filter if message.duration_filter >= 0 else None

        def is_asked_for(transaction: Transaction) -> bool:
            return (
                (not message.state_filters or transaction.state in states)
                and (not producer_ids or transaction.producer_id in producer_ids)
                and (begun_before_ms is None or transaction.start_ms < begun_before_ms)
            )

        return is_asked_for

    async def _find(self, is_asked_for: Callable[[Transaction], bool], pattern: TopicPattern | None) -> list[bytes]:
        """What is found, encoded: there may be so many that an answer takes long to encode, too."""
        from millstream.wire.responses.list_transactions import TRANSACTION_STATE  # a broker starts sooner without it

        encode = message_writer(schema_at(TRANSACTION_STATE, 0, is_flexible=True))  # all versions are alike
        per_turn = IDS_PER_TURN if pattern is None else MATCHED_PER_TURN
        found: list[bytes] = []
        for context in self._transactions.runtime:
            try:
                context.write_batch()
                transactions = list(context.shard)
            except CoordinatorLoadInProgress:
                raise
            except NotCoordinator:
                continue
            for number, one in enumerate(transactions, 1):
                if is_asked_for(one) and (pattern is None or await _matches(pattern, one.transactional_id)):
                    fields = {
                        "transactional_id": one.transactional_id,
                        "producer_id": one.producer_id,
                        "transaction_state": one.state.title,
                    }
                    found.append(encode(fields))
                if not number % per_turn:
                    await asyncio.sleep(0)
        return found


async def _matches(pattern: TopicPattern, transactional_id: str) -> bool:
    if len(transactional_id) <= _LONGEST_MATCHED_HERE:
        return pattern.matches(transactional_id)
    return await asyncio.to_thread(pattern.matches, transactional_id)  # RE2 lets go of the interpreter meanwhile


_STATES: Final = {state.title: state for state in State}


def _describe(transactional_id: str, shard: TransactionShard) -> Fields:
    try:
        transaction = shard.describe(transactional_id)
    except KafkaError as error:
        return _refuse_description(transactional_id)(error)
    return {
        "error_code": 0,
        "transactional_id": transactional_id,
        "transaction_state": transaction.state.title,
        "transaction_timeout_ms": transaction.timeout_ms,
        "transaction_start_time_ms": transaction.start_ms,
        "producer_id": transaction.producer_id,
        "producer_epoch": transaction.epoch,
        "topics": [{"topic": topic, "partitions": indexes} for topic, indexes in by_topic(transaction.partitions).items()],
    }


def _refuse_description(transactional_id: str) -> Refusal:
    return lambda error: {
        "error_code": error.code,
        "transactional_id": transactional_id,
        "transaction_state": "",
        "transaction_timeout_ms": 0,
        "transaction_start_time_ms": 0,
        "producer_id": 0,
        "producer_epoch": 0,
        "topics": [],
    }
