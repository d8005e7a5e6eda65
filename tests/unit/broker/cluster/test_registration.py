import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from millstream.broker.cluster import registration as module
from millstream.broker.cluster.registration import Registration, prepare_tree, recall_directories, remember_directories
from millstream.coordination import paths
from millstream.coordination.cluster_view import BrokerState
from millstream.coordination.embedded import EmbeddedCoordination
from millstream.coordination.interface import SessionState, WatchCallback, ZnodeStat
from millstream.errors import StartupError
from millstream.files import Files
from millstream.log.directories.known_directories import KnownDirectories
from millstream.zookeeper.errors import ConnectionLost
from tests.manual_clock import ManualClock
from tests.waiting import eventually

BROKER = BrokerState(1, "localhost", 9092)


@pytest.fixture
async def coordination(tmp_path: Path) -> AsyncIterator[EmbeddedCoordination]:
    opened = await EmbeddedCoordination.open(tmp_path, files=Files(), clock=ManualClock(), broker_session_name="b", is_synced=False)
    await prepare_tree(opened, cluster_id="tests")
    yield opened
    await opened.close()


def come_back(coordination: EmbeddedCoordination) -> None:
    for listener in coordination._listeners:
        listener(SessionState.CONNECTED)


async def test_a_registration_that_is_interrupted_is_tried_until_it_holds(
    coordination: EmbeddedCoordination, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "RETRY_S", 0.001)
    registration = Registration(coordination, BROKER)
    await registration.register()
    first = registration.epoch
    running = asyncio.create_task(registration.run())
    await coordination.delete(paths.broker(1))
    really_create, failures = coordination.create, [ConnectionLost("gone")] * 3

    async def create(*arguments: Any, **options: Any) -> str:
        if failures:
            raise failures.pop()
        return await really_create(*arguments, **options)

    monkeypatch.setattr(coordination, "create", create)
    come_back(coordination)
    await eventually(lambda: registration.epoch != first)
    assert not running.done()
    assert caplog.text.count("not registered for now") == 1
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_registration_that_was_removed_or_written_to_comes_back(coordination: EmbeddedCoordination) -> None:
    registration = Registration(coordination, BROKER)
    await registration.register()
    running = asyncio.create_task(registration.run())
    for change in (coordination.delete, coordination.delete, lambda path: coordination.set(path, b"garbage")):
        former = registration.epoch
        await change(paths.broker(1))
        await eventually(lambda former=former: registration.epoch > former)  # type: ignore[misc]
        data, stat = await coordination.get(paths.broker(1))
        assert BrokerState.decode(1, data, epoch=stat.czxid)[:3] == BROKER[:3]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize(
    ("content", "where"),
    [(b"another broker's", "an address that makes no sense"), (BROKER._replace(port=9093).encode(), "localhost:9093")],
)
async def test_a_number_that_another_broker_has_is_refused_at_the_start_and_waited_for_later(
    coordination: EmbeddedCoordination, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, content: bytes, where: str
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(module, "RETRY_S", 0.001)
    monkeypatch.setattr(module, "FORMER_LIFE_S", 0.003)
    await coordination.create(paths.broker(1), content)
    registration = Registration(coordination, BROKER)
    with pytest.raises(StartupError, match=f"registered as number 1, at {where}: give this one another --node-id"):
        await registration.register()
    assert caplog.text.count(f"number 1 is registered by another session, at {where}; waiting for its end") == 1
    running = asyncio.create_task(registration.run())
    come_back(coordination)
    await coordination.delete(paths.broker(1))
    await eventually(lambda: registration.epoch >= 0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_the_directories_of_a_broker_are_remembered(coordination: EmbeddedCoordination, caplog: pytest.LogCaptureFixture) -> None:
    known = KnownDirectories(1, {"A": "/one"}, "A")
    assert await recall_directories(coordination, 1) == KnownDirectories()
    await remember_directories(coordination, 1, known)
    assert await recall_directories(coordination, 1) == known
    assert await recall_directories(coordination, 2) == KnownDirectories()
    await coordination.set(paths.broker_directories(1), b"[]")
    assert await recall_directories(coordination, 1) == KnownDirectories()
    assert paths.broker_directories(1) in caplog.text


@pytest.mark.parametrize("nonsense", [b"", b"two\nlines", b"\xff", b"x" * 300])
async def test_a_cluster_id_that_makes_no_sense_is_an_error(coordination: EmbeddedCoordination, nonsense: bytes) -> None:
    await coordination.set(paths.CLUSTER_ID, nonsense)
    with pytest.raises(StartupError, match="/cluster_id makes no sense"):
        await prepare_tree(coordination, cluster_id=None)


async def test_two_brokers_that_make_the_tree_at_the_same_time_agree(tmp_path: Path) -> None:
    async with asyncio.timeout(20):
        opened = await EmbeddedCoordination.open(tmp_path, files=Files(), clock=ManualClock(), broker_session_name="b")
        found = await asyncio.gather(*(prepare_tree(_Interleaved(opened), cluster_id=name) for name in ("one", "two")))
        assert len(set(found)) == 1
        assert set(paths.PERSISTENT_PARENTS) <= set(opened.keeper.tree.nodes)
        await opened.close()


class _Interleaved(EmbeddedCoordination):
    """A session that lets others in between a look and what follows from it."""

    def __init__(self, opened: EmbeddedCoordination) -> None:
        self.__dict__.update(opened.__dict__)

    async def exists(self, path: str, *, watch: WatchCallback | None = None) -> ZnodeStat | None:
        found = await super().exists(path, watch=watch)
        await asyncio.sleep(0)
        return found


async def previous_epoch(coordination: EmbeddedCoordination) -> int:
    data, stat = await coordination.get(paths.broker(1))
    return BrokerState.decode(1, data, epoch=stat.czxid).previous_epoch


async def test_a_registration_names_the_clean_stop_before_it_if_the_controller_knows_that_life(coordination: EmbeddedCoordination) -> None:
    await Registration(coordination, BROKER, clean_epoch=7).register()
    assert await previous_epoch(coordination) == -1
    for known, expected in ((b"7", 7), (b"8", -1), (b"nonsense", -1)):
        await coordination.delete(paths.broker(1))
        await set_or_create(coordination, paths.broker_epoch(1), known)
        await Registration(coordination, BROKER, clean_epoch=7).register()
        assert await previous_epoch(coordination) == expected


async def test_a_broker_that_starts_has_its_number_and_no_life_before_its_logs_are_open(coordination: EmbeddedCoordination) -> None:
    await set_or_create(coordination, paths.broker_epoch(1), b"7")
    registration = Registration(coordination, BROKER, clean_epoch=7)
    await registration.claim()
    data, claimed = await coordination.get(paths.broker(1))
    assert BrokerState.decode(1, data, epoch=claimed.czxid).is_starting
    assert (registration.epoch, registration.last_epoch) == (-1, 7), "a start that fails now leaves the marker of the last stop true"
    events: list[object] = []
    assert await coordination.exists(paths.broker(1), watch=events.append)
    await registration.register()
    data, stat = await coordination.get(paths.broker(1))
    found = BrokerState.decode(1, data, epoch=stat.czxid)
    assert (found.is_starting, found.previous_epoch) == (False, 7)
    assert registration.epoch == registration.last_epoch == stat.czxid > claimed.czxid
    assert stat.version == 0


async def test_a_number_is_not_free_for_a_moment_when_its_broker_registers(
    coordination: EmbeddedCoordination, monkeypatch: pytest.MonkeyPatch
) -> None:
    registration = Registration(coordination, BROKER)
    await registration.claim()
    sent: list[list[str]] = []
    really = coordination.multi

    async def multi(operations: Any) -> Any:
        sent.append([type(one).__name__ for one in operations])
        return await really(operations)

    monkeypatch.setattr(coordination, "multi", multi)
    await registration.register()
    assert sent == [["Delete", "Create"]]
    # A session that ended while the logs were opened has taken the number with it.
    other = Registration(coordination, BROKER)
    await coordination.delete(paths.broker(1))
    await other.claim()
    await coordination.delete(paths.broker(1))
    await other.register()
    assert other.epoch > registration.epoch


async def test_a_process_that_registers_again_has_lost_nothing(coordination: EmbeddedCoordination) -> None:
    registration = Registration(coordination, BROKER)
    await registration.register()
    first = registration.epoch
    await set_or_create(coordination, paths.broker_epoch(1), str(first).encode())
    for _ in range(3):  # the controller does not get to deal with the lives in between
        await coordination.delete(paths.broker(1))
        await registration.register()
    assert registration.epoch > first
    assert await previous_epoch(coordination) == first


async def test_a_broker_whose_session_is_lost_has_no_epoch_until_it_is_registered_again(coordination: EmbeddedCoordination) -> None:
    registration = Registration(coordination, BROKER)
    await registration.register()
    first = registration.epoch
    for listener in coordination._listeners:
        listener(SessionState.LOST)
    assert (registration.epoch, registration.last_epoch) == (-1, first)


async def set_or_create(coordination: EmbeddedCoordination, path: str, data: bytes) -> None:
    if await coordination.exists(path) is None:
        await coordination.create(path, data)
    else:
        await coordination.set(path, data)


async def test_a_broker_waits_longer_for_the_session_of_its_own_former_life(
    coordination: EmbeddedCoordination, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FORMER_LIFE_S", 0.001)
    monkeypatch.setattr(module, "LOOK_S", 0.005)
    await coordination.create(paths.broker(1), BROKER.encode())  # of a session that is not over
    registration = Registration(coordination, BROKER)
    registering = asyncio.create_task(registration.register())
    await asyncio.sleep(0.03)
    assert not registering.done()
    await coordination.delete(paths.broker(1))
    await registering
    assert registration.epoch > 0


HOME = BROKER._replace(home="boot-7 first second")


@pytest.mark.parametrize(
    ("home", "is_dead"),
    [
        ("boot-7 second first", True),
        ("boot-7 second third", True),
        ("boot-7 third", False),  # another data directory: it may live
        ("boot-8 first", False),  # a copy of the directory on another machine, or before a power cut
        ("boot-7", False),
        ("", False),
    ],
)
def test_a_former_life_is_dead_if_this_one_has_its_lock(home: str, is_dead: bool) -> None:
    assert HOME.is_in_the_place_of(BROKER._replace(home=home)) is is_dead
    assert not BROKER.is_in_the_place_of(BROKER._replace(home=home))


async def test_the_znodes_of_a_life_that_was_killed_are_not_waited_for(coordination: EmbeddedCoordination) -> None:
    killed = EmbeddedCoordination(coordination.keeper, broker_session_name="killed")
    await killed.create(paths.broker(1), HOME.encode(), ephemeral=True)
    await killed.create(paths.CONTROLLER, b"{}", ephemeral=True)
    registration = Registration(coordination, HOME._replace(port=9093))
    await registration.register()
    stat = await coordination.exists(paths.broker(1))
    assert stat is not None
    assert (stat.ephemeral_owner, stat.czxid) == (coordination.session_id, registration.epoch)
    assert await coordination.exists(paths.CONTROLLER) is None
    await killed.close()


async def test_the_controller_of_another_life_stays(coordination: EmbeddedCoordination) -> None:
    killed = EmbeddedCoordination(coordination.keeper, broker_session_name="killed")
    other = EmbeddedCoordination(coordination.keeper, broker_session_name="other")
    await killed.create(paths.broker(1), HOME.encode(), ephemeral=True)
    await other.create(paths.CONTROLLER, b"{}", ephemeral=True)
    await Registration(coordination, HOME).register()
    assert await coordination.exists(paths.CONTROLLER) is not None
    await killed.close()
    await other.close()


async def test_a_life_in_which_data_was_lost_is_followed_by_one_that_has_survived_nothing(coordination: EmbeddedCoordination) -> None:
    registration = Registration(coordination, BROKER)
    await registration.register()
    await coordination.create(paths.broker_epoch(1), str(registration.epoch).encode())
    running = asyncio.create_task(registration.run())
    former = registration.epoch
    registration.lost_data()
    assert registration.epoch == -1, "what it leads is not confirmed any more"
    await eventually(lambda: registration.epoch >= 0)
    assert registration.epoch > former
    data, stat = await coordination.get(paths.broker(1))
    announced = BrokerState.decode(1, data, epoch=stat.czxid)
    assert (announced.epoch, announced.previous_epoch) == (registration.epoch, -1)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_data_that_is_lost_while_the_broker_is_registered_anew_is_lost_to_the_new_life_too(
    coordination: EmbeddedCoordination, monkeypatch: pytest.MonkeyPatch
) -> None:
    registration = Registration(coordination, BROKER)
    await registration.register()
    await coordination.create(paths.broker_epoch(1), str(registration.epoch).encode())
    await coordination.delete(paths.broker(1))
    create = coordination.create

    async def create_late(*arguments: Any, **options: Any) -> str:
        monkeypatch.undo()
        registration.lost_data()
        return await create(*arguments, **options)

    monkeypatch.setattr(coordination, "create", create_late)
    await registration.register()
    data, stat = await coordination.get(paths.broker(1))
    assert (BrokerState.decode(1, data, epoch=stat.czxid).previous_epoch, registration.epoch) == (-1, stat.czxid)
