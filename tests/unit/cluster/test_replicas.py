import asyncio
import errno
import os
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from millstream.cluster.replicas import Replicas
from millstream.coordination.cluster_view import TopicState
from millstream.coordination.partition_state import PartitionState
from millstream.errors import KafkaError, NotLeaderOrFollower, StorageError, UnknownTopicId, UnknownTopicOrPartition
from millstream.files import Files
from millstream.log.config import LogConfig
from millstream.log.directories.manager import LogManager
from tests.manual_clock import ManualClock
from tests.unit.cluster.hosting import (
    LED_BY_1,
    NOW_MS,
    TOPIC_ID,
    append,
    follow,
    local_broker,
    replicas_on,
    started_logs,
    topic_state,
    view_of,
)


def config_of(topic: TopicState) -> LogConfig:
    return LogConfig.of({name: int(value) for name, value in topic.configs.items()})


@pytest.fixture
def replicas(logs: LogManager) -> Replicas:
    return replicas_on(logs, log_config=config_of)


async def test_a_topic_is_found_by_its_name_and_by_its_id(replicas: Replicas) -> None:
    await follow(replicas, view_of(topic_state(partitions=2)))
    partition = replicas.partition("orders", 1)
    assert replicas.partition(TOPIC_ID.bytes, 1) is partition
    assert [one.index for one in replicas] == [0, 1]
    assert replicas.topic("orders") is replicas.topic(TOPIC_ID.bytes)


async def test_what_is_unknown_is_answered_with_kafkas_codes(replicas: Replicas) -> None:
    await follow(replicas, view_of(topic_state()))
    for key in ("nothing", None):
        with pytest.raises(UnknownTopicOrPartition):
            replicas.partition(key, 0)
    with pytest.raises(UnknownTopicOrPartition):
        replicas.partition("orders", 1)
    with pytest.raises(UnknownTopicId):
        replicas.partition(UUID(int=99).bytes, 0)


async def test_partitions_that_other_brokers_keep_are_not_opened(replicas: Replicas, logs: LogManager) -> None:
    elsewhere = LED_BY_1._replace(replicas=(2,), leader=2)
    await follow(replicas, view_of(replace(topic_state(), partitions=(elsewhere,))))
    assert replicas.topic("orders") is None
    assert len(logs) == 0


async def test_a_topic_that_is_said_to_have_fewer_partitions_keeps_what_it_has(replicas: Replicas) -> None:
    await follow(replicas, view_of(topic_state(partitions=2)))
    append(replicas.partition("orders", 1), b"kept")
    await follow(replicas, view_of(topic_state(partitions=1)))
    assert replicas.partition("orders", 1).log.log_end_offset == 1


async def test_new_partitions_and_options_are_taken_up_without_touching_the_others(replicas: Replicas) -> None:
    await follow(replicas, view_of(topic_state()))
    first = replicas.partition("orders", 0)
    await follow(replicas, view_of(topic_state(partitions=2, max_message_bytes="77")))
    assert replicas.partition("orders", 0) is first
    assert replicas.partition("orders", 1).log.config.max_message_bytes == first.log.config.max_message_bytes == 77


ELSEWHERE = LED_BY_1._replace(replicas=(2,), leader=2, in_sync_replicas=(2,), leader_epoch=4, partition_epoch=1)


async def test_a_replica_that_went_to_another_broker_is_deleted(logs: LogManager, tmp_path: Path) -> None:
    removed: list[Path] = []
    replicas = replicas_on(logs, log_config=config_of, remove_later=lambda path, _delay: removed.append(path))
    await follow(replicas, view_of(topic_state(partitions=2)))
    errors: list[KafkaError | None] = []
    replicas.partition("orders", 0).high_watermark.wait_for(1, errors.append, token=1)
    await follow(replicas, view_of(replace(topic_state(), partitions=(ELSEWHERE, LED_BY_1))))
    with pytest.raises(NotLeaderOrFollower, match="keeps no replica"):
        replicas.partition("orders", 0)
    assert [type(error) for error in errors] == [NotLeaderOrFollower]
    assert [path.name.startswith("orders-0.") for path in removed] == [True]
    assert not (tmp_path / "orders-0").exists()
    assert replicas.partition("orders", 1).is_leader
    # It comes back, and begins with nothing.
    back = ELSEWHERE._replace(replicas=(2, 1), adding_replicas=(1,), partition_epoch=2)
    await follow(replicas, view_of(replace(topic_state(), partitions=(back, LED_BY_1))))
    assert replicas.partition("orders", 0).following is not None
    assert replicas.partition("orders", 0).log.log_end_offset == 0


