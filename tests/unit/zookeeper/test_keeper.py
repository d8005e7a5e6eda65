from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from millstream.files import Files
from millstream.zookeeper import journal as journal_module
from millstream.zookeeper.change import SessionOpened
from millstream.zookeeper.keeper import SessionTracker, TreeKeeper
from millstream.zookeeper.operations import Create, Delete, SetData
from millstream.zookeeper.tree import Session
from tests.manual_clock import ManualClock


@pytest.fixture
async def keeper(tmp_path: Path, clock: ManualClock) -> AsyncIterator[TreeKeeper]:
    keeper = await TreeKeeper.open(tmp_path, files=Files(), clock=clock)
    yield keeper
    await keeper.close()


def pass_time(keeper: TreeKeeper, clock: ManualClock, milliseconds: int) -> None:
    """Let time pass as it does while ticks come in time."""
    for _ in range(0, milliseconds, 100):
        clock.advance(100)
        keeper.tick()


async def test_a_session_that_is_not_heard_ends_with_its_ephemeral_znodes(keeper: TreeKeeper, clock: ManualClock) -> None:
    expired: list[int] = []
    keeper.on_expiry(expired.append)
    session = keeper.open_session(1_000)
    keeper.execute([Create("/e", ephemeral=True)], session_id=session.session_id)
    pass_time(keeper, clock, 900)
    keeper.touch(session)
    pass_time(keeper, clock, 900)
    assert "/e" in keeper.tree.nodes
    pass_time(keeper, clock, 200)
    assert "/e" not in keeper.tree.nodes
    assert expired == [session.session_id]


async def test_a_stall_of_the_server_ends_no_session(keeper: TreeKeeper, clock: ManualClock) -> None:
    session = keeper.open_session(1_000)
    pass_time(keeper, clock, 500)
    clock.advance(60_000)
    keeper.tick()
    assert session.session_id in keeper.tree.sessions


async def test_sessions_come_back_with_a_full_timeout(keeper: TreeKeeper, tmp_path: Path, clock: ManualClock) -> None:
    session = keeper.open_session(1_000)
    keeper.execute([Create("/e", ephemeral=True)], session_id=session.session_id)
    pass_time(keeper, clock, 900)
    await keeper.close()
    clock.advance(60_000)
    again = await TreeKeeper.open(tmp_path, files=Files(), clock=clock)
    assert again.tree.sessions[session.session_id].password == session.password
    pass_time(again, clock, 900)
    assert "/e" in again.tree.nodes
    pass_time(again, clock, 200)
    assert "/e" not in again.tree.nodes
    await again.close()


async def test_each_life_numbers_its_transactions_in_a_new_epoch(tmp_path: Path, clock: ManualClock) -> None:
    seen = [0]
    for life in range(1, 4):
        keeper = await TreeKeeper.open(tmp_path, files=Files(), clock=clock)
        keeper.execute([Create(f"/life-{life}")], session_id=0)
        assert keeper.tree.last_zxid >> 32 == life
        assert keeper.tree.last_zxid > seen[-1]
        seen.append(keeper.tree.last_zxid)
        await keeper.close()


async def test_a_named_session_never_times_out_and_ends_its_earlier_life(keeper: TreeKeeper, clock: ManualClock) -> None:
    first = keeper.open_session(0, name="broker-1")
    other = keeper.open_session(0, name="broker-2")
    keeper.execute([Create("/broker", ephemeral=True)], session_id=first.session_id)
    pass_time(keeper, clock, 10_000)
    assert "/broker" in keeper.tree.nodes
    second = keeper.open_session(0, name="broker-1")
    assert "/broker" not in keeper.tree.nodes
    assert keeper.tree.sessions.keys() == {other.session_id, second.session_id}


async def test_sessions_of_one_moment_have_different_ids(keeper: TreeKeeper) -> None:
    assert len({keeper.open_session(1_000).session_id for _ in range(10)}) == 10


async def test_empty_containers_go_after_a_while(keeper: TreeKeeper, clock: ManualClock) -> None:
    keeper.execute([Create("/c", container=True), Create("/c/child")], session_id=0)
    keeper.execute([Delete("/c/child")], session_id=0)
    pass_time(keeper, clock, 60_100)
    assert "/c" not in keeper.tree.nodes


async def test_the_journal_stays_short_however_much_is_written(
    keeper: TreeKeeper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: ManualClock
) -> None:
    monkeypatch.setattr(journal_module, "_SNAPSHOT_AFTER_BYTES", 5_000)
    files = Files()
    keeper.execute([Create("/counter")], session_id=0)
    for number in range(1_000):
        keeper.execute([SetData("/counter", str(number).encode())], session_id=0)
        if number % 100 == 0:
            await keeper.durability.wait()
    await keeper.close()
    assert sum(len(files.read_bytes(tmp_path / name)) for name in files.list_directory(tmp_path)) < 20_000
    again = await TreeKeeper.open(tmp_path, files=files, clock=clock)
    assert again.tree.nodes["/counter"].data == b"999"
    await again.close()


def session(session_id: int, timeout_ms: int) -> Session:
    return Session(SessionOpened(session_id, timeout_ms, b"", ""))


def ticking() -> SessionTracker:
    tracker = SessionTracker(tick_ms=100)
    tracker.start(now_ms=0)
    return tracker


def test_a_session_that_is_not_heard_expires_after_its_timeout() -> None:
    tracker = ticking()
    tracker.touch(session(1, 250), now_ms=0)
    assert [tracker.tick(now_ms=now) for now in (100, 200, 300)] == [[], [], [1]]


def test_a_session_that_is_heard_gets_its_full_timeout_again() -> None:
    tracker = ticking()
    tracker.touch(session(1, 250), now_ms=0)
    tracker.tick(now_ms=100)
    tracker.tick(now_ms=200)
    tracker.touch(session(1, 250), now_ms=200)
    assert [tracker.tick(now_ms=now) for now in (300, 400, 500)] == [[], [], [1]]


def test_a_stalled_server_does_not_blame_its_clients() -> None:
    tracker = ticking()
    tracker.touch(session(1, 250), now_ms=0)
    tracker.tick(now_ms=100)
    assert tracker.tick(now_ms=5_000) == []
    assert tracker.tick(now_ms=5_100) == [1]


def test_time_before_the_first_tick_is_no_stall() -> None:
    tracker = SessionTracker(tick_ms=100)
    tracker.touch(session(1, 250), now_ms=10_000)
    tracker.start(now_ms=10_000)
    assert [tracker.tick(now_ms=now) for now in (10_100, 10_200, 10_300)] == [[], [], [1]]


def test_a_session_without_a_timeout_never_expires() -> None:
    tracker = ticking()
    tracker.touch(session(1, 0), now_ms=0)
    assert not tracker
    assert tracker.tick(now_ms=100) == []


def test_a_session_that_ended_is_forgotten() -> None:
    tracker = ticking()
    tracker.touch(session(1, 50), now_ms=0)
    tracker.forget(1)
    tracker.forget(1)
    assert tracker.tick(now_ms=100) == []
