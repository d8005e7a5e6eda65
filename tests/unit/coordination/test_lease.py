"""How long a session is certainly alive after the last answered request."""

from millstream.coordination.lease import RENEWALS, Lease

TIMEOUT_MS = 8_000


def test_a_lease_counts_from_the_sending_of_the_last_answered_request() -> None:
    lease = Lease(TIMEOUT_MS)
    assert not lease.is_held(0)
    lease.answered(10_000)
    assert lease.is_held(14_999)
    assert not lease.is_held(15_000)
    lease.answered(12_000)
    lease.answered(11_000)
    assert lease.is_held(16_999)
    lease.ended()
    assert not lease.is_held(12_000)


def test_a_lease_ends_before_a_leader_that_missed_the_last_reports_ends_the_session() -> None:
    # The worst of an ensemble: a tick of half the timeout, and our server is cut off from its leader right after the last `sync`.
    tick, interval = TIMEOUT_MS / 2, TIMEOUT_MS / RENEWALS
    sync_sent = 100_000.0
    last_report = sync_sent - tick / 2
    last_heard_of_then = last_report - interval
    lease = Lease(TIMEOUT_MS)
    lease.answered(sync_sent)
    assert not lease.is_held(last_heard_of_then + TIMEOUT_MS)


def test_a_lease_outlasts_several_renewals_that_get_no_answer() -> None:
    lease = Lease(TIMEOUT_MS)
    lease.answered(0)
    assert lease.is_held(4 * TIMEOUT_MS / RENEWALS)
