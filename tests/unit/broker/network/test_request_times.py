import pytest

from millstream.broker.network import request_times
from millstream.broker.network.request_times import FOLLOWER_FETCH, TOTAL_US, RequestTimes, Seldom, request_name
from millstream.broker.network.session import Session
from millstream.wire.api import ApiKey

MS = 1_000_000


class Client:
    def __init__(self) -> None:
        self.peer = "peer:1"
        self.session = Session("PLAINTEXT", "peer", client_id="it")


class Clock:
    now_ns = 10**12

    def __call__(self) -> int:
        return self.now_ns


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    own = Clock()
    monkeypatch.setattr(request_times, "monotonic_ns", own)
    return own


def test_requests_are_counted_by_the_bit_length_of_their_time() -> None:
    times = RequestTimes()
    times.note(ApiKey.PRODUCE, 300_000, 5, Client())
    times.note(ApiKey.PRODUCE, 0, 1, Client())
    times.note(ApiKey.PRODUCE, 3600 * 1000 * MS, 1, Client())
    buckets = times.by_key[ApiKey.PRODUCE]
    assert {bits: count for bits, count in enumerate(buckets[:TOTAL_US]) if count} == {9: 5, 0: 1, 32: 1}
    assert buckets[TOTAL_US] == 5 * 300 + 3600 * 1_000_000


def test_slow_request_is_a_line_with_its_client(caplog: pytest.LogCaptureFixture, clock: Clock) -> None:
    times = RequestTimes(slow_ms=100)
    times.note(ApiKey.METADATA, 100 * MS, 1, Client())
    assert caplog.messages == []
    times.note(ApiKey.METADATA, 101 * MS, 1, Client())
    assert caplog.messages == ["slow request: Metadata from peer:1, client id 'it' took 101 ms"]


def test_many_slow_requests_are_few_lines(caplog: pytest.LogCaptureFixture, clock: Clock) -> None:
    times = RequestTimes(slow_ms=1)
    for _ in range(1000):
        times.note(ApiKey.PRODUCE, 20 * MS, 2, Client(), has_waited=True)
        clock.now_ns += MS
    clock.now_ns += 1000 * MS
    times.note(ApiKey.PRODUCE, 20 * MS, 2, Client())
    assert [message.rpartition("ms")[2] for message in caplog.messages] == ["", " (1998 more since the last such line)"]


@pytest.mark.parametrize("key", [ApiKey.FETCH, FOLLOWER_FETCH, ApiKey.JOIN_GROUP])
def test_waiting_for_records_or_members_is_not_slow(key: int, caplog: pytest.LogCaptureFixture, clock: Clock) -> None:
    times = RequestTimes(slow_ms=1)
    times.note(key, 500 * MS, 1, Client(), has_waited=True)
    assert caplog.messages == []
    times.note(key, 500 * MS, 1, Client())
    assert len(caplog.messages) == 1


def test_nothing_is_slow_without_a_threshold(caplog: pytest.LogCaptureFixture) -> None:
    RequestTimes().note(ApiKey.PRODUCE, 10**15, 1, Client())
    assert caplog.messages == []


def test_seldom_lines_say_what_was_left_out(clock: Clock) -> None:
    seldom = Seldom()
    assert [seldom.ending(), seldom.ending(3), seldom.ending()] == ["", None, None]
    clock.now_ns += 1000 * MS
    assert [seldom.ending(), seldom.ending()] == [" (4 more since the last such line)", None]


def test_requests_have_the_names_of_kafkas_metrics() -> None:
    assert [request_name(key) for key in (ApiKey.PRODUCE, ApiKey.FETCH, FOLLOWER_FETCH, ApiKey.OFFSET_COMMIT)] == [
        "Produce",
        "FetchConsumer",
        "FetchFollower",
        "OffsetCommit",
    ]