async def test_no_replica_is_deleted_by_a_view_of_another_life_or_an_older_state(logs: LogManager, tmp_path: Path) -> None:
    life = 7
    replicas = replicas_on(logs, log_config=config_of, life=lambda: life)
    await follow(replicas, view_of(replace(topic_state(), partitions=(LED_BY_1._replace(partition_epoch=5, leader_epoch=9),))))
    await follow(replicas, view_of(replace(topic_state(), partitions=(ELSEWHERE,))))
    assert (tmp_path / "orders-0").exists(), "what is known is newer"
    life = 8
    gone = ELSEWHERE._replace(leader_epoch=10, partition_epoch=6)
    await follow(replicas, view_of(replace(topic_state(), partitions=(gone,))))
    assert (tmp_path / "orders-0").exists(), "the controller has not dealt with this life yet"
    await follow(replicas, replace(view_of(replace(topic_state(), partitions=(gone,))), lives={1: 8}))
    assert not (tmp_path / "orders-0").exists()


async def test_a_log_that_went_elsewhere_while_the_broker_was_away_is_set_aside(tmp_path: Path) -> None:
    logs = started_logs(tmp_path)
    replicas = replicas_on(logs, log_config=config_of)
    await follow(replicas, view_of(topic_state(partitions=2)))
    append(replicas.partition("orders", 0), b"kept")
    logs.close()
    logs = LogManager([tmp_path], clock=ManualClock(NOW_MS))
    logs.start(node_id=1, cluster_id="tests")
    logs.load(lambda _topic: LogConfig(), topic_ids={"orders": TOPIC_ID})
    replicas = replicas_on(logs, log_config=config_of)
    view = view_of(replace(topic_state(), partitions=(ELSEWHERE, LED_BY_1)))
    await follow(replicas, replace(view, lives={}))
    assert (tmp_path / "orders-0").exists(), "the view may be older than what this broker was given"
    await follow(replicas, view)
    (stray,) = [name for name in os.listdir(tmp_path) if name.startswith("orders-0.") and name.endswith("-stray")]
    assert (tmp_path / stray / f"{0:020}.log").stat().st_size > 0
    assert not (tmp_path / "orders-0").exists()
    assert replicas.partition("orders", 1).is_leader
    logs.close()


