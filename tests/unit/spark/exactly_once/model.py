"""A model of transaction coordinators and of Spark around them, in which everything can die before and after each step."""

from collections.abc import Callable, Collection, Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field, replace

from millstream.client.admin.transaction_admin import KnownTransaction
from millstream.client.transactions import OpenTransaction
from millstream.errors import KafkaError
from millstream.spark.exactly_once.batch_commit import BatchCommit, PartlyCommitted
from millstream.spark.exactly_once.decision import read_transactions, write_transactions
from millstream.spark.exactly_once.driver import Driver, TakenOver, taken_over
from millstream.spark.exactly_once.transaction_pool import TransactionPool
from millstream.transaction_errors import InvalidTxnState, ProducerFenced

POOL = TransactionPool("millstream-sink-q-t")
TIMEOUT_MS = 60_000
BATCH_ROWS = 6


class Died(Exception):
    """The process is gone."""


class Steps:
    """Counts what is done, and dies before or after one of them, or lets others act there while it pauses."""

    def __init__(self) -> None:
        self.count = 0
        self.dies_at: int | None = None
        self.pauses_at: int | None = None
        self.meanwhile: Callable[[], None] = lambda: None

    @property
    def is_mortal(self) -> bool:
        """Whether it has to die yet."""
        return self.dies_at is not None

    def take(self, action: Callable[[], None]) -> None:
        """One step: twice countable, before it happens and after."""
        self._pass()
        action()
        self._pass()

    def _pass(self) -> None:
        self.count += 1
        if self.dies_at == self.count:
            self.dies_at = None
            raise Died
        if self.pauses_at == self.count:
            self.pauses_at = None
            self.meanwhile()


@dataclass(frozen=True)
class Decision:
    """What is remembered where the rows are; without transactions they are committed."""

    batch_id: int
    turn: int
    transactions: str = ""

    def is_same(self, other: "Decision | None") -> bool:
        """Whether it is about the same micro-batch of the same turn."""
        return other is not None and (self.batch_id, self.turn) == (other.batch_id, other.turn)


@dataclass
class Producer:
    """What a coordinator knows of one transactional id."""

    producer_id: int
    epoch: int = -1
    state: str = "Empty"
    rows: list[int] = field(default_factory=list)
    record: Decision | None = None


class Coordinators:
    """All coordinators, by the rules of the second protocol (or of the first, where the epoch stays when a transaction ends)."""

    def __init__(self, steps: Steps, *, version: int = 2) -> None:
        self._steps = steps
        self._version = version
        self._producers: dict[str, Producer] = {}
        self.committed: list[int] = []
        self.record: Decision | None = None

    def begin(self, transactional_id: str, *, timeout_ms: int) -> OpenTransaction:
        assert timeout_ms == TIMEOUT_MS
        producer = self._producers.setdefault(transactional_id, Producer(len(self._producers)))

        given: list[int] = []

        def act() -> None:
            producer.epoch += 1
            given.append(producer.epoch)
            producer.state = "Empty"
            producer.rows.clear()
            producer.record = None

        self._steps.take(act)
        return OpenTransaction(transactional_id, producer.producer_id, given[0], self._version)

    def fence(self, transactional_ids: Collection[str], *, timeout_ms: int) -> None:
        for name in transactional_ids:
            self.begin(name, timeout_ms=timeout_ms)

    def write(self, opened: OpenTransaction, rows: Iterable[int]) -> None:
        """What a producer does."""
        producer = self._producers[opened.transactional_id]

        def act() -> None:
            if opened.epoch != producer.epoch:
                raise ProducerFenced
            producer.state = "Ongoing"
            producer.rows += rows

        self._steps.take(act)

    def add_group(self, opened: OpenTransaction, group_id: str) -> None:
        """Part of `write_record`."""

    def write_record(self, opened: OpenTransaction, record: Decision) -> None:
        """What a driver does: it counts when the transaction is committed."""
        producer = self._producers[opened.transactional_id]

        def act() -> None:
            if opened.epoch != producer.epoch:
                raise ProducerFenced
            producer.state = "Ongoing"
            producer.record = record

        self._steps.take(act)

    def commit(self, opened: OpenTransaction) -> OpenTransaction:
        error = self._end(opened, commit=True)
        if error is not None:
            raise error
        return opened._replace(epoch=opened.epoch + (1 if self._version == 2 else 0))

    def named(self, transactional_ids: Collection[str]) -> Mapping[str, KnownTransaction]:
        found = {name: self._producers[name] for name in transactional_ids if name in self._producers}
        return {
            name: KnownTransaction(name, producer.state, 1, producer.producer_id, producer.epoch, TIMEOUT_MS, 0, ())
            for name, producer in found.items()
        }

    def open_ids(self) -> Collection[str]:
        return [name for name, producer in self._producers.items() if producer.state == "Ongoing"]

    def end(self, transactions: Iterable[OpenTransaction], *, commit: bool) -> Mapping[OpenTransaction, KafkaError]:
        lost: dict[OpenTransaction, KafkaError] = {}
        for opened in transactions:
            error = self._end(opened, commit=commit)
            if error is not None:
                lost[opened] = error
        return lost

    def time_out(self) -> None:
        """Abort all that is open."""
        for producer in self._producers.values():
            if producer.state == "Ongoing":
                producer.epoch += 1
                producer.state = "CompleteAbort"
                producer.rows.clear()

    def _end(self, opened: OpenTransaction, *, commit: bool) -> KafkaError | None:
        producer = self._producers[opened.transactional_id]
        ended = "CompleteCommit" if commit else "CompleteAbort"
        bump = 1 if self._version == 2 else 0
        errors: list[KafkaError] = []

        def act() -> None:
            if producer.state == ended and producer.epoch == opened.epoch + bump:
                return
            if producer.epoch != opened.epoch or producer.state != "Ongoing":
                errors.append(ProducerFenced() if producer.epoch != opened.epoch else InvalidTxnState())
                return
            self.committed += producer.rows if commit else []
            self.record = producer.record if commit and producer.record is not None else self.record
            producer.rows.clear()
            producer.record = None
            producer.state = ended
            producer.epoch += bump

        self._steps.take(act)
        return errors[0] if errors else None


