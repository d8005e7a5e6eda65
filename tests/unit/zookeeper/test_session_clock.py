from millstream.zookeeper.change import SessionOpened
from millstream.zookeeper.session_clock import SessionClock
from millstream.zookeeper.tree import Session


def session(session_id: int, timeout_ms: int) -> Session:
    return Session(SessionOpened(session_id, timeout_ms, b"", ""))


def ticking() -> SessionClock:
    clock = SessionClock(tick_ms=100)
    clock.start(now_ms=0)
    return clock


def test_a_session_that_is_not_heard_expires_after_its_timeout() -> None:
    clock = ticking()
    clock.touch(session(1, 250), now_ms=0)
    assert [clock.tick(now_ms=now) for now in (100, 200, 300)] == [[], [], [1]]


def test_a_session_that_is_heard_gets_its_full_timeout_again() -> None:
    clock = ticking()
    clock.touch(session(1, 250), now_ms=0)
    clock.tick(now_ms=100)
    clock.tick(now_ms=200)
    clock.touch(session(1, 250), now_ms=200)
    assert [clock.tick(now_ms=now) for now in (300, 400, 500)] == [[], [], [1]]


def test_a_stalled_server_does_not_blame_its_clients() -> None:
    clock = ticking()
    clock.touch(session(1, 250), now_ms=0)
    clock.tick(now_ms=100)
    assert clock.tick(now_ms=5_000) == []
    assert clock.tick(now_ms=5_100) == [1]


def test_time_before_the_first_tick_is_no_stall() -> None:
    clock = SessionClock(tick_ms=100)
    clock.touch(session(1, 250), now_ms=10_000)
    clock.start(now_ms=10_000)
    assert [clock.tick(now_ms=now) for now in (10_100, 10_200, 10_300)] == [[], [], [1]]


def test_a_session_without_a_timeout_never_expires() -> None:
    clock = ticking()
    clock.touch(session(1, 0), now_ms=0)
    assert not clock
    assert clock.tick(now_ms=100) == []


def test_a_session_that_ended_is_forgotten() -> None:
    clock = ticking()
    clock.touch(session(1, 50), now_ms=0)
    clock.forget(1)
    clock.forget(1)
    assert clock.tick(now_ms=100) == []
