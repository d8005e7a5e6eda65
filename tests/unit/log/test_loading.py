import shutil

import pytest

from millstream.errors import CorruptMessage
from millstream.log.log import Log
from millstream.wire.batch import read_header
from tests.batches import encode_batch
from tests.unit.log.conftest import NOW_MS, OpenLog
from tests.unit.log.partition import append, append_many, flush, offset_of_max_timestamp, read_bytes, values

SMALL = {"segment_bytes": 1000, "index_interval_bytes": 200}


def files_of(log: Log) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in log.path.iterdir()}


def rolled(open_log: OpenLog, count: int = 30) -> Log:
    log = open_log(**SMALL)
    append_many(log, count)
    return log


def test_closed_log_opens_as_it_was(open_log: OpenLog) -> None:
    log = rolled(open_log)
    before = values(log)
    log.close()
    content = files_of(log)
    again = open_log(**SMALL)
    assert (again.log_end_offset, again.durable_end, again.epochs.latest) == (30, 30, 0)
    assert values(again) == before
    again.close()
    assert files_of(again) == content, "a log that did not change is left as it is"


def test_appends_go_on_after_a_restart_with_the_same_indexes_as_without(open_log: OpenLog) -> None:
    log = rolled(open_log, 45)
    log.close()
    straight = {name: content for name, content in files_of(log).items() if name.endswith(".log")}
    shutil.rmtree(log.path)
    for _ in range(3):
        log = open_log(**SMALL)
        append_many(log, 15)
        log.close()
    assert {name: content for name, content in files_of(log).items() if name.endswith(".log")} == straight


def test_after_a_crash_everything_that_is_intact_comes_back(open_log: OpenLog) -> None:
    log = rolled(open_log)
    before = values(log)
    log.abandon()
    again = open_log(is_clean=False, **SMALL)
    assert values(again) == before
    assert (again.durable_end, again.log_end_offset) == (0, 30)
    append_many(again, 5)
    assert len(values(again)) == 35


def test_later_segments_go_when_an_earlier_one_is_damaged(open_log: OpenLog) -> None:
    log = rolled(open_log)
    second = log.segment_base_offsets[1]
    log.abandon()
    path = log.path / f"{second:020d}.log"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    again = open_log(is_clean=False, recovery_point=second, **SMALL)
    assert again.segment_base_offsets == [0, second]
    assert len(values(again)) == again.log_end_offset == log.segment_base_offsets[2] - 1


def test_segment_that_lost_its_tail_at_a_batch_boundary_ends_the_log(open_log: OpenLog) -> None:
    log = rolled(open_log)
    first, second, third = log.segment_base_offsets[:3]
    log.abandon()
    path = log.path / f"{second:020d}.log"
    data = path.read_bytes()
    size = len(data) // (third - second)
    path.write_bytes(data[:-size])
    again = open_log(is_clean=False, **SMALL)
    assert again.segment_base_offsets == [first, second]
    assert len(values(again)) == again.log_end_offset == third - 1


def test_segments_below_the_recovery_point_are_not_read(open_log: OpenLog) -> None:
    log = rolled(open_log)
    flush(log)
    last = log.segment_base_offsets[-1]
    log.abandon()
    path = log.path / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    again = open_log(is_clean=False, recovery_point=last, **SMALL)
    assert again.log_end_offset == 30


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("damage", ["missing", "empty", "odd size"])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_missing_or_damaged_indexes_are_rebuilt(open_log: OpenLog, suffix: str, damage: str, *, is_clean: bool) -> None:
    log = rolled(open_log)
    before = values(log)
    log.close()
    content = files_of(log)
    for path in log.path.glob(f"*{suffix}"):
        if damage == "missing":
            path.unlink()
        else:
            path.write_bytes(b"" if damage == "empty" else path.read_bytes() + b"x")
    again = open_log(is_clean=is_clean, recovery_point=30, **SMALL)
    assert values(again) == before
    assert offset_of_max_timestamp(again) == (NOW_MS, 0, 0)
    active = f"{log.segment_base_offsets[-1]:020d}"
    rebuilt = files_of(again)
    names = [name for name in content if name.endswith(suffix) and (is_clean or not name.startswith(active))]
    assert [rebuilt[name] for name in names] == [content[name] for name in names]


def test_producers_come_back_after_a_clean_stop(open_log: OpenLog) -> None:
    log = open_log()
    for sequence in range(3):
        append(log, b"x", producer_id=1, producer_epoch=0, base_sequence=sequence)
    log.close()
    again = open_log()
    assert append(again, b"x", producer_id=1, producer_epoch=0, base_sequence=2).is_duplicate
    assert append(again, b"x", producer_id=1, producer_epoch=0, base_sequence=3).base_offset == 3


@pytest.mark.parametrize("lost", ["nothing", "all snapshots", "damaged"])
def test_producers_come_back_after_a_crash(open_log: OpenLog, lost: str) -> None:
    log = open_log(**SMALL)
    for sequence in range(30):
        append(log, b"x" * 100, producer_id=1, producer_epoch=0, base_sequence=sequence)
    flush(log)
    log.abandon()
    for path in log.path.glob("*.snapshot"):
        if lost == "all snapshots":
            path.unlink()
        elif lost == "damaged":
            path.write_bytes(path.read_bytes()[:-1])
    again = open_log(is_clean=False, recovery_point=20, **SMALL)
    for sequence in range(25, 30):
        assert append(again, b"x" * 100, producer_id=1, producer_epoch=0, base_sequence=sequence).is_duplicate
    assert append(again, b"x", producer_id=1, producer_epoch=0, base_sequence=30).base_offset == 30


