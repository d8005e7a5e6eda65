from pathlib import Path

import pytest

from millstream.files import Files
from millstream.log import recovery
from millstream.log.config import LogConfig
from millstream.log.leader_epochs import LeaderEpochs
from millstream.log.producer_state import ProducerState
from millstream.log.recovery import batches, end_of, rebuild_indexes, recover_segment, replay_epochs, replay_producers
from millstream.log.segment import Segment
from tests.batches import encode_batch

CONFIG = LogConfig(index_interval_bytes=150)


def stamped(offset: int, *, size: int = 40, epoch: int = 0, **fields: int) -> bytes:
    return encode_batch([b"v" * size], keys=None, base_offset=offset, leader_epoch=epoch, timestamp=1000 + offset, **fields)


def segment_of(path: Path, data: bytes, *, base: int = 10) -> Segment:
    (path / f"{base:020d}.log").write_bytes(data)
    return Segment(Files(), path, base, config=CONFIG, created_ms=0, size_bytes=len(data))


def recover(segment: Segment) -> tuple[int, LeaderEpochs, ProducerState]:
    epochs, producers = LeaderEpochs(), ProducerState()
    return recover_segment(Files(), segment, epochs=epochs, producers=producers), epochs, producers


@pytest.mark.parametrize("chunk", [70, 110, 250, 1 << 20])
def test_batches_are_found_whatever_the_size_of_the_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    monkeypatch.setattr(recovery, "CHUNK_BYTES", chunk)
    made = [stamped(10 + number, size=number * 17) for number in range(20)]
    segment = segment_of(tmp_path, b"".join(made))
    assert [bytes(batch) for _, _, batch in batches(Files(), segment)] == made


def test_intact_segment_stays_and_its_indexes_are_rebuilt(tmp_path: Path) -> None:
    segment = segment_of(tmp_path, b"".join(stamped(10 + number, epoch=number // 5) for number in range(10)))
    size = segment.size_bytes
    end, epochs, _ = recover(segment)
    assert (end, segment.size_bytes, epochs.entries) == (20, size, [(0, 10), (1, 15)])
    assert [segment.find(offset) for offset in range(10, 21)] == [number * size // 10 for number in range(11)]
    assert len(segment.offset_index) > 2
    assert segment.largest == (1019, 19)


def test_segment_is_cut_at_the_first_bad_batch(tmp_path: Path) -> None:
    good = [stamped(10 + number) for number in range(4)]
    bad = bytearray(good[2])
    bad[-1] ^= 1
    segment = segment_of(tmp_path, good[0] + good[1] + bytes(bad) + good[3])
    end, _, _ = recover(segment)
    assert (end, segment.size_bytes) == (12, len(good[0]) * 2)
    assert segment.path().stat().st_size == segment.size_bytes


@pytest.mark.parametrize(
    "bad",
    [
        stamped(10),
        stamped(2**31 + 11),
        stamped(11, last_offset_delta=-1),
        stamped(11, magic=1),
        stamped(11, length=3),
        stamped(11, length=2**31 - 1),
        bytes(61),
        bytes(4096),
        b"\xff" * 200,
    ],
)
def test_nonsense_behind_a_good_batch_is_cut(tmp_path: Path, bad: bytes) -> None:
    segment = segment_of(tmp_path, stamped(10) + bad)
    end, _, _ = recover(segment)
    assert (end, segment.size_bytes) == (11, len(stamped(10)))


def test_producers_are_learned_from_the_headers(tmp_path: Path) -> None:
    made = [stamped(10 + number, producer_id=5, producer_epoch=1, base_sequence=number) for number in range(8)]
    segment = segment_of(tmp_path, b"".join(made))
    _, _, producers = recover(segment)
    entry = producers.get(5)
    assert entry is not None
    assert [batch.base_sequence for batch in entry.batches] == [3, 4, 5, 6, 7]
    part = ProducerState()
    replay_producers(Files(), segment, part, from_offset=12, to_offset=14)
    entry = part.get(5)
    assert entry is not None
    assert [batch.base_offset for batch in entry.batches] == [12, 13]


def test_indexes_are_rebuilt_without_touching_the_segment(tmp_path: Path) -> None:
    data = b"".join(stamped(10 + number) for number in range(10))
    damaged = data[:-1] + bytes([data[-1] ^ 1])
    segment = segment_of(tmp_path, damaged)
    rebuild_indexes(Files(), segment, ProducerState)
    assert segment.path().read_bytes() == damaged
    assert segment.path(".index").stat().st_size > 0
    assert segment.path(".timeindex").stat().st_size % 12 == 0


def test_epochs_are_learned_from_a_whole_segment(tmp_path: Path) -> None:
    segment = segment_of(tmp_path, stamped(10, epoch=2) + stamped(11, epoch=2) + stamped(12, epoch=5))
    epochs = LeaderEpochs()
    replay_epochs(Files(), segment, epochs)
    assert epochs.entries == [(2, 10), (5, 12)]


def test_end_of_a_segment_that_was_closed(tmp_path: Path) -> None:
    data = b"".join(stamped(10 + number) for number in range(10))
    segment = segment_of(tmp_path, data)
    rebuild_indexes(Files(), segment, ProducerState)
    assert end_of(Files(), segment) == 20
    assert end_of(Files(), segment_of(tmp_path, b"", base=70)) == 70
    assert end_of(Files(), segment_of(tmp_path, data + b"x")) is None
    assert end_of(Files(), segment_of(tmp_path, data[:5])) is None
