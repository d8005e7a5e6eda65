"""A bank: tellers move money between accounts, in transactions that are committed or aborted while the broker is killed. For a reader of
committed data the sum of all accounts of a branch never changes, and what stands in the books stands in the journal."""

import random
import threading
from collections.abc import Iterator
from pathlib import Path
from time import sleep
from typing import Self

import pytest

from millstream import Message, Producer
from millstream.client.cluster import Cluster
from millstream.client.codecs.aborted_batches import AbortedBatches
from millstream.client.codecs.fetch import READ_COMMITTED, FetchFrom
from millstream.client.errors import ClientError, DeliveryFailed
from millstream.errors import KafkaError
from millstream.paper.errors import TransactionAborted
from millstream.transaction_errors import ProducerFenced
from millstream.wire.batch import split_batches
from millstream.wire.records import decode_records
from tests.brokers import Broker, make_broker
from tests.topics import create_topic
from tests.transactions.committed import read_committed
from tests.waiting import wait_until

TELLERS = 3
TRANSFERS = 40
GOES_ON_S = 120.0
JOURNAL = "journal"


class ChangedItsMind(Exception):
    """The transfer is to be aborted."""


class Teller:
    """Moves money between the accounts of one branch: a topic of its own, so that its transactions are there one after the other. Each
    leaves a line in the journal of the bank, in another partition."""

    def __init__(self, brokers: str, number: int) -> None:
        self.branch = f"branch-{number}"
        self.transfers = 0
        self._brokers = brokers
        self._rng = random.Random(number)
        self._thread = threading.Thread(target=self._work, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def await_end(self) -> None:
        self._thread.join(GOES_ON_S)
        assert not self._thread.is_alive(), f"{self.branch} stands still after {self.transfers} transfers"

    def _work(self) -> None:
        while self.transfers < TRANSFERS:
            try:
                producer = Producer(self._brokers, transactional_id=self.branch, transaction_timeout_s=10, connect_timeout_s=30)
                while self.transfers < TRANSFERS:
                    self._transfer(producer)
            except (ClientError, ProducerFenced):
                sleep(0.1)  # as one who begins anew

    def _transfer(self, producer: Producer) -> None:
        amount, number = self._rng.randint(1, 100), f"{self.branch} {self._rng.getrandbits(60)}"
        try:
            with producer.transaction():
                producer.send(self.branch, Message(b"%d" % -amount, key=number))
                if self._rng.random() < 0.5:
                    producer.flush()  # in several batches
                producer.send(JOURNAL, Message(b"%d" % amount, key=number))
                producer.send(self.branch, Message(b"%d" % amount, key=number))
                if self._rng.random() < 0.3:
                    producer.flush()
                    raise ChangedItsMind
        except (ChangedItsMind, TransactionAborted, DeliveryFailed):
            return
        self.transfers += 1


class Auditor:
    """Reads the branches again and again, and adds up. It looks at the sum whenever it has read all that is decided."""

    def __init__(self, brokers: str, branches: list[str]) -> None:
        self._brokers = brokers
        self._branches = branches
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self.looks = 0
        self.wrong: list[str] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _work(self) -> None:
        offsets, sums = dict.fromkeys(self._branches, 0), dict.fromkeys(self._branches, 0)
        while not self._is_over.is_set():
            try:
                with Cluster(self._brokers, timeout_s=5) as cluster:
                    for branch in self._branches:
                        self._read(cluster, branch, offsets, sums)
            except (ClientError, KafkaError):
                sleep(0.1)

    def _read(self, cluster: Cluster, branch: str, offsets: dict[str, int], sums: dict[str, int]) -> None:
        fetched = cluster.fetch(FetchFrom(branch, 0, offsets[branch]), max_wait_ms=10, isolation_level=READ_COMMITTED)
        aborted = AbortedBatches(fetched.aborted_transactions or ())
        for header, batch in split_batches(fetched.records):
            if aborted.is_visible(header, batch):
                sums[branch] += sum(int(record.value or b"0") for record in decode_records(batch))
            offsets[branch] = header.next_offset
        if offsets[branch] == fetched.last_stable_offset:
            self.looks += 1
            if sums[branch]:
                self.wrong.append(f"{branch} has {sums[branch]} at offset {offsets[branch]}")


@pytest.fixture
def bank(tmp_path: Path) -> Iterator[Broker]:
    broker = make_broker(tmp_path / "broker", {"transaction.state.log.num.partitions": 3})
    broker.start()
    create_topic(broker, name=JOURNAL, partitions=4)
    yield broker
    broker.kill()


def read(broker: Broker, topic: str) -> list[tuple[bytes | None, int]]:
    """All committed messages."""
    return [(message.key, int(message.payload or b"0")) for message in read_committed(broker.bootstrap_servers, topic)]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("rounds", [1, pytest.param(20, marks=[pytest.mark.long, pytest.mark.timeout(3600)])])
def test_the_sum_of_all_accounts_never_changes(bank: Broker, rounds: int) -> None:
    for round_number in range(rounds):
        work([Teller(bank.bootstrap_servers, round_number * TELLERS + number) for number in range(TELLERS)], bank)


def work(tellers: list[Teller], bank: Broker) -> None:
    """Let them all move money while the bank is killed once, and look at the books."""
    branches = [create_topic(bank, name=teller.branch) for teller in tellers]
    with Auditor(bank.bootstrap_servers, branches) as auditor:
        for teller in tellers:
            teller.start()
        wait_until(lambda: sum(teller.transfers for teller in tellers) > TRANSFERS, "transfers", deadline_s=GOES_ON_S)
        bank.kill()
        bank.start()
        for teller in tellers:
            teller.await_end()
    assert auditor.wrong == []
    assert auditor.looks > 0
    booked = [entry for branch in branches for entry in read(bank, branch)]
    journal = [(key, amount) for key, amount in read(bank, JOURNAL) if (key or b"").split()[0].decode() in branches]
    assert sorted(journal) == sorted(entry for entry in booked if entry[1] > 0)
    # A commit that was not answered may have happened.
    assert len(journal) >= TELLERS * TRANSFERS
    assert sum(amount for _, amount in booked) == 0
