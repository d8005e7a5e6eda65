"""The requests of a transactional producer to a broker in this loop, for the tests of the transaction coordinator's shell."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from millstream.broker.server import BrokerServer
from tests.connection import FIND_COORDINATOR, INIT_PRODUCER_ID
from tests.unit.broker.group_client import ask

ADD_PARTITIONS_TO_TXN, ADD_OFFSETS_TO_TXN, END_TXN, DESCRIBE_TRANSACTIONS, LIST_TRANSACTIONS = 24, 25, 26, 65, 66

TRANSACTION_OPTIONS = {"transaction.state.log.num.partitions": "2"}


class Producer:
    """A transactional id, as its client knows it."""

    def __init__(self, server: BrokerServer, transactional_id: str = "t") -> None:
        self.server = server
        self.transactional_id = transactional_id
        self.producer_id = -1
        self.epoch = -1

    async def find(self) -> int:
        """Look for the coordinator; its error."""
        answer = await ask(self.server, FIND_COORDINATOR, 4, {"key_type": 1, "coordinator_keys": [self.transactional_id]})
        return int(answer.coordinators[0].error_code)

    async def init(self, *, version: int = 5, timeout_ms: int = 60_000, expected: tuple[int, int] = (-1, -1)) -> int:
        """Begin, or begin anew; the error."""
        fields = {"transactional_id": self.transactional_id, "transaction_timeout_ms": timeout_ms}
        fields |= {"producer_id": expected[0], "producer_epoch": expected[1]}
        answer = await ask(self.server, INIT_PRODUCER_ID, version, fields)
        if not answer.error_code:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        return int(answer.error_code)

    async def add(self, partitions: Mapping[str, Sequence[int]], *, version: int = 3) -> dict[tuple[str, int], int]:
        """Add partitions; the error of each."""
        fields: dict[str, object] = {"v3_and_below_transactional_id": self.transactional_id, "v3_and_below_topics": _topics(partitions)}
        fields |= {"v3_and_below_producer_id": self.producer_id, "v3_and_below_producer_epoch": self.epoch}
        answer = await ask(self.server, ADD_PARTITIONS_TO_TXN, version, fields)
        return _errors(answer.results_by_topic_v3_and_below)

    async def add_as_broker(
        self, partitions: Mapping[str, Sequence[int]], *, verify_only: bool = False, version: int = 5
    ) -> dict[tuple[str, int], int]:
        """Add or verify partitions as the broker that leads them does; the error of each."""
        entry = {"transactional_id": self.transactional_id, "producer_id": self.producer_id, "producer_epoch": self.epoch}
        entry |= {"verify_only": verify_only, "topics": _topics(partitions)}
        answer = await ask(self.server, ADD_PARTITIONS_TO_TXN, version, {"transactions": [entry]})
        assert answer.error_code == 0
        return _errors(answer.results_by_transaction[0].topic_results)

    async def add_offsets(self, group: str, *, version: int = 4) -> int:
        """Add the offsets of a group; the error."""
        fields = {"transactional_id": self.transactional_id, "producer_id": self.producer_id, "producer_epoch": self.epoch}
        return int((await ask(self.server, ADD_OFFSETS_TO_TXN, version, {**fields, "group_id": group})).error_code)

    async def end(self, *, commit: bool, version: int = 5, epoch: int | None = None) -> int:
        """Commit or abort; the error."""
        fields = {"transactional_id": self.transactional_id, "producer_id": self.producer_id, "committed": commit}
        fields |= {"producer_epoch": self.epoch if epoch is None else epoch}
        answer = await ask(self.server, END_TXN, version, fields)
        if not answer.error_code and version >= 5:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        return int(answer.error_code)

    async def describe(self) -> Any:
        """What the coordinator says of the id."""
        answer = await ask(self.server, DESCRIBE_TRANSACTIONS, 0, {"transactional_ids": [self.transactional_id]})
        return answer.transaction_states[0]

    async def state(self) -> str:
        """In which state the transaction is."""
        answer = await ask(self.server, LIST_TRANSACTIONS, 0, {})
        return {one.transactional_id: str(one.transaction_state) for one in answer.transaction_states}[self.transactional_id]

    async def completed(self) -> str:
        """In which state the transaction is when all its markers are written."""
        async with asyncio.timeout(30):
            while not (state := await self.state()).startswith("Complete"):
                pass
        return state


def _topics(partitions: Mapping[str, Sequence[int]]) -> list[dict[str, object]]:
    return [{"name": name, "partitions": list(indexes)} for name, indexes in partitions.items()]


def _errors(topics: Any) -> dict[tuple[str, int], int]:
    return {(topic.name, one.partition_index): int(one.partition_error_code) for topic in topics for one in topic.results_by_partition}
