from pathlib import Path

import pytest

from millstream.broker.handlers.fetch import fetch_sessions as module
from millstream.broker.handlers.fetch.fetch_sessions import FetchSession, FetchSessions
from millstream.errors import FetchSessionIdNotFound, FetchSessionTopicIdError, InvalidFetchSessionEpoch
from millstream.files import FileHandle
from millstream.log.region import FileRegion
from millstream.wire.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, PartitionFetched

REGION = FileRegion(FileHandle(-1, Path("none")), 0, 10)


def request(
    session_id: int = 0, epoch: int = -1, *, wanted: dict[str, dict[int, int]] | None = None, forgotten: dict[str, list[int]] | None = None
) -> FetchRequest:
    """A request for offsets by topic and partition."""
    topics = [
        FetchTopic(name, None, [FetchPartition(index, -1, offset, -1, -1, 1000) for index, offset in partitions.items()])
        for name, partitions in (wanted or {}).items()
    ]
    gone = [ForgottenTopic(name, None, indexes) for name, indexes in (forgotten or {}).items()]
    return FetchRequest(-1, 500, 1, 1 << 20, 0, session_id, epoch, topics, gone)


def content(session: FetchSession) -> list[tuple[object, int, int]]:
    return [(wanted.topic, wanted.index, wanted.fetch_offset) for wanted in session.due()]


@pytest.fixture
def sessions() -> FetchSessions:
    return FetchSessions(max_sessions=2, min_idle_ms=1000)


def begin(sessions: FetchSessions, asked: FetchRequest, *, version: int = 12, now_ms: int = 0) -> FetchSession:
    return sessions.begin(asked, version=version, now_ms=now_ms)


def test_without_a_session_nothing_is_remembered(sessions: FetchSessions) -> None:
    session = begin(sessions, request(wanted={"a": {0: 5}}))
    assert (session.session_id, content(session), len(sessions)) == (0, [("a", 0, 5)], 0)


def test_what_a_request_both_wants_and_forgets_is_forgotten(sessions: FetchSessions) -> None:
    first = begin(sessions, request(0, 0, wanted={"a": {0: 5, 1: 6}}))
    second = begin(sessions, request(first.session_id, 1, wanted={"a": {0: 7}, "b": {0: 1}}, forgotten={"a": [0], "b": [0]}))
    assert content(second) == [("a", 1, 6)]


def test_a_session_remembers_what_was_not_mentioned_again(sessions: FetchSessions) -> None:
    first = begin(sessions, request(0, 0, wanted={"a": {0: 5, 1: 6}, "b": {0: 7}}))
    assert first.session_id > 0
    assert not first.is_incremental
    second = begin(sessions, request(first.session_id, 1, wanted={"a": {1: 60}, "c": {3: 1}}, forgotten={"b": [0]}))
    assert second.is_incremental
    assert content(second) == [("a", 0, 5), ("a", 1, 60), ("c", 3, 1)]


def test_requests_out_of_turn_are_refused_and_the_session_goes_on(sessions: FetchSessions) -> None:
    session = begin(sessions, request(0, 0, wanted={"a": {0: 5}}))
    for epoch in (2, 3, 7):
        with pytest.raises(InvalidFetchSessionEpoch):
            begin(sessions, request(session.session_id, epoch))
    begin(sessions, request(session.session_id, 1))
    with pytest.raises(InvalidFetchSessionEpoch):
        begin(sessions, request(session.session_id, 1))
    with pytest.raises(FetchSessionIdNotFound):
        begin(sessions, request(session.session_id + 1, 1))
    with pytest.raises(FetchSessionIdNotFound):
        begin(sessions, request(0, 1))


def test_a_session_is_by_name_or_by_id_and_stays_so(sessions: FetchSessions) -> None:
    session = begin(sessions, request(0, 0, wanted={"a": {0: 5}}))
    with pytest.raises(FetchSessionTopicIdError):
        begin(sessions, request(session.session_id, 1), version=13)


def test_the_epoch_goes_round_to_one(sessions: FetchSessions) -> None:
    session = begin(sessions, request(0, 0, wanted={"a": {0: 5}}))
    session.next_epoch = module.MAX_EPOCH
    begin(sessions, request(session.session_id, module.MAX_EPOCH))
    assert session.next_epoch == 1


def test_a_session_ends_when_its_client_says_so_or_wants_nothing_more(sessions: FetchSessions) -> None:
    session = begin(sessions, request(0, 0, wanted={"a": {0: 5}}))
    begin(sessions, request(session.session_id, -1, wanted={"a": {0: 5}}))
    assert len(sessions) == 0
    session = begin(sessions, request(0, 0, wanted={"a": {0: 5}}))
    assert begin(sessions, request(session.session_id, 1, forgotten={"a": [0]})).session_id == 0
    assert (len(sessions), sessions._partitions) == (0, 0)


def test_a_new_start_replaces_the_old_session(sessions: FetchSessions) -> None:
    old = begin(sessions, request(0, 0, wanted={"a": {0: 5}}))
    new = begin(sessions, request(old.session_id, 0, wanted={"b": {0: 5}}))
    assert len(sessions) == 1
    assert content(new) == [("b", 0, 5)]


