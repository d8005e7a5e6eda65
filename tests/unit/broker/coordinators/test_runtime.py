"""The runtime with a machine that knows nothing of groups: it adds up numbers by name, and lets some wait."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from millstream.broker.coordinators.context import CoordinatorContext
from millstream.broker.coordinators.runtime import CoordinatorRuntime, java_hash_code, partition_for
from millstream.clock import SystemClock
from millstream.cluster.partition import Partition
from millstream.cluster.replicas import Replicas
from millstream.coordinator_shard import CoordinatorRecord, Fields, Outcome, Waiter
from millstream.errors import CoordinatorLoadInProgress, CoordinatorNotAvailable, KafkaError, NotCoordinator
from millstream.wire.compression import Codec
from tests.unit.cluster.hosting import LED_BY_1, flush, host, local_broker, started_logs, topic_state
from tests.waiting import eventually

TOPIC = "__sums"


class Sums:
    """The machine."""

    def __init__(self) -> None:
        self.sums: Counter[str] = Counter()
        self.waiting: list[Waiter] = []
        self.due_ms: int | None = None

    def apply(self, record: CoordinatorRecord) -> None:
        self.sums[record.key.decode()] += int(record.value or b"0")

    def apply_pending(self, record: CoordinatorRecord, producer_id: int) -> None:
        raise AssertionError("nothing is added in a transaction")

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        raise AssertionError("nor does one end")

    def loaded(self, now_ms: int) -> Outcome:
        return Outcome()

    def unloaded(self) -> Outcome:
        return self._answer({"error_code": NotCoordinator.code})

    def tick(self, now_ms: int) -> Outcome:
        self.due_ms = None
        return self._answer({"error_code": 0})

    def next_deadline_ms(self) -> int | None:
        return self.due_ms

    def add(self, name: str, number: int, waiter: Waiter) -> Outcome:
        outcome = Outcome()
        outcome.write(CoordinatorRecord(name.encode(), b"%d" % number))
        self.apply(outcome.records[0])
        outcome.reply(waiter, {"sum": self.sums[name]})
        return outcome

    def wait(self, waiter: Waiter, *, due_ms: int | None) -> Outcome:
        self.waiting.append(waiter)
        self.due_ms = due_ms
        return Outcome()

    def _answer(self, fields: Fields) -> Outcome:
        outcome = Outcome()
        for waiter in self.waiting:
            outcome.reply(waiter, fields)
        self.waiting = []
        return outcome


class Opening(Sums):
    """A machine that writes when it is loaded."""

    def loaded(self, now_ms: int) -> Outcome:
        return self.add("opened", 1, Answers())


class FarReaching(Outcome):
    """An outcome that something follows from."""

    @property
    def has_consequences(self) -> bool:
        return True


class Answers(list[Fields]):
    """What a client was answered."""

    def answer(self, fields: Fields) -> None:
        self.append(fields)

    def fail(self, error: KafkaError) -> None:
        self.append({"error_code": error.code})


@asynccontextmanager
async def runtime_of(
    partition: Partition,
    machine: type[Sums] = Sums,
    *,
    commit_timeout_ms: int = 60_000,
    on_committed: Callable[[CoordinatorContext[Sums], Outcome], None] | None = None,
) -> AsyncIterator[CoordinatorRuntime[Sums]]:
    """A runtime that has loaded the only partition of its topic."""
    tasks: list[asyncio.Task[None]] = []

    def spawn(work: Coroutine[Any, Any, None]) -> None:
        tasks.append(asyncio.get_running_loop().create_task(work))

    with ThreadPoolExecutor(1) as executor:
        runtime = CoordinatorRuntime(
            TOPIC,
            cast(Replicas, SimpleNamespace(topic=lambda _name: SimpleNamespace(partitions={0: partition}))),
            new_shard=lambda _leader_epoch: machine(),
            on_committed=on_committed,
            codec=Codec.NONE,
            load_bytes=1 << 20,
            commit_timeout_ms=commit_timeout_ms,
            clock=SystemClock(),
            executor=executor,
            spawn=spawn,
        )
        runtime.apply(topic_state(TOPIC))
        await eventually(lambda: runtime.context("a").is_active)
        yield runtime
        runtime.close()
        await asyncio.gather(*tasks)


def add(runtime: CoordinatorRuntime[Sums], number: int, *, batched: bool = False) -> Answers:
    answers = Answers()
    runtime.write("a", lambda shard, _now_ms: shard.add("a", number, answers), answers, batched=batched)
    return answers


def ask(runtime: CoordinatorRuntime[Sums]) -> Answers:
    answers = Answers()
    runtime.read("a", lambda shard: {"sum": shard.sums["a"]}, answers)
    return answers


def add_far_reaching(runtime: CoordinatorRuntime[Sums]) -> FarReaching:
    outcome = FarReaching()
    outcome.write(CoordinatorRecord(b"a", b"1"))
    runtime.write("a", lambda _shard, _now_ms: outcome, Answers(), batched=True)
    return outcome


async def test_consequences_wait_for_the_commit_however_long_it_takes(tmp_path: Path) -> None:
    logs = started_logs(tmp_path)
    partition = host(logs, topic=TOPIC, flush_messages=1)
    followed: list[Outcome] = []
    async with runtime_of(partition, commit_timeout_ms=1, on_committed=lambda _context, outcome: followed.append(outcome)) as runtime:
        outcome = add_far_reaching(runtime)
        answers = add(runtime, 1)
        await eventually(lambda: answers == [{"error_code": CoordinatorNotAvailable.code}])
        assert not followed
        flush(partition)
        assert not followed  # The one who has moved the watermark is not done yet.
        await eventually(lambda: followed == [outcome])
    logs.close()


async def test_partition_that_is_lost_in_the_same_turn_has_no_consequences(tmp_path: Path) -> None:
    logs = started_logs(tmp_path)
    partition = host(logs, topic=TOPIC, flush_messages=1)
    followed: list[Outcome] = []
    async with runtime_of(partition, on_committed=lambda _context, outcome: followed.append(outcome)) as runtime:
        add_far_reaching(runtime)
        runtime.context("a").write_batch()
        flush(partition)
        runtime.context("a").leading = cast(Any, None)  # Another epoch has begun.
        for _ in range(3):
            await asyncio.sleep(0)
        assert not followed
    logs.close()


async def test_machine_that_is_given_up_has_no_consequences(tmp_path: Path) -> None:
    logs = started_logs(tmp_path)
    partition = host(logs, topic=TOPIC, flush_messages=1)
    followed: list[Outcome] = []
    async with runtime_of(partition, on_committed=lambda _context, outcome: followed.append(outcome)) as runtime:
        add_far_reaching(runtime)
        add(runtime, 1)
        runtime.context("a").fail(NotCoordinator("given up"))
        flush(partition)
        await eventually(lambda: runtime.context("a").is_active)
        assert not followed
    logs.close()


async def test_what_was_decided_is_answered_when_it_is_committed_and_replayed_by_the_next_runtime(tmp_path: Path) -> None:
    logs = started_logs(tmp_path)
    partition = host(logs, topic=TOPIC, flush_messages=1)
    async with runtime_of(partition) as runtime:
        added, asked = add(runtime, 3), ask(runtime)
        assert (added, asked) == ([], [])
        flush(partition)
        assert added == asked == [{"sum": 3}]
    async with runtime_of(partition) as runtime:
        assert ask(runtime) == [{"sum": 3}]
    logs.close()


async def test_what_is_decided_in_one_turn_shares_a_batch_if_it_may(tmp_path: Path) -> None:
    logs = started_logs(tmp_path)
    partition = host(logs, topic=TOPIC)
    async with runtime_of(partition) as runtime:
        answers = [add(runtime, number, batched=True) for number in (1, 2, 3)]
        assert (answers, partition.log.log_end_offset) == ([[], [], []], 0)
        await asyncio.sleep(0)
        assert (answers, partition.log.log_end_offset) == ([[{"sum": 1}], [{"sum": 3}], [{"sum": 6}]], 3)
    logs.close()


async def test_machine_of_an_empty_log_is_not_replayed_even_if_it_writes_when_it_is_loaded(tmp_path: Path) -> None:
    logs = started_logs(tmp_path)
    partition = host(logs, topic=TOPIC)
    async with runtime_of(partition, Opening):
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert partition.log.log_end_offset == 1
    logs.close()


async def test_machine_is_woken_when_something_is_due(tmp_path: Path) -> None:
    logs = started_logs(tmp_path)
    async with runtime_of(host(logs, topic=TOPIC)) as runtime:
        answers = Answers()
        runtime.write("a", lambda shard, now_ms: shard.wait(answers, due_ms=now_ms + 1), answers)
        await eventually(lambda: answers == [{"error_code": 0}])
    logs.close()


async def test_partition_that_is_led_elsewhere_is_unloaded_and_loaded_when_it_comes_back(tmp_path: Path) -> None:
    logs = started_logs(tmp_path)
    partition = host(logs, topic=TOPIC)
    async with runtime_of(partition) as runtime:
        add(runtime, 3)
        waiting = Answers()
        runtime.write("a", lambda shard, _now_ms: shard.wait(waiting, due_ms=None), waiting)
        partition.apply(LED_BY_1._replace(leader=2))
        runtime.apply(topic_state(TOPIC))
        assert waiting == ask(runtime) == [{"error_code": NotCoordinator.code}]
        partition.apply(LED_BY_1._replace(leader_epoch=5))
        runtime.apply(topic_state(TOPIC))
        await eventually(lambda: runtime.context("a").is_active)
        assert ask(runtime) == [{"sum": 3}]
    logs.close()


async def test_log_that_is_led_elsewhere_by_the_time_it_would_be_replayed_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("millstream.broker.coordinators.runtime.RELOAD_AFTER_SECONDS", 0.0)
    logs = started_logs(tmp_path)
    partition = host(logs, topic=TOPIC, flush_messages=1)
    async with runtime_of(partition) as runtime:
        answers = add(runtime, 3)
        read: list[object] = []
        monkeypatch.setattr(partition.log, "read", lambda *arguments, **_options: read.append(arguments))
        partition.apply(LED_BY_1._replace(leader=2))  # whoever waits is refused, and the machine given up
        runtime.apply(topic_state(TOPIC))
        await asyncio.sleep(0.01)
        assert (answers, read) == ([{"error_code": NotCoordinator.code}], [])
    logs.close()


async def test_who_does_not_lead_any_longer_answers_nothing_from_what_it_knew_even_before_it_has_unloaded(tmp_path: Path) -> None:
    logs = started_logs(tmp_path)
    partition = host(logs, topic=TOPIC)
    async with runtime_of(partition) as runtime:
        add(runtime, 3)
        partition.apply(LED_BY_1._replace(leader=2, leader_epoch=4))
        assert ask(runtime) == add(runtime, 1) == [{"error_code": NotCoordinator.code}]
        assert not runtime.context("a").is_active
    logs.close()


async def test_partition_that_is_led_anew_is_read_again_because_others_may_have_written(tmp_path: Path) -> None:
    logs = started_logs(tmp_path)
    partition = host(logs, topic=TOPIC)
    async with runtime_of(partition) as runtime:
        add(runtime, 3)
        former = runtime.context("a")
        partition.apply(LED_BY_1._replace(leader_epoch=9))
        assert ask(runtime) == [{"error_code": NotCoordinator.code}]
        runtime.apply(topic_state(TOPIC))
        assert runtime.context("a") is not former
        await eventually(lambda: runtime.context("a").is_active)
        assert ask(runtime) == [{"sum": 3}]
    logs.close()


async def test_load_of_an_older_epoch_is_dropped(tmp_path: Path) -> None:
    logs = started_logs(tmp_path)
    partition = host(logs, topic=TOPIC)
    async with runtime_of(partition) as runtime:
        add(runtime, 3)
        partition.apply(LED_BY_1._replace(leader_epoch=9))
        runtime.apply(topic_state(TOPIC))
        loading = runtime.context("a")
        partition.apply(LED_BY_1._replace(leader_epoch=10))
        runtime.apply(topic_state(TOPIC))
        await eventually(lambda: runtime.context("a").is_active)
        await asyncio.sleep(0)
        assert (loading.is_active, loading.is_in_use, runtime.context("a").leading.leader_epoch) == (False, False, 10)
    logs.close()


async def test_what_is_not_committed_in_time_is_answered_with_an_error_and_stays_decided(tmp_path: Path) -> None:
    logs = started_logs(tmp_path)
    partition = host(logs, topic=TOPIC, flush_messages=1)
    async with runtime_of(partition, commit_timeout_ms=20) as runtime:
        first, second = add(runtime, 3), ask(runtime)
        await eventually(lambda: bool(second))
        assert first == second == [{"error_code": CoordinatorNotAvailable.code}]
        assert not partition.high_watermark.is_awaited
        flush(partition)
        assert ask(runtime) == [{"sum": 3}]
    logs.close()


REPLICATED = LED_BY_1._replace(replicas=(1, 2), in_sync_replicas=(1, 2))


async def test_what_followers_do_not_have_is_neither_answered_nor_shown(tmp_path: Path) -> None:
    logs = started_logs(tmp_path)
    partition = host(logs, topic=TOPIC, state=REPLICATED)
    async with runtime_of(partition) as runtime:
        added, asked = add(runtime, 3), ask(runtime)
        assert (added, asked) == ([], [])
        partition.as_leader().replica_fetched(2, 1, 1, 0)
        assert added == asked == [{"sum": 3}]
    logs.close()


async def test_nothing_is_decided_while_too_few_replicas_are_in_sync(tmp_path: Path) -> None:
    logs = started_logs(tmp_path)
    partition = host(logs, topic=TOPIC, state=REPLICATED, min_insync_replicas=2)
    async with runtime_of(partition) as runtime:
        machine = runtime.context("a").shard
        partition.apply(REPLICATED._replace(in_sync_replicas=(1,), partition_epoch=1))
        assert add(runtime, 3) == [{"error_code": CoordinatorNotAvailable.code}]
        assert (machine.sums["a"], runtime.context("a").shard is machine) == (0, True)
    logs.close()


async def test_what_is_due_waits_until_it_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millstream.broker.coordinators.context.RETRY_DELAY_MS", 1)
    logs = started_logs(tmp_path)
    partition = host(logs, topic=TOPIC, state=REPLICATED, min_insync_replicas=2)
    async with runtime_of(partition) as runtime:
        waiting = Answers()
        runtime.write("a", lambda shard, now_ms: shard.wait(waiting, due_ms=now_ms + 1), waiting)
        partition.apply(REPLICATED._replace(in_sync_replicas=(1,), partition_epoch=1))
        await asyncio.sleep(0.02)
        assert waiting == []
        partition.apply(REPLICATED._replace(partition_epoch=2))
        await eventually(lambda: waiting == [{"error_code": 0}])
    logs.close()


async def test_nothing_is_shown_without_the_lease_because_another_may_have_taken_later_commits(tmp_path: Path) -> None:
    """The client is asked to try again: after NOT_COORDINATOR librdkafka never fetches the offsets of that assignment again."""
    logs = started_logs(tmp_path)
    has_lease = [True]
    partition = host(logs, topic=TOPIC, state=REPLICATED, broker=local_broker(has_lease=lambda: has_lease[0]))
    async with runtime_of(partition) as runtime:
        assert ask(runtime) == [{"sum": 0}]
        has_lease[0] = False
        assert ask(runtime) == [{"error_code": CoordinatorLoadInProgress.code}]
    logs.close()


async def test_machine_comes_and_goes_with_the_role_of_the_broker_between_two_views(tmp_path: Path) -> None:
    logs = started_logs(tmp_path)
    partition = host(logs, topic=TOPIC)
    async with runtime_of(partition) as runtime:
        waiting = Answers()
        runtime.write("a", lambda shard, _now_ms: shard.wait(waiting, due_ms=None), waiting)
        partition.apply(LED_BY_1._replace(leader=2, leader_epoch=4))
        runtime.roles_changed([partition])
        assert waiting == [{"error_code": NotCoordinator.code}]
        partition.apply(LED_BY_1._replace(leader_epoch=5))
        runtime.roles_changed([partition])
        assert runtime.context("a").is_active
    logs.close()


async def test_mistake_of_a_machine_when_it_is_woken_makes_it_begin_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millstream.broker.coordinators.runtime.RELOAD_AFTER_SECONDS", 0.0)
    logs = started_logs(tmp_path)
    async with runtime_of(host(logs, topic=TOPIC)) as runtime:
        add(runtime, 3)
        context = runtime.context("a")
        former = context.shard
        monkeypatch.setattr(former, "tick", lambda _now_ms: 1 // 0)
        answers = Answers()
        runtime.write("a", lambda shard, now_ms: shard.wait(answers, due_ms=now_ms), answers)
        await eventually(lambda: context.is_active and context.shard is not former)
        assert (answers, ask(runtime)) == ([{"error_code": NotCoordinator.code}], [{"sum": 3}])
    logs.close()


@pytest.mark.parametrize(
    ("text", "hash_code"),
    [("", 0), ("a", 97), ("hello", 99162322), ("Aa", 2112), ("BB", 2112), ("\N{GRINNING FACE}", 55357 * 31 + 56832)],
)
def test_hash_is_the_one_of_java(text: str, hash_code: int) -> None:
    assert java_hash_code(text) == hash_code


@pytest.mark.parametrize(
    ("key", "partition"),
    [("", 0), ("group", 47), ("my-group", 12), ("orders-consumer", 40), ("grupo-ñ", 1), ("polygenelubricants", 0), ("z" * 1000, 26)],
)
def test_key_is_kept_in_the_partition_in_which_kafka_keeps_it(key: str, partition: int) -> None:
    # As Kafka 4.2's GroupCoordinatorService says. The hashes of the third and fourth are negative, of the sixth is Integer.MIN_VALUE.
    assert partition_for(key, 50) == partition
