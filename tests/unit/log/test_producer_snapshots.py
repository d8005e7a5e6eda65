from pathlib import Path

from millstream.files import Files
from millstream.log.config import LogConfig
from millstream.log.producer_snapshots import ProducerSnapshots
from millstream.log.producer_state import ProducerState
from millstream.log.segment import Segment
from millstream.log.segments import Segments
from tests.unit.log.test_producer_state import written


def segments_at(path: Path, *bases: int) -> Segments:
    segments = Segments()
    for base in bases:
        segments.add(Segment(Files(), path, base, config=LogConfig(), created_ms=0))
    return segments


def present(path: Path) -> list[int]:
    return sorted(int(found.stem) for found in path.glob("*.snapshot"))


def test_snapshot_inside_a_segment_goes_when_the_next_is_written(tmp_path: Path) -> None:
    snapshots = ProducerSnapshots(Files(), tmp_path, [])
    for offset in (10, 15, 20):
        snapshots.write(offset, ProducerState(), segments=segments_at(tmp_path, 0, 10))
    assert present(tmp_path) == [10, 20]
    assert snapshots.offsets == [10, 20]


def test_unsynced_files_are_returned_once(tmp_path: Path) -> None:
    snapshots = ProducerSnapshots(Files(), tmp_path, [])
    snapshots.write(10, ProducerState(), segments=segments_at(tmp_path, 0))
    assert [path.name for path in snapshots.take_unsynced()] == ["00000000000000000010.snapshot"]
    assert snapshots.take_unsynced() == []


def test_snapshots_go_with_the_segments_at_both_ends(tmp_path: Path) -> None:
    snapshots = ProducerSnapshots(Files(), tmp_path, [])
    for offset in (10, 20, 30):
        snapshots.write(offset, ProducerState(), segments=segments_at(tmp_path, 10, 20, 30))
    snapshots.remove_above(20)
    snapshots.remove_below(20)
    assert present(tmp_path) == snapshots.offsets == [20]


def test_after_a_start_those_of_segments_and_the_newest_stay(tmp_path: Path) -> None:
    for offset in (5, 10, 14, 16, 99):
        (tmp_path / f"{offset:020d}.snapshot").touch()
    snapshots = ProducerSnapshots(Files(), tmp_path, [99, 5, 10, 14, 16])
    snapshots.remove_strays(segments_at(tmp_path, 0, 10), end=20)
    assert present(tmp_path) == snapshots.offsets == [10, 16]


def test_newest_intact_snapshot_is_taken_and_damaged_ones_go(tmp_path: Path) -> None:
    snapshots = ProducerSnapshots(Files(), tmp_path, [])
    for offset in (10, 20, 30, 40):
        snapshots.write(offset, written(offset), segments=segments_at(tmp_path, 10, 20, 30, 40))
    damaged = tmp_path / f"{30:020d}.snapshot"
    damaged.write_bytes(b"torn")
    found = snapshots.load_latest(at_most=35)
    assert found is not None
    offset, state = found
    entry = state.get(7)
    assert entry is not None
    assert (offset, entry.last_sequence) == (20, 21)
    assert not damaged.exists()
    assert snapshots.load_latest(at_most=5) is None


def test_shorter_snapshot_replaces_a_longer_one(tmp_path: Path) -> None:
    snapshots = ProducerSnapshots(Files(), tmp_path, [])
    for state in (written(0), ProducerState()):
        snapshots.write(10, state, segments=segments_at(tmp_path, 0))
    assert len(ProducerState.parse((tmp_path / f"{10:020d}.snapshot").read_bytes())) == 0
