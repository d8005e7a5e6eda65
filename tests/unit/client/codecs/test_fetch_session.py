import pytest

from millstream.client.codecs import fetch_session
from millstream.client.codecs.fetch_session import MAX_EPOCH, FetchSession
from millstream.client.codecs.replica_fetch import ReplicaKey

A, B, C = keys = [(bytes([number]) * 16, number) for number in range(3)]


def session_with(*members: ReplicaKey, session_id: int = 7) -> FetchSession:
    """A session that the leader knows."""
    session = FetchSession()
    for key in members:
        session.add(key)
    session.next_request()
    session.answered(session_id)
    return session


def test_the_first_request_names_everything() -> None:
    session = FetchSession()
    for key in keys:
        session.add(key)
    assert session.next_request() == (0, 0, [A, B, C], [])


def test_a_request_within_a_session_names_only_what_changed() -> None:
    session = session_with(A, B, C)
    assert session.next_request() == (7, 1, [], [])
    session.answered(7)
    session.add(B)
    assert session.next_request() == (7, 2, [B], [])
    session.answered(7)
    assert session.next_request() == (7, 3, [], [])


def test_what_came_and_what_went_is_named_without_a_new_session() -> None:
    session = session_with(A, B)
    session.add(C)
    session.remove(A)
    assert session.next_request() == (7, 1, [C], [A])
    assert len(session) == 2


def test_what_went_and_came_back_is_not_forgotten() -> None:
    session = session_with(A, B)
    session.remove(A)
    session.add(A)
    assert session.next_request() == (7, 1, [A], [])


def test_what_is_not_fetched_cannot_be_removed() -> None:
    session = session_with(A)
    session.remove(B)
    assert session.next_request() == (7, 1, [], [])


def test_after_a_request_without_an_answer_everything_is_named_in_the_place_of_the_old_session() -> None:
    session = session_with(A, B)
    session.remove(A)
    session.next_request()
    session.reset()
    assert session.next_request() == (7, 0, [B], [])
    session.answered(9)
    assert session.next_request() == (9, 1, [], [])


def test_a_leader_without_room_for_a_session_gets_everything_each_time() -> None:
    session = session_with(A, B, session_id=0)
    assert session.next_request() == (0, 0, [A, B], [])
    session.answered(5)
    assert session.next_request() == (5, 1, [], [])


def test_the_epoch_of_a_session_begins_again_at_one() -> None:
    session = session_with(A)
    session._epoch = MAX_EPOCH
    assert session.next_request().session_epoch == MAX_EPOCH
    session.answered(7)
    assert session.next_request().session_epoch == 1


def test_without_a_session_what_moved_on_is_named_behind_the_others() -> None:
    """Or else the first partitions, if they are busy, would fill every answer."""
    session = session_with(A, B, C, session_id=0)
    session.add(A)
    assert session.next_request() == (0, 0, [B, C, A], [])


def test_of_many_new_partitions_each_request_names_some_and_what_moved_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_session, "NEW_PER_REQUEST", 1)
    session = FetchSession()
    for key in keys:
        session.add(key)
    assert (session.next_request(), session.is_complete) == ((0, 0, [A], []), False)
    session.answered(7)
    session.add(A)
    session.remove(B)
    assert (session.next_request(), session.is_complete) == ((7, 1, [A, C], []), True)
    session.answered(7)
    session.add(B)
    session.remove(A)
    session.add(A)
    assert session.next_request() == (7, 2, [A, B], []), "the leader knows the one, at another position"
    session.reset()
    assert session.next_request() == (7, 0, [C], []), "a new session begins with all of them"


def test_a_leader_without_room_gets_all_of_many_partitions_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_session, "NEW_PER_REQUEST", 1)
    session = session_with(A, B, C, session_id=0)
    for _ in range(2):
        assert session.next_request() == (0, 0, [A, B, C], [])
        assert session.is_complete
        session.answered(0)
