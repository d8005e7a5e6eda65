"""How long a leader may believe in itself."""

from millstream.cluster.lease import Lease


def test_it_is_counted_from_the_sending_of_the_last_answered_request() -> None:
    lease = Lease(6)
    assert not lease.is_held(0)
    lease.answered(10)
    assert lease.is_held(15.9)
    assert not lease.is_held(16)
    lease.answered(12)
    lease.answered(11)
    assert lease.is_held(17.9)
    lease.ended()
    assert not lease.is_held(12)
