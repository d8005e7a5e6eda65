from millstream.cluster.watermark import Watermark
from millstream.errors import KafkaError, NotLeaderOrFollower


class Waiter:
    """Notes what it is called with."""

    def __init__(self) -> None:
        self.calls: list[KafkaError | None] = []

    def __call__(self, error: KafkaError | None) -> None:
        self.calls.append(error)


def test_only_those_whose_number_was_reached_are_woken_and_only_once() -> None:
    watermark, near, far = Watermark(0), Waiter(), Waiter()
    watermark.wait_for(2, near, token="near")
    watermark.wait_for(5, far, token="far")
    watermark.advance(3)
    watermark.advance(4)
    assert (near.calls, far.calls) == ([None], [])
    watermark.advance(9)
    assert (near.calls, far.calls) == ([None], [None])
    assert not watermark.is_awaited


def test_a_number_that_was_reached_already_is_not_waited_for() -> None:
    watermark, waiter = Watermark(5), Waiter()
    watermark.wait_for(5, waiter, token=1)
    assert waiter.calls == [None]
    assert not watermark.is_awaited


def test_it_never_goes_back_by_advancing() -> None:
    watermark = Watermark(5)
    watermark.advance(4)
    assert watermark.value == 5


def test_a_cancelled_wait_is_never_woken() -> None:
    watermark, waiter = Watermark(0), Waiter()
    watermark.wait_for(1, waiter, token=1)
    watermark.cancel(1)
    watermark.cancel(1)
    watermark.advance(10)
    assert waiter.calls == []


def test_a_failure_wakes_all_with_the_error() -> None:
    watermark, one, other = Watermark(0), Waiter(), Waiter()
    watermark.wait_for(1, one, token=1)
    watermark.wait_for(100, other, token=2)
    error = NotLeaderOrFollower("moved")
    watermark.fail(error)
    assert (one.calls, other.calls) == ([error], [error])
    assert not watermark.is_awaited


def test_a_waiter_may_cancel_another_one_that_is_due_in_the_same_moment() -> None:
    watermark, other = Watermark(0), Waiter()
    watermark.wait_for(1, lambda _error: watermark.cancel("other"), token="first")
    watermark.wait_for(1, other, token="other")
    watermark.advance(1)
    assert other.calls == []


def test_a_waiter_may_wait_again_from_inside_its_call() -> None:
    watermark, again = Watermark(0), Waiter()
    watermark.wait_for(1, lambda _error: watermark.wait_for(2, again, token="me"), token="me")
    watermark.advance(1)
    assert again.calls == []
    watermark.advance(2)
    assert again.calls == [None]
