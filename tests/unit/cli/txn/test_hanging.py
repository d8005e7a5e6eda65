"""Which transactions hang: those that are open in a log, and under way at no coordinator."""

from millstream.cli.txn.hanging import candidates, hanging
from millstream.client.admin.transaction_admin import KnownTransaction, OpenInLog
from millstream.topic_partition import TopicPartition

PLACE = TopicPartition("clicks", 0)
OPEN = OpenInLog(PLACE, 7, epoch=3, coordinator_epoch=0, start_offset=10, last_timestamp_ms=1_000)


def known(state: str = "Ongoing", *, epoch: int = 3, places: tuple[TopicPartition, ...] = (PLACE,)) -> KnownTransaction:
    return KnownTransaction("copier", state, 1, 7, epoch, 60_000, 500, places)


def test_only_what_is_silent_for_long_may_hang() -> None:
    assert candidates([OPEN], now_ms=61_000, longer_than_ms=60_000) == []
    assert candidates([OPEN], now_ms=61_001, longer_than_ms=60_000) == [OPEN]


def test_what_its_coordinator_has_under_way_does_not_hang() -> None:
    for state in ("Ongoing", "PrepareCommit", "PrepareAbort"):
        assert hanging([OPEN], {7: known(state)}) == []


def test_what_no_coordinator_will_end_hangs() -> None:
    assert hanging([OPEN], {}) == [OPEN]
    assert hanging([OPEN], {8: known()}) == [OPEN]
    assert hanging([OPEN], {7: known("CompleteCommit")}) == [OPEN]
    assert hanging([OPEN], {7: known("Empty")}) == [OPEN]
    assert hanging([OPEN], {7: known(places=(TopicPartition("clicks", 1),))}) == [OPEN]
    assert hanging([OPEN], {7: known(epoch=2)}) == [OPEN]
