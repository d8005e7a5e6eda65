"""Transactional producers: they begin, add partitions and offsets, commit and abort, with the right epochs and with wrong ones.

What Kafka does beside its answers takes it a while: markers are written, and until then every request of the same id is answered with
CONCURRENT_TRANSACTIONS. So after each request both sides are given the time to end what was decided.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from tests.clients.group_requests import NOT_YET
from tests.connection import FIND_COORDINATOR, INIT_PRODUCER_ID
from tests.differential.pair import Side
from tests.differential.scenario import Scenario
from tests.waiting import wait_until

ADD_PARTITIONS_TO_TXN: Final = 24
ADD_OFFSETS_TO_TXN: Final = 25
END_TXN: Final = 26
DESCRIBE_TRANSACTIONS: Final = 65
LIST_TRANSACTIONS: Final = 66
TRANSACTION: Final = 1
NONE: Final = (-1, -1)


class TransactionsScenario(Scenario):
    """InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn, DescribeTransactions, ListTransactions."""

    name = "transactions"

    def prepare(self) -> None:
        for number in range(2):
            self.create_topic(f"{self.prefix}t{number}", 2)
        self.present: dict[str, tuple[Any, int]] = {f"{self.prefix}{number}": NONE for number in range(3)}
        for side in (self.pair.kafka, self.pair.ours):
            wait_until(lambda side=side: _has_coordinator(side, self.prefix), "the coordinator of transactions")  # type: ignore[misc]
        for name in self.present:
            self.begin(name, NONE, timeout_ms=60_000, version=5)

    def step(self) -> None:
        kinds = [self.init] * 2 + [self.add] * 4 + [self.add_as_broker] * 4 + [self.add_offsets] + [self.end] * 8
        kinds += [self.describe, self.listed]
        self.random.choice(kinds)()

    # --- who asks

    def transactional_id(self) -> str:
        return self.mostly(self.random.choice(list(self.present)), "", self.prefix + "unknown", percent=95)

    def producer(self, name: str) -> tuple[Any, int]:
        """The present producer of an id; now and then another epoch, or another id's producer."""
        other = self.random.choice(list(self.present))
        producer_id, epoch = self.present[self.mostly(name, other, percent=95) if name in self.present else other]
        return self.mostly(producer_id, 424242, percent=98), max(epoch + self.mostly(0, -1, -1, -2, 1, percent=80), 0)

    # --- requests

    def init(self) -> None:
        name = self.mostly(self.random.choice(list(self.present)), "", percent=95)
        expected = self.producer(name) if self.chance(50) else self.mostly(NONE, (-1, 0), (7, -1), percent=90)
        self.begin(name, expected, timeout_ms=self.mostly(60_000, 0, -1, 900_000, 900_001))

    def begin(self, name: str, expected: tuple[Any, int], *, timeout_ms: int, version: int | None = None) -> None:
        fields = {"transactional_id": name, "transaction_timeout_ms": timeout_ms}
        fields |= {"producer_id": expected[0], "producer_epoch": expected[1]}
        with self.settled():
            self.granted(name, self.ask(INIT_PRODUCER_ID, fields, version=version))

    def add(self) -> None:
        name = self.transactional_id()
        producer_id, epoch = self.producer(name)
        fields = {"v3_and_below_transactional_id": name, "v3_and_below_producer_id": producer_id, "v3_and_below_producer_epoch": epoch}
        with self.settled():
            self.ask(ADD_PARTITIONS_TO_TXN, {**fields, "v3_and_below_topics": self.topics()}, version=self.version(24, 0, 3))

    def add_as_broker(self) -> None:
        names = dict.fromkeys(self.transactional_id() for _ in range(self.mostly(1, 2, percent=70)))
        transactions = []
        for name in names:
            producer_id, epoch = self.producer(name)
            who = {"transactional_id": name, "producer_id": producer_id, "producer_epoch": epoch}
            transactions.append({**who, "verify_only": self.chance(40), "topics": self.topics()})
        with self.settled():
            self.ask(ADD_PARTITIONS_TO_TXN, {"transactions": transactions}, version=self.version(24, 4, 5))

    def topics(self) -> list[dict[str, object]]:
        names = [
            self.mostly(name, self.prefix + "missing", "__consumer_offsets", percent=93) for name in self.some(list(self.partitions), 2)
        ]
        return [{"name": name, "partitions": self.mostly(self.some([0, 1], 2), [0, 7], percent=93)} for name in dict.fromkeys(names)]

    def add_offsets(self) -> None:
        name = self.transactional_id()
        producer_id, epoch = self.producer(name)
        who = {"transactional_id": name, "producer_id": producer_id, "producer_epoch": epoch}
        with self.settled():
            self.ask(ADD_OFFSETS_TO_TXN, {**who, "group_id": self.prefix + "group"})

    def end(self) -> None:
        name = self.transactional_id()
        producer_id, epoch = self.producer(name)
        who = {"transactional_id": name, "producer_id": producer_id, "producer_epoch": epoch}
        version = self.mostly(5, 0, 1, 2, 3, 4, percent=60)
        with self.settled():
            self.granted(name, self.ask(END_TXN, {**who, "committed": self.chance(50)}, version=version))

    def describe(self) -> None:
        """Only what kio reads: the time of a transaction that never began is negative."""
        ongoing = [name for name, state in _states(self.pair.ours, self.prefix).items() if state == "Ongoing"]
        self.ask(DESCRIBE_TRANSACTIONS, {"transactional_ids": self.mostly(ongoing, [*ongoing, self.prefix + "unknown", ""], percent=70)})

    def listed(self) -> None:
        fields = {
            "state_filters": self.mostly([], ["Ongoing"], ["CompleteAbort", "Empty"], ["PrepareCommit"], ["nonsense", "Ongoing"]),
            "producer_id_filters": self.mostly([], [self.random.choice(list(self.present.values()))[0]]),
            "duration_filter": self.mostly(-1, 1 << 40),
            "transactional_id_pattern": self.mostly(None, "", self.prefix + ".*", "unknown", "(", percent=50),
        }
        self.ask(LIST_TRANSACTIONS, fields)

    # --- what came of it

    def granted(self, name: str, answer: Any) -> None:
        if isinstance(answer, dict) and name in self.present and answer["error_code"] == "none" and answer.get("producer_id", -1) != -1:
            self.present[name] = answer["producer_id"], answer["producer_epoch"]

    @contextmanager
    def settled(self) -> Iterator[None]:
        """Afterwards no transaction is being ended at either side."""
        yield
        for side in (self.pair.kafka, self.pair.ours):
            wait_until(
                lambda side=side: not any(state.startswith("Prepare") for state in _states(side, self.prefix).values()),  # type: ignore[misc]
                "the end of transactions",
            )


def _ask(side: Side, api_key: int, version: int, fields: Mapping[str, object]) -> Any:
    side.send("aside", api_key, version, fields)
    return side.receive("aside", api_key, version)


def _states(side: Side, prefix: str) -> dict[str, str]:
    answer = _ask(side, LIST_TRANSACTIONS, 0, {})
    return {
        one.transactional_id: str(one.transaction_state) for one in answer.transaction_states if one.transactional_id.startswith(prefix)
    }


def _has_coordinator(side: Side, prefix: str) -> bool:
    found = _ask(side, FIND_COORDINATOR, 4, {"key_type": TRANSACTION, "coordinator_keys": [prefix]}).coordinators[0]
    if found.error_code in NOT_YET:
        return False
    described = _ask(side, DESCRIBE_TRANSACTIONS, 0, {"transactional_ids": [prefix + "unknown"]})
    return described.transaction_states[0].error_code not in NOT_YET
