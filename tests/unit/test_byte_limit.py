from millstream.byte_limit import ByteLimit


def test_over_time_no_more_is_read_than_allowed() -> None:
    limit, now, read = ByteLimit(1_000_000, now=0.0), 0.0, 0
    while now < 60:
        now += limit.pause_s(now=now) + 0.001
        size = limit.largest_read(8 << 20)
        limit.spend(size, now=now)
        read += size
    assert 55_000_000 < read < 62_000_000


def test_an_idle_time_is_not_saved_up() -> None:
    limit = ByteLimit(1000, now=0.0)
    assert limit.pause_s(now=1000.0) == 0
    limit.spend(1250, now=1000.0)
    assert limit.pause_s(now=1000.0) == 1.0


def test_without_a_limit_nothing_waits() -> None:
    limit = ByteLimit(0, now=0.0)
    limit.spend(1 << 40, now=1.0)
    assert (limit.pause_s(now=1.0), limit.largest_read(77)) == (0.0, 77)


def test_no_pause_is_longer_than_it_may_be() -> None:
    limit = ByteLimit(1000, now=0.0, longest_pause_s=5.0)
    for _ in range(3):
        limit.spend(1_000_000, now=1.0)
    assert limit.pause_s(now=1.0) == 5.0
    assert limit.pause_s(now=6.0) == 0.0
