"""The requests of a transactional producer, raw: for tests of what a coordinator does when no client is there to ask again."""

from collections.abc import Sequence
from typing import Any, Final

from kio.schema.errors import ErrorCode

from tests.connection import FIND_COORDINATOR, INIT_PRODUCER_ID, Connection
from tests.waiting import wait_until

ADD_PARTITIONS_TO_TXN: Final = 24
END_TXN: Final = 26
LIST_TRANSACTIONS: Final = 66
TRANSACTION: Final = 1


def init_fields(transactional_id: str, timeout_ms: int) -> dict[str, object]:
    """Of InitProducerId: a producer id and an epoch for a transactional id."""
    return {"transactional_id": transactional_id, "transaction_timeout_ms": timeout_ms, "producer_id": -1, "producer_epoch": -1}


def add_fields(transactional_id: str, producer_id: int, epoch: int, topic: str, partitions: Sequence[int]) -> dict[str, object]:
    """Of AddPartitionsToTxn, as clients of version 1 send it."""
    who = {"v3_and_below_transactional_id": transactional_id, "v3_and_below_producer_id": producer_id}
    topics = [{"name": topic, "partitions": list(partitions)}]
    return {**who, "v3_and_below_producer_epoch": epoch, "v3_and_below_topics": topics}


def end_fields(transactional_id: str, producer_id: int, epoch: int, *, is_commit: bool) -> dict[str, object]:
    """Of EndTxn."""
    return {"transactional_id": transactional_id, "producer_id": producer_id, "producer_epoch": epoch, "committed": is_commit}


def find_coordinators(connection: Connection, *transactional_ids: str) -> dict[str, Any]:
    """Where the coordinators of transactional ids are, as far as they are anywhere."""
    asked = {"key_type": TRANSACTION, "coordinator_keys": list(transactional_ids)}
    places = connection.ask(FIND_COORDINATOR, 4, asked).coordinators
    return {one.key: one for one in places if one.error_code == ErrorCode.none}


class RawTransaction:
    """One transactional id at its coordinator."""

    def __init__(self, coordinator: Connection, transactional_id: str, *, timeout_ms: int = 600_000) -> None:
        """Begin, as soon as the coordinator is ready."""
        self.connection = coordinator
        self.transactional_id = transactional_id
        asked = init_fields(transactional_id, timeout_ms)
        self.producer_id = self.epoch = -1

        def is_begun() -> bool:
            answer = coordinator.ask(INIT_PRODUCER_ID, 4, asked)
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            return bool(answer.error_code == ErrorCode.none)

        wait_until(is_begun, f"the coordinator of {transactional_id}")

    def add(self, topic: str, *partitions: int) -> None:
        """Add partitions of a topic, as clients of version 1 do."""
        fields = add_fields(self.transactional_id, self.producer_id, self.epoch, topic, partitions)
        answer = self.connection.ask(ADD_PARTITIONS_TO_TXN, 3, fields)
        codes = {one.partition_error_code for one in answer.results_by_topic_v3_and_below[0].results_by_partition}
        assert codes == {ErrorCode.none}, codes

    def end(self, *, is_commit: bool, version: int = 4) -> int:
        """Commit or abort; the error code."""
        fields = end_fields(self.transactional_id, self.producer_id, self.epoch, is_commit=is_commit)
        return int(self.connection.ask(END_TXN, version, fields).error_code)


def state_of(coordinator: Connection, transactional_id: str) -> str:
    """In which state the transaction of an id is; nothing if the broker does not coordinate it."""
    answer = coordinator.ask(LIST_TRANSACTIONS, 0)
    return {one.transactional_id: str(one.transaction_state) for one in answer.transaction_states}.get(transactional_id, "")
