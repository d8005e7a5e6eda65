"""A batch that was appended and is sent again after a restart is a duplicate, whatever the snapshot knows of it."""

from pathlib import Path

import pytest

from millstream.errors import OutOfOrderSequenceNumber
from millstream.log import older_batches
from millstream.log.log import AppendResult, Log
from millstream.log.producer_state import END_OF_PRODUCERS
from millstream.wire.batch import CONTROL
from tests.batches import encode_batch
from tests.unit.log.conftest import NOW_MS, OpenLog
from tests.unit.log.moving_log import TwoDisks, copy, finish, swap
from tests.unit.log.partition import append


def send(log: Log, number: int, *, producer: int = 7, epoch: int = 0, size: int = 100) -> AppendResult:
    """The batch with this number of a producer; each has two records."""
    value = str(number).encode().ljust(size, b".")
    return append(log, value, value, producer_id=producer, producer_epoch=epoch, base_sequence=2 * number)


def again(log: Log, number: int, **fields: int) -> int:
    """The offset of a batch that is sent once more."""
    end = log.log_end_offset
    result = send(log, number, **fields)
    assert result.is_duplicate
    assert log.log_end_offset == end
    return result.base_offset


def test_five_batches_in_flight_at_a_clean_stop_are_known_afterwards(open_log: OpenLog) -> None:
    log = open_log()
    for number in range(8):
        send(log, number)
    log.close()
    log = open_log()
    assert [again(log, number) for number in (3, 4, 5, 6, 7)] == [6, 8, 10, 12, 14]
    with pytest.raises(OutOfOrderSequenceNumber):
        send(log, 2)
    assert not send(log, 8).is_duplicate


@pytest.mark.parametrize("rolled_after", range(1, 8))
def test_so_they_are_after_a_kill_right_after_a_segment_was_rolled(open_log: OpenLog, rolled_after: int) -> None:
    log = open_log()
    for number in range(8):
        if number == rolled_after:
            log.roll(now_ms=NOW_MS)
        send(log, number)
    log.abandon()
    log = open_log(is_clean=False, recovery_point=2 * rolled_after + 1)
    assert [again(log, number) for number in (3, 4, 5, 6, 7)] == [6, 8, 10, 12, 14]


def test_and_after_the_log_was_cut(open_log: OpenLog) -> None:
    log = open_log()
    for number in range(8):
        send(log, number)
    log.roll(now_ms=NOW_MS)
    send(log, 8)
    log.truncate_to(16)
    assert [again(log, number) for number in (3, 4, 5, 6, 7)] == [6, 8, 10, 12, 14]


def test_and_after_the_log_has_moved_to_another_disk(tmp_path: Path) -> None:
    disks = TwoDisks(tmp_path)
    for number in range(8):
        send(disks.log, number)
    disks.manager.close()
    disks = TwoDisks(tmp_path)
    move = disks.begin()
    copy(move)
    assert swap(move)
    disks.manager.remove_directory(finish(move))
    assert [again(disks.log, number) for number in (3, 4, 5, 6, 7)] == [6, 8, 10, 12, 14]
    disks.manager.close()


def test_they_are_found_among_those_of_others_and_over_several_segments(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=2000, index_interval_bytes=300)
    offsets = []
    for number in range(20):
        offsets.append(send(log, number).base_offset)
        for other in range(1, 6):
            send(log, number, producer=other)
    assert len(log.segments) > 8
    log.close()
    log = open_log(segment_bytes=2000, index_interval_bytes=300)
    assert [again(log, number) for number in range(15, 20)] == offsets[15:]
    assert again(log, 18, producer=3) > offsets[18]


def test_what_was_appended_since_the_start_counts_too(open_log: OpenLog) -> None:
    log = open_log()
    for number in range(5):
        send(log, number)
    log.close()
    log = open_log()
    send(log, 5)
    send(log, 6)
    assert [again(log, number) for number in (2, 3, 4, 5, 6)] == [4, 6, 8, 10, 12]


def test_an_older_epoch_or_another_life_of_the_producer_is_none_of_them(open_log: OpenLog) -> None:
    log = open_log()
    send(log, 0)
    send(log, 1)
    send(log, 0, epoch=1)
    log.close()
    log = open_log()
    assert again(log, 0, epoch=1) == 4
    send(log, 1, epoch=1)
    log.producers.clear()  # it was silent for long, and starts anywhere
    send(log, 9, epoch=1)
    log.close()
    log = open_log()
    with pytest.raises(OutOfOrderSequenceNumber):
        send(log, 1, epoch=1)
    assert again(log, 9, epoch=1) == 8


def test_producers_of_another_cluster_are_none_of_them(open_log: OpenLog) -> None:
    log = open_log()
    send(log, 0)
    end = encode_batch([b""], attributes=CONTROL, producer_id=END_OF_PRODUCERS, producer_epoch=0, base_sequence=-1, timestamp=NOW_MS)
    log.append_as_leader(end, leader_epoch=0, now_ms=NOW_MS, is_own=True)
    send(log, 1)
    log.close()
    log = open_log()
    with pytest.raises(OutOfOrderSequenceNumber):
        send(log, 0)


@pytest.mark.parametrize(("limit", "value"), [("MOST_BYTES", 2000), ("MOST_BATCHES", 13)])
def test_nobody_looks_far(open_log: OpenLog, monkeypatch: pytest.MonkeyPatch, limit: str, value: int) -> None:
    monkeypatch.setattr(older_batches, limit, value)
    log = open_log(index_interval_bytes=100)
    for number in range(3):
        send(log, number)
    for number in range(12):
        send(log, number, producer=8)
    send(log, 3)
    log.close()
    log = open_log(index_interval_bytes=100)
    assert again(log, 3) == 30
    known = 0
    for number in (0, 1, 2):
        try:
            again(log, number)
        except OutOfOrderSequenceNumber:
            assert known == 0
        else:
            known += 1
    assert known < 3


def test_files_that_cannot_be_read_are_looked_at_again_later(open_log: OpenLog) -> None:
    log = open_log()
    for number in range(3):
        send(log, number)
    log.roll(now_ms=NOW_MS)
    log.close()
    log = open_log()
    sealed = log.segments.first.path()
    hidden = sealed.with_suffix(".hidden")
    sealed.rename(hidden)
    with pytest.raises(OutOfOrderSequenceNumber):
        send(log, 1)
    hidden.rename(sealed)
    assert again(log, 1) == 2