async def test_a_replica_that_is_not_wanted_any_more_when_its_log_is_open_is_deleted(
    logs: LogManager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replicas = replicas_on(logs, log_config=config_of)
    await follow(replicas, view_of())
    adding = ELSEWHERE._replace(replicas=(2, 1), adding_replicas=(1,))
    await replicas.apply(view_of(replace(topic_state(), partitions=(adding,))))
    await replicas.apply(view_of(replace(topic_state(), partitions=(ELSEWHERE._replace(partition_epoch=2),))))
    await replicas.open_logs()
    assert len(logs) == 0
    assert not (tmp_path / "orders-0").exists()
    assert replicas.shown_partitions == {}


async def test_a_replica_on_a_failed_disk_that_went_to_another_broker_begins_anew_when_it_comes_back(tmp_path: Path) -> None:
    """However the disk failed: at the start, when nobody saw what is on it, or while the broker runs."""
    back = ELSEWHERE._replace(replicas=(2, 1), adding_replicas=(1,), partition_epoch=2)
    for moment in ("at the start", "later"):
        logs = started_logs(tmp_path / moment / "a", tmp_path / moment / "b")
        replicas = replicas_on(logs, log_config=config_of)
        if moment == "later":
            await follow(replicas, view_of(topic_state()))
        logs.directories[0].fail("reading", OSError(5, "input/output error"))
        await follow(replicas, view_of(topic_state()))
        with pytest.raises(StorageError):
            replicas.partition("orders", 0).log.check_usable()
        await follow(replicas, view_of(replace(topic_state(), partitions=(ELSEWHERE,))))
        with pytest.raises(NotLeaderOrFollower, match="keeps no replica"):
            replicas.partition("orders", 0)
        await follow(replicas, view_of(replace(topic_state(), partitions=(back,))))
        assert replicas.partition("orders", 0).following is not None, moment
        assert replicas.partition("orders", 0).log.directory is logs.directories[1]


async def test_partition_that_only_others_keep_is_led_elsewhere_and_not_unknown(replicas: Replicas) -> None:
    elsewhere = LED_BY_1._replace(replicas=(2,), leader=2)
    await follow(replicas, view_of(replace(topic_state(), partitions=(LED_BY_1, elsewhere))))
    for key in ("orders", TOPIC_ID.bytes):
        with pytest.raises(NotLeaderOrFollower):
            replicas.partition(key, 1)
        with pytest.raises(UnknownTopicOrPartition):
            replicas.partition(key, 2)
    assert replicas.state_of("orders", 1) is elsewhere
    assert replicas.state_of("orders", 2) is None


async def test_roles_are_taken_only_for_the_life_that_the_controller_has_dealt_with(logs: LogManager) -> None:
    life = 7
    replicas = replicas_on(logs, log_config=config_of, life=lambda: life)
    view = replace(view_of(topic_state()), lives={1: 6})
    await follow(replicas, view)
    partition = replicas.partition("orders", 0)
    assert (partition.role, replicas.is_confirmed) == (None, False)
    await follow(replicas, replace(view, lives={1: 7}))
    assert (partition.is_leader, replicas.is_confirmed) == (True, True)
    # Registered anew: until the controller has seen that, the role stays, without the lease.
    life += 2
    moved = view.with_topics({"orders": replace(topic_state(), partitions=(LED_BY_1._replace(leader=2, replicas=(1, 2), leader_epoch=4),))})
    await follow(replicas, replace(moved, lives={1: 7}))
    assert (partition.is_leader, replicas.is_confirmed) == (True, False)
    await follow(replicas, replace(moved, lives={1: 9}))
    assert (partition.is_leader, replicas.is_confirmed) == (False, True)
    # The znode was edited by hand: what is decided from now on would not be noticed.
    await follow(replicas, replace(moved, lives={1: 7}))
    assert not replicas.is_confirmed


async def test_all_roles_change_before_a_log_is_opened(logs: LogManager, monkeypatch: pytest.MonkeyPatch) -> None:
    followed: list[list[str]] = []
    broker = local_broker(on_follow=lambda partitions: followed.append([one.topic for one in partitions]))
    replicas = replicas_on(logs, log_config=config_of, broker=broker)
    names = [f"t{number}" for number in range(5)]
    states = {name: topic_state(name, topic_id=UUID(int=100 + number)) for number, name in enumerate(names)}
    await follow(replicas, view_of(*states.values()))
    opened: list[bool] = []
    create = logs.create

    def create_late(*arguments: object, **options: object) -> object:
        opened.append(any(one.is_leader for one in replicas))
        return create(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(logs, "create", create_late)
    followed_now = LED_BY_1._replace(leader=2, replicas=(1, 2), leader_epoch=4)
    moved = [replace(state, partitions=(followed_now,)) for state in states.values()]
    await follow(replicas, view_of(topic_state("a", topic_id=UUID(int=1)), *moved))
    assert opened == [False]
    assert followed == [names]
    await follow(replicas, view_of(topic_state("a", topic_id=UUID(int=1)), *moved[1:]))
    assert followed == [names, ["t0"]], "a deleted topic is not followed any more"
    await follow(replicas, view_of(*states.values()))
    assert not any(one.is_leader for one in replicas if one.topic != "t0"), "an older epoch says nothing"


async def test_high_watermark_begins_where_it_was_checkpointed(tmp_path: Path) -> None:
    followed = LED_BY_1._replace(replicas=(1, 2), in_sync_replicas=(1, 2))
    view = view_of(replace(topic_state(), partitions=(followed,)))
    logs = started_logs(tmp_path)
    replicas = replicas_on(logs, log_config=config_of)
    await follow(replicas, view)
    partition = replicas.partition("orders", 0)
    append(partition, b"a", b"b")
    partition.as_leader().replica_fetched(2, 5, 1, 0)
    logs.close(high_watermark_of=replicas.high_watermark_of)
    logs = LogManager([tmp_path], clock=ManualClock(NOW_MS))
    logs.start(node_id=1, cluster_id="tests")
    logs.load(lambda _topic: LogConfig(), topic_ids={"orders": TOPIC_ID})
    replicas = replicas_on(logs, log_config=config_of)
    assert [replicas.high_watermark_of(log) for log in logs] == [1], "also before it is in use"
    await follow(replicas, view)
    assert replicas.partition("orders", 0).high_watermark.value == 1
    logs.close()


async def test_a_deleted_topic_lets_its_waiters_and_its_files_go(logs: LogManager) -> None:
    removed: list[tuple[Path, int]] = []
    replicas = replicas_on(logs, log_config=config_of, remove_later=lambda path, delay: removed.append((path, delay)))
    await follow(replicas, view_of(topic_state(file_delete_delay_ms="5")))
    errors: list[KafkaError | None] = []
    replicas.partition("orders", 0).high_watermark.wait_for(1, errors.append, token=1)
    await follow(replicas, view_of())
    assert [type(error) for error in errors] == [UnknownTopicOrPartition]
    assert [(path.name.startswith("orders-0."), delay) for path, delay in removed] == [(True, 5)]
    with pytest.raises(UnknownTopicId):
        replicas.partition(TOPIC_ID.bytes, 0)


async def test_others_have_turns_while_large_topics_are_deleted(
    replicas: Replicas, logs: LogManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("millstream.cluster.replicas.DELETED_PER_TURN", 2)
    topics = [topic_state(name, partitions=3, topic_id=UUID(int=number)) for number, name in enumerate(("a", "b", "c"), 1)]
    await replicas.apply(view_of(*topics))
    hosted = [topic for name in ("a", "b", "c") if (topic := replicas.topic(name)) is not None]
    deleting = asyncio.create_task(replicas.apply(view_of()))
    left, held = [], []
    while not deleting.done():
        await asyncio.sleep(0)
        left.append(len(logs))
        held.append(sum(len(topic.partitions) for topic in hosted))
    assert left[:5] == [7, 5, 3, 1, 0]
    assert held[:5] == left[:5], "what is deleted is let go of at once: freeing thousands takes its time, too"


async def test_others_have_turns_while_many_partitions_begin_to_follow(logs: LogManager, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millstream.cluster.replicas.PARTITIONS_PER_TURN", 2)
    handed: list[list[int]] = []
    broker = local_broker(on_follow=lambda partitions: handed.append([partition.index for partition in partitions]))
    replicas = replicas_on(logs, log_config=config_of, broker=broker)
    led = PartitionState(replicas=(2, 1), leader=2, leader_epoch=3, in_sync_replicas=(2, 1))
    await follow(replicas, view_of(replace(topic_state(), partitions=(led,) * 5)))
    assert handed == [[0, 1], [2, 3], [4]]
    handed.clear()
    next_leader = led._replace(replicas=(3, 1), leader=3, leader_epoch=4, in_sync_replicas=(3, 1), partition_epoch=1)
    await follow(replicas, view_of(replace(topic_state(), partitions=(next_leader,) * 5)))
    assert handed == [[0, 1], [2, 3], [4]]


async def test_a_topic_that_was_deleted_and_created_again_starts_empty(replicas: Replicas) -> None:
    await follow(replicas, view_of(topic_state()))
    append(replicas.partition("orders", 0), b"old")
    await follow(replicas, view_of(topic_state(topic_id=UUID(int=8))))
    assert replicas.partition("orders", 0).log.log_end_offset == 0
    assert replicas.partition(UUID(int=8).bytes, 0).topic == "orders"
    with pytest.raises(UnknownTopicId):
        replicas.partition(TOPIC_ID.bytes, 0)


async def test_the_high_watermark_of_a_log_is_its_partitions(replicas: Replicas, logs: LogManager) -> None:
    await follow(replicas, view_of(topic_state()))
    append(replicas.partition("orders", 0), b"a", b"b")
    stray = logs.create("stray", 0, topic_id=TOPIC_ID, config=LogConfig())
    assert [replicas.high_watermark_of(log) for log in logs] == [2, 0]
    assert replicas.high_watermark_of(stray) == stray.log_start_offset


class FullDisk(Files):
    """No new directory can be made."""

    def make_directory(self, path: Path) -> None:
        if path.name.startswith("orders"):
            raise OSError(errno.ENOSPC, "no space left on device")
        super().make_directory(path)


async def test_a_partition_whose_log_cannot_be_made_is_a_storage_error_and_not_unknown(tmp_path: Path) -> None:
    replicas = replicas_on(started_logs(tmp_path, files=FullDisk()), log_config=config_of)
    await follow(replicas, view_of(topic_state(), topic_state("other", topic_id=UUID(int=8))))
    with pytest.raises(StorageError):
        replicas.partition("orders", 0)


async def test_a_log_on_a_disk_that_failed_at_the_start_is_not_begun_anew_on_another(tmp_path: Path) -> None:
    logs = started_logs(tmp_path / "a", tmp_path / "b")
    logs.directories[0].fail("opening logs", OSError(5, "input/output error"))
    replicas = replicas_on(logs, log_config=config_of)
    await follow(replicas, view_of(topic_state()))
    with pytest.raises(StorageError):
        replicas.partition("orders", 0)
    assert len(logs) == 0
    await follow(replicas, view_of(topic_state(), topic_state("new", topic_id=UUID(int=8))))
    assert replicas.partition("new", 0).log.directory is logs.directories[1]
    with pytest.raises(StorageError):
        replicas.partition("orders", 0)
    assert len(logs) == 1


async def test_a_topic_that_was_unreadable_at_the_start_is_not_begun_anew_when_a_disk_failed_then(tmp_path: Path) -> None:
    logs = started_logs(tmp_path / "a", tmp_path / "b")
    logs.directories[0].fail("opening logs", OSError(5, "input/output error"))
    replicas = replicas_on(logs, log_config=config_of)
    unreadable = replace(view_of(), unreadable_topics=frozenset({"orders"}))
    await follow(replicas, unreadable)
    await follow(replicas, replace(unreadable.with_topics({"orders": topic_state()}), unreadable_topics=frozenset()))
    with pytest.raises(StorageError):
        replicas.partition("orders", 0)
    assert len(logs) == 0
    # Deleted and made again it is a new topic, which is on no disk yet.
    await follow(replicas, view_of())
    await follow(replicas, view_of(topic_state(topic_id=UUID(int=8))))
    assert replicas.partition("orders", 0).log.directory is logs.directories[1]


async def test_a_loaded_log_whose_disk_failed_afterwards_does_not_stop_the_others(tmp_path: Path) -> None:
    logs = started_logs(tmp_path / "a", tmp_path / "b")
    for name in ("orders", "other"):
        logs.create(name, 0, topic_id=TOPIC_ID, config=LogConfig())
    logs.directories[0].fail("opening logs", OSError(5, "input/output error"))
    replicas = replicas_on(logs, log_config=config_of)
    await follow(replicas, view_of(topic_state(), topic_state("other", topic_id=UUID(int=8))))
    usable = [one.topic for one in replicas if one.log.directory.offline is None]
    assert len(usable) == 1


async def test_topics_that_stay_as_they_were_are_not_looked_at(logs: LogManager) -> None:
    looked_at: list[str] = []

    def config(topic: TopicState) -> LogConfig:
        looked_at.append(topic.name)
        return LogConfig()

    replicas = replicas_on(logs, log_config=config)
    view = view_of(*(topic_state(f"t{number}", topic_id=UUID(int=100 + number)) for number in range(20)))
    await follow(replicas, view)
    assert len(set(looked_at)) == 20
    looked_at.clear()
    view = view.with_topics({"new": topic_state("new", topic_id=UUID(int=1)), "t0": None})
    await follow(replicas, view)
    assert set(looked_at) == {"new"}
    assert (replicas.topic("t0"), replicas.topic("new") is None) == (None, False)
    looked_at.clear()
    await follow(replicas, replace(view, controller_id=5))
    assert looked_at == []
    await follow(replicas, replace(view, broker_configs={"1": {"retention.ms": "5"}}))
    assert len(set(looked_at)) == 20, "the options of brokers are defaults of all topics"


async def test_topic_whose_log_could_not_be_opened_is_tried_with_every_view(logs: LogManager, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: object, **_options: object) -> None:
        raise StorageError("no room")

    replicas = replicas_on(logs, log_config=config_of)
    view = view_of(topic_state())
    with monkeypatch.context() as broken:
        broken.setattr(logs, "create", fail)
        await follow(replicas, view)
    with pytest.raises(StorageError):
        replicas.partition("orders", 0)
    await follow(replicas, replace(view, controller_id=5))
    assert replicas.partition("orders", 0).index == 0