def test_a_full_cache_drops_the_session_unused_for_longest_if_that_is_long_enough(sessions: FetchSessions) -> None:
    wanted = {"a": {0: 5}}
    first = begin(sessions, request(0, 0, wanted=wanted), now_ms=0)
    second = begin(sessions, request(0, 0, wanted=wanted), now_ms=1)
    begin(sessions, request(first.session_id, 1), now_ms=500)
    assert begin(sessions, request(0, 0, wanted=wanted), now_ms=1000).session_id == 0
    assert begin(sessions, request(0, 0, wanted=wanted), now_ms=1001).session_id > 0
    with pytest.raises(FetchSessionIdNotFound):
        begin(sessions, request(second.session_id, 1), now_ms=1001)
    begin(sessions, request(first.session_id, 2), now_ms=1001)


def test_a_request_out_of_turn_does_not_count_as_use(sessions: FetchSessions) -> None:
    wanted = {"a": {0: 5}}
    first = begin(sessions, request(0, 0, wanted=wanted), now_ms=0)
    second = begin(sessions, request(0, 0, wanted=wanted), now_ms=1)
    with pytest.raises(InvalidFetchSessionEpoch):
        begin(sessions, request(first.session_id, 9), now_ms=900)
    assert begin(sessions, request(0, 0, wanted=wanted), now_ms=1000).session_id > 0
    begin(sessions, request(second.session_id, 1), now_ms=1000)


def test_without_slots_there_are_no_sessions() -> None:
    assert FetchSessions(max_sessions=0, min_idle_ms=0).begin(request(0, 0, wanted={"a": {0: 1}}), version=12, now_ms=0).session_id == 0


def test_all_sessions_together_remember_a_bounded_number_of_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_PARTITIONS", 10)
    sessions = FetchSessions(max_sessions=100, min_idle_ms=1)
    grown = begin(sessions, request(0, 0, wanted={"a": dict.fromkeys(range(6), 0)}))
    assert begin(sessions, request(0, 0, wanted={"a": dict.fromkeys(range(6), 0)})).session_id == 0
    with pytest.raises(FetchSessionIdNotFound):
        begin(sessions, request(grown.session_id, 1, wanted={"b": dict.fromkeys(range(6), 0)}))
    assert (len(sessions), sessions._partitions) == (0, 0)


def test_what_former_lives_of_followers_left_makes_room(sessions: FetchSessions, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that is restarted begins with a session of its own each time, and nobody ends the old one."""
    monkeypatch.setattr(module, "MAX_PARTITIONS", 3)
    for life in range(5):
        asked = request(0, 0, wanted={"a": {0: 1, 1: 1}})._replace(replica_id=2, replica_epoch=life)
        assert begin(sessions, asked, now_ms=1000 * life).session_id != 0
    assert len(sessions) == 1


def test_a_follower_that_fetches_stays_and_a_consumer_makes_room_for_it(sessions: FetchSessions) -> None:
    follower = request(0, 0, wanted={"a": {0: 1}})._replace(replica_id=2, replica_epoch=7)
    assert begin(sessions, follower, now_ms=10).session_id != 0
    assert begin(sessions, request(0, 0, wanted={"a": {0: 1}}), now_ms=20).session_id != 0
    assert begin(sessions, request(0, 0, wanted={"a": {0: 1}}), now_ms=30).session_id == 0
    assert begin(sessions, follower._replace(replica_id=3), now_ms=40).session_id != 0
    assert begin(sessions, request(0, 0, wanted={"a": {0: 1}}), now_ms=50).session_id == 0


def test_partitions_with_data_move_to_the_back(sessions: FetchSessions) -> None:
    session = begin(sessions, request(0, 0, wanted={"a": {0: 1, 1: 2, 2: 3}}))
    session.move_to_back(session.due()[:1])
    assert [wanted.index for wanted in session.due()] == [1, 2, 0]


def test_news_are_data_errors_watermarks_and_divergence_and_the_end_of_an_error(sessions: FetchSessions) -> None:
    (wanted,) = begin(sessions, request(0, 0, wanted={"a": {0: 1}})).due()
    quiet: PartitionFetched[FileRegion] = PartitionFetched(0, 0, 5, 5, 0)
    assert wanted.is_news(quiet)
    assert not wanted.is_news(quiet)
    assert wanted.is_news(quiet._replace(high_watermark=6))
    assert wanted.is_news(quiet._replace(high_watermark=6, log_start_offset=1))
    quiet = quiet._replace(high_watermark=6, log_start_offset=1)
    for _ in range(2):
        assert wanted.is_news(quiet._replace(records=REGION))
    assert not wanted.is_news(quiet)
    for _ in range(2):
        assert wanted.is_news(quiet._replace(error_code=3))
    assert wanted.is_news(quiet)
    assert not wanted.is_news(quiet)
    for _ in range(2):
        assert wanted.is_news(quiet._replace(diverging_epoch=(1, 2)))