def test_epochs_come_back_after_a_crash_with_and_without_their_file(open_log: OpenLog) -> None:
    log = open_log(**SMALL)
    for epoch in range(6):
        for _ in range(5):
            append(log, b"x" * 100, epoch=epoch)
        if epoch == 3:
            flush(log)
    ends = [log.end_offset_for_epoch(epoch) for epoch in range(6)]
    log.abandon()
    for content in (None, b"0\n9\n", b""):
        if content is not None:
            (log.path / "leader-epoch-checkpoint").write_bytes(content)
        again = open_log(is_clean=False, recovery_point=20, **SMALL)
        assert [again.end_offset_for_epoch(epoch) for epoch in range(6)] == ends
        again.abandon()


def test_start_offset_of_the_checkpoint_is_kept(open_log: OpenLog) -> None:
    log = rolled(open_log)
    log.close()
    again = open_log(log_start_offset=11, **SMALL)
    assert again.log_start_offset == 11
    assert len(values(again)) == 19


def test_offsets_of_deleted_records_are_not_given_away_again(open_log: OpenLog) -> None:
    log = open_log()
    append_many(log, 3)
    log.abandon()
    again = open_log(is_clean=False, log_start_offset=10)
    assert (again.log_start_offset, again.log_end_offset) == (10, 10)
    assert append(again, b"x").base_offset == 10


def test_leftovers_are_removed_and_foreign_files_are_left_alone(open_log: OpenLog) -> None:
    log = rolled(open_log)
    log.close()
    leftovers = [f"{0:020d}.log.deleted", f"{5:020d}.log.cleaned", "x.tmp", f"{777:020d}.index", f"{777:020d}.timeindex"]
    for name in [*leftovers, "notes.txt", f"{12345:020d}.snapshot"]:
        (log.path / name).write_bytes(b"x")
    again = open_log(**SMALL)
    names = {path.name for path in again.path.iterdir()}
    assert not names & set(leftovers)
    assert "notes.txt" in names
    assert f"{12345:020d}.snapshot" not in names
    assert len(values(again)) == 30


def test_clean_log_whose_tail_makes_no_sense_is_repaired_all_the_same(open_log: OpenLog) -> None:
    log = rolled(open_log)
    log.close()
    path = log.path / f"{log.segment_base_offsets[-1]:020d}.log"
    path.write_bytes(path.read_bytes()[:-3])
    again = open_log(**SMALL)
    assert len(values(again)) == again.log_end_offset == 29


def test_preallocated_segment_is_cut_to_its_records(open_log: OpenLog) -> None:
    log = open_log(preallocate=True, segment_bytes=5000)
    append_many(log, 3)
    log.abandon()
    again = open_log(is_clean=False, preallocate=True, segment_bytes=5000)
    assert len(values(again)) == again.log_end_offset == 3
    assert again.size_bytes == (again.path / f"{0:020d}.log").stat().st_size


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("emptied", ["", ".index", ".timeindex"])
def test_rotten_header_in_an_old_segment_fails_its_readers_only(open_log: OpenLog, emptied: str, *, is_clean: bool) -> None:
    log = rolled(open_log)
    second, last = log.segment_base_offsets[1], log.segment_base_offsets[-1]
    log.close()
    path = log.path / f"{0:020d}.log"
    path.write_bytes(b"\x7f" * 30 + path.read_bytes()[30:])
    if emptied:
        path.with_suffix(emptied).write_bytes(b"")
    for snapshot in log.path.glob("*.snapshot"):
        snapshot.unlink()
    again = open_log(is_clean=is_clean, recovery_point=last, **SMALL)
    assert again.log_end_offset == 30
    with pytest.raises(CorruptMessage):
        again.read(0, max_bytes=100, limit_offset=30)
    assert again.read(second, max_bytes=100, limit_offset=30) is not None
    assert again.directory.offline is None
    append(again, b"goes on")


def test_holes_that_compaction_left_are_fine(open_log: OpenLog) -> None:
    log = open_log(cleanup_policy="compact")
    for offset in (0, 7, 20):
        log.append_as_follower(encode_batch([b"v"], base_offset=offset, timestamp=1), now_ms=NOW_MS)
        log.roll(now_ms=NOW_MS)
    log.truncate_to(21)
    log.abandon()
    again = open_log(is_clean=False, cleanup_policy="compact")
    assert again.log_end_offset == 21


def test_offset_that_rotted_does_not_keep_missing_indexes_from_being_rebuilt(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=500, index_interval_bytes=50)
    append_many(log, 9)
    log.close()
    path = log.path / f"{0:020d}.log"
    content = bytearray(path.read_bytes())
    content[read_header(content).size_bytes] ^= 0x40  # the base offset of the second batch
    path.write_bytes(content)
    path.with_suffix(".index").unlink()
    again = open_log(segment_bytes=500, index_interval_bytes=50)
    assert again.log_end_offset == 9
    assert len(read_bytes(again, again.segment_base_offsets[1])) > 0
