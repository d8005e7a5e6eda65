"""What happens to the partitions of a broker (`cluster/replicas`) while the logs of others are being opened."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from millstream.cluster import unopened_logs
from millstream.coordination.cluster_view import ClusterView, TopicState
from millstream.errors import NotLeaderOrFollower, StorageError
from millstream.log.config import LogConfig
from millstream.log.directories.manager import LogManager
from millstream.log.log import Log
from tests.unit.cluster.hosting import LED_BY_1, TOPIC_ID, local_broker, replicas_on, topic_state, view_of
from tests.waiting import eventually

OLD = topic_state("old", topic_id=UUID(int=1))
FOLLOWED = LED_BY_1._replace(replicas=(1, 2), leader=2, leader_epoch=4, partition_epoch=1)


def config_of(topic: TopicState) -> LogConfig:
    return LogConfig.of({name: int(value) for name, value in topic.configs.items()})


class SlowLogs:
    """The logs of `orders` are opened one by one, as the test lets them."""

    def __init__(self, logs: LogManager) -> None:
        self.logs = logs
        self.begun: list[int] = []
        self.failing: set[int] = set()
        self._may_open = threading.Semaphore(0)
        self._create = logs.create

    def let(self, count: int) -> None:
        self._may_open.release(count)

    def create(self, topic: str, partition: int, *, topic_id: UUID, config: LogConfig) -> Log:
        if topic == "orders":
            self.begun.append(partition)
            assert self._may_open.acquire(timeout=20)
        if partition in self.failing:
            raise StorageError("no room")
        return self._create(topic, partition, topic_id=topic_id, config=config)


class Opening:
    """A broker that has a topic `old`, and is about to open the logs of `orders`."""

    def __init__(self, logs: LogManager, slow: SlowLogs, removed: list[Path], followed: list[str]) -> None:
        self.replicas = replicas_on(
            logs,
            log_config=config_of,
            remove_later=lambda path, _delay_ms: removed.append(path),
            broker=local_broker(on_follow=lambda partitions: followed.extend(f"{one.topic}-{one.index}" for one in partitions)),
        )
        self.slow = slow
        self.removed = removed
        self.followed = followed
        self.opened: list[dict[str, int]] = []
        """What was left to be opened each time that a topic was open."""

    async def until_begun(self, count: int) -> None:
        await eventually(lambda: len(self.slow.begun) == count, f"{count} logs are being opened")

    @asynccontextmanager
    async def opens(self, view: ClusterView) -> AsyncIterator[None]:
        """The logs are being opened in the block, and open after it."""
        await self.replicas.apply(view)
        opening = asyncio.ensure_future(self.replicas.open_logs(lambda: self.opened.append(dict(self.replicas.shown_partitions))))
        await self.until_begun(1)
        yield
        self.slow.let(100)
        await opening


@pytest.fixture
async def opening(logs: LogManager, monkeypatch: pytest.MonkeyPatch) -> Opening:
    monkeypatch.setattr(unopened_logs, "PORTION", 2)
    slow = SlowLogs(logs)
    monkeypatch.setattr(logs, "create", slow.create)
    made = Opening(logs, slow, [], [])
    await made.replicas.apply(view_of(OLD))
    return made


def names_of(paths: list[Path]) -> list[str]:
    return sorted(path.name.partition(".")[0] for path in paths)


async def test_roles_change_while_logs_are_opened(opening: Opening) -> None:
    replicas = opening.replicas
    view = view_of(OLD, topic_state(partitions=4))
    async with opening.opens(view):
        assert replicas.partition("old", 0).is_leader
        await replicas.apply(view.with_topics({"old": replace(OLD, partitions=(FOLLOWED,))}))
        assert replicas.partition("old", 0).following is not None
        assert opening.followed == ["old-0"]
        assert opening.slow.begun == [0], "and meanwhile not one log more was opened"
        with pytest.raises(NotLeaderOrFollower, match="not opened"):
            replicas.partition("orders", 0)
    assert [replicas.partition("orders", index).is_leader for index in range(4)] == [True] * 4


async def test_a_log_is_put_to_use_with_what_was_decided_while_it_was_opened(opening: Opening) -> None:
    replicas = opening.replicas
    later = replace(topic_state(partitions=3, max_message_bytes="77"), partitions=(LED_BY_1, FOLLOWED, FOLLOWED))
    async with opening.opens(view_of(OLD, topic_state(partitions=3))):
        opening.slow.let(1)
        await opening.until_begun(2)
        await replicas.apply(view_of(OLD, later))
    assert [replicas.partition("orders", index).is_leader for index in range(3)] == [True, False, False]
    assert {replicas.partition("orders", index).log.config.max_message_bytes for index in range(3)} == {77}
    assert opening.followed == ["orders-1", "orders-2"], "the leaders are asked when all is open"


async def test_clients_see_a_topic_when_all_its_logs_are_open(opening: Opening) -> None:
    grown = topic_state("old", partitions=2, topic_id=UUID(int=1))
    async with opening.opens(view_of(OLD, topic_state(partitions=3))):
        assert opening.replicas.shown_partitions == {"orders": 0}
        opening.slow.let(1)
        await opening.until_begun(2)
        await opening.replicas.apply(view_of(grown, topic_state(partitions=3)))
        assert opening.replicas.shown_partitions == {"orders": 0, "old": 1}
    assert opening.opened == [{"orders": 0}, {}], "the small one did not wait for the large one"


async def test_a_topic_that_is_deleted_while_its_logs_are_opened_leaves_nothing(opening: Opening) -> None:
    async with opening.opens(view_of(OLD, topic_state(partitions=5))):
        opening.slow.let(2)
        await opening.until_begun(3)
        await opening.replicas.apply(view_of(OLD))
        assert opening.replicas.topic("orders") is None
        assert opening.replicas.shown_partitions == {}
    assert opening.slow.begun == [0, 1, 2, 3], "no portion more"
    assert names_of(opening.removed) == ["orders-0", "orders-1", "orders-2", "orders-3"]
    assert [str(log.topic_partition) for log in opening.slow.logs] == ["old-0"]
    assert opening.opened == []


async def test_a_topic_that_is_deleted_and_created_anew_meanwhile_begins_empty(opening: Opening, logs: LogManager) -> None:
    anew = topic_state(partitions=2, topic_id=UUID(int=9))
    async with opening.opens(view_of(OLD, topic_state(partitions=3))):
        opening.slow.let(2)
        await opening.until_begun(3)
        await opening.replicas.apply(view_of(OLD, anew))
        assert opening.replicas.topic(TOPIC_ID.bytes) is None
        assert opening.replicas.shown_partitions == {"orders": 0}
    assert names_of(opening.removed) == ["orders-0", "orders-1", "orders-2"]
    found = {log.partition: log.topic_id for log in logs if log.topic == "orders"}
    assert found == {0: UUID(int=9), 1: UUID(int=9)}
    assert opening.replicas.partition(UUID(int=9).bytes, 1).is_leader
    assert not [path for log in logs for path in log.path.parent.glob("*stray*")], "nothing was set aside for a person to look at"
    assert opening.opened == [{}]


async def test_a_log_that_cannot_be_opened_does_not_keep_the_others_from_being_used(opening: Opening) -> None:
    replicas = opening.replicas
    opening.slow.failing = {1}
    view = view_of(OLD, topic_state(partitions=3))
    async with opening.opens(view):
        pass
    assert replicas.shown_partitions == {}
    with pytest.raises(StorageError):
        replicas.partition("orders", 1)
    assert replicas.partition("orders", 2).is_leader
    # It is tried again with the next view, and clients go on seeing the topic.
    opening.slow.failing.clear()
    await replicas.apply(replace(view, controller_id=5))
    assert replicas.shown_partitions == {"orders": 3}
    with pytest.raises(StorageError):
        replicas.partition("orders", 1)
    await replicas.open_logs()
    assert replicas.partition("orders", 1).is_leader


async def test_views_come_while_thousands_of_partitions_move(opening: Opening, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millstream.cluster.replicas.PARTITIONS_PER_TURN", 1)
    replicas = opening.replicas
    later = replace(topic_state(partitions=8), partitions=(FOLLOWED,) * 8)
    async with opening.opens(view_of(OLD, topic_state(partitions=8))):
        opening.slow.let(100)
        await replicas.apply(view_of(OLD, later))
    assert not any(replicas.partition("orders", index).is_leader for index in range(8))


async def test_who_stops_waits_for_the_thread_that_opens(opening: Opening, logs: LogManager) -> None:
    await opening.replicas.apply(view_of(OLD, topic_state(partitions=2)))
    running = asyncio.ensure_future(opening.replicas.open_logs())
    await opening.until_begun(1)
    running.cancel()
    await asyncio.sleep(0)
    assert not running.done()
    opening.slow.let(2)
    with pytest.raises(asyncio.CancelledError):
        await running
    assert len(logs) == 3


async def test_one_opens_at_a_time(opening: Opening) -> None:
    async with opening.opens(view_of(OLD, topic_state(partitions=2))):
        await opening.replicas.open_logs()
        assert opening.slow.begun == [0]