class Query:
    """A query as Spark runs it: what is in its checkpoint and at the brokers stays when it dies."""

    def __init__(self, *, tasks: int, version: int = 2) -> None:
        self.steps = Steps()
        self.coordinators = Coordinators(self.steps, version=version)
        self.tasks = tasks
        self.next_batch = 0
        self._is_begun = False

    def copy(self) -> "Query":
        """Another driver that starts from the same checkpoint."""
        other = copy(self)
        other._is_begun = False
        return other

    def run_batch(self, *, failed_attempts: int = 0) -> None:
        """One micro-batch; its first task has attempts that die when they have written."""
        try:
            self._run_batch(failed_attempts=failed_attempts)
        except Died:
            self._is_begun = False
            raise
        self.next_batch += 1

    def _run_batch(self, *, failed_attempts: int) -> None:
        driver = Driver(self.coordinators, POOL.driver_id, timeout_ms=TIMEOUT_MS)
        if not self._is_begun:
            driver.take_over()
        self._is_begun = True
        seen = self.coordinators.record
        is_replay = seen is not None and seen.batch_id == self.next_batch
        if is_replay:
            assert seen is not None
            decision, opened = seen, read_transactions(seen.transactions, POOL) if seen.transactions else ()
        else:
            opened = tuple(self._run_task(task, failed_attempts=failed_attempts if task == 0 else 0) for task in range(self.tasks))
            decision = Decision(self.next_batch, seen.turn + 1 if seen is not None else 0, write_transactions(opened, POOL))
        commit = BatchCommit(self.coordinators, self.coordinators, opened, timeout_ms=TIMEOUT_MS)
        if not opened:
            return
        try:
            if not is_replay:
                self._check_unchanged(seen)
            driver.take_over()
            self._check_unchanged(seen)
        except TakenOver:
            commit.abort()
            raise
        if not is_replay:
            commit.prepare()
            self._store(driver, decision)
        try:
            commit.finish(what="it", advice="")
        except PartlyCommitted:
            now = self.coordinators.record
            if now is None or not now.transactions or not decision.is_same(now):
                raise taken_over("it is committed") from None
            raise
        self._store(driver, replace(decision, transactions=""))

    def _check_unchanged(self, seen: Decision | None) -> None:
        now = self.coordinators.record
        if now != seen and (seen is None or not seen.is_same(now)):
            raise taken_over("another record")

    def _store(self, driver: Driver, decision: Decision) -> None:
        driver.store("group", lambda opened: self.coordinators.write_record(opened, decision))

    def _run_task(self, task: int, *, failed_attempts: int) -> OpenTransaction:
        first = self.next_batch * BATCH_ROWS
        for attempt in range(failed_attempts + 1):
            opened = self.coordinators.begin(POOL.id_of(task, attempt), timeout_ms=TIMEOUT_MS)
            self.coordinators.write(opened, range(first + task, first + BATCH_ROWS, self.tasks))
        return opened
