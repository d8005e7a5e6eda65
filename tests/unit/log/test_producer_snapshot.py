from pathlib import Path

import pytest

from millstream.files import Files
from millstream.log.producer_snapshot import load_latest, parse, render, snapshot_path, write_snapshot
from millstream.log.producer_state import ProducerState
from tests.unit.log.test_producer_state import header, written


def test_last_batch_of_each_producer_survives() -> None:
    state = written(0, 2, 4)
    state.record(header(9, count=1, producer=8, epoch=3, timestamp=77), base_offset=500)
    again = parse(render(state))
    one, two = again.get(7), again.get(8)
    assert one is not None
    assert two is not None
    assert (one.epoch, one.last_timestamp, one.batches) == (0, 1000, [(4, 5, 104, 105, 1000)])
    assert (two.epoch, two.last_timestamp, two.batches) == (3, 77, [(9, 9, 500, 500, 77)])
    assert again.check(header(6)) is None


def test_empty_snapshot_is_ten_bytes() -> None:
    assert len(render(ProducerState())) == 10
    assert len(parse(render(ProducerState()))) == 0


def test_sequence_that_wrapped_is_restored() -> None:
    state = ProducerState()
    state.record(header(2**31 - 1), base_offset=10)
    entry = parse(render(state)).get(7)
    assert entry is not None
    assert entry.batches[0][:2] == (2**31 - 1, 0)


def test_every_damage_is_noticed() -> None:
    content = render(written(0))
    for position in range(len(content)):
        damaged = bytearray(content)
        damaged[position] ^= 0x10
        with pytest.raises(ValueError, match="bytes"):
            parse(bytes(damaged))
        with pytest.raises(ValueError, match="bytes"):
            parse(content[:position])
    with pytest.raises(ValueError, match="bytes"):
        parse(content + b"\x00")


def test_newest_intact_snapshot_is_taken_and_damaged_ones_go(tmp_path: Path) -> None:
    for offset in (10, 20, 30, 40):
        write_snapshot(Files(), tmp_path, offset, producers=written(offset))
    snapshot_path(tmp_path, 30).write_bytes(b"torn")
    found = load_latest(Files(), tmp_path, [10, 20, 30, 40], at_most=35)
    assert found is not None
    offset, state = found
    entry = state.get(7)
    assert entry is not None
    assert (offset, entry.last_sequence) == (20, 21)
    assert not snapshot_path(tmp_path, 30).exists()
    assert load_latest(Files(), tmp_path, [10, 20, 40], at_most=5) is None


def test_shorter_snapshot_replaces_a_longer_one(tmp_path: Path) -> None:
    write_snapshot(Files(), tmp_path, 10, producers=written(0))
    path = write_snapshot(Files(), tmp_path, 10, producers=ProducerState())
    assert len(parse(path.read_bytes())) == 0
