"""What is kept of transactions that end in time, and when those that do not are overdue."""

import pytest

from millstream.transactions.deadlines import Deadlines
from millstream.transactions.settings import TransactionSettings
from millstream.transactions.transaction import State, Transaction

MINUTE_MS = 60_000


@pytest.fixture
def deadlines() -> Deadlines:
    made = Deadlines(TransactionSettings())
    made.start(0)
    return made


def begun(start_ms: int, *, timeout_ms: int = 15 * MINUTE_MS, name: str = "t") -> Transaction:
    return Transaction(name, 1000, 0, timeout_ms, State.ONGOING, start_ms=start_ms)


def test_transactions_that_end_in_time_leave_one_deadline_behind(deadlines: Deadlines) -> None:
    """A producer with a time-out of 15 minutes and a thousand transactions a second would leave a million of them."""
    for start_ms in range(10_000):
        deadlines.began(begun(start_ms))
    assert len(deadlines) == 1
    due_ms = deadlines.next_ms(has_ids=False)
    assert due_ms is not None
    assert deadlines.take_due(due_ms) == ["t"]
    assert deadlines.next_ms(has_ids=False) is None


def test_the_deadline_of_an_earlier_transaction_gives_way_to_that_of_the_present_one(deadlines: Deadlines) -> None:
    deadlines.began(begun(0))
    present = begun(14 * MINUTE_MS)
    deadlines.began(present)
    early_ms = deadlines.next_ms(has_ids=False)
    assert early_ms is not None
    assert deadlines.take_due(early_ms) == ["t"]
    assert not deadlines.is_overdue(present, early_ms)
    deadlines.began(present)
    due_ms = deadlines.next_ms(has_ids=False)
    assert due_ms == 29 * MINUTE_MS + 10_000  # looked for every ten seconds
    assert deadlines.take_due(due_ms - 1) == []
    assert deadlines.take_due(due_ms) == ["t"]
    assert deadlines.is_overdue(present, due_ms)


def test_a_shorter_time_out_is_not_kept_waiting_by_a_longer_one_before_it(deadlines: Deadlines) -> None:
    deadlines.began(begun(0))
    deadlines.began(begun(0, name="other"))
    deadlines.began(begun(1_000, timeout_ms=5_000))
    assert deadlines.take_due(9_999) == []
    assert deadlines.take_due(10_000) == ["t"]
    assert deadlines.take_due(16 * MINUTE_MS) == ["other"]
    assert len(deadlines) == 0
