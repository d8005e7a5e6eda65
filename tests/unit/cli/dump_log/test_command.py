from pathlib import Path

import pytest

from millstream.log.offset_index import ENTRY as OFFSET_ENTRY
from millstream.log.producer_state import ProducerState
from millstream.log.time_index import ENTRY as TIME_ENTRY
from millstream.wire.compression import Codec
from millstream.wire.records import ProducerStamp, Record, encode_batch
from tests.unit.cli.conftest import Millstream

TIME = 1_700_000_000_000
FIRST = encode_batch([Record(0, TIME, b"k", b"v", (("trace", b"1"), ("trace", None))), Record(1, TIME, None, b"\xff")], codec=Codec.ZSTD)
SECOND = encode_batch([Record(2, TIME + 1, b"k", None)], producer=ProducerStamp(7, 0, 5), leader_epoch=3)


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """A directory with a segment of two batches, its indexes and a snapshot."""
    directory = tmp_path / "clicks-0"
    directory.mkdir()
    name = directory / f"{0:020d}"
    name.with_suffix(".log").write_bytes(FIRST + SECOND)
    name.with_suffix(".index").write_bytes(OFFSET_ENTRY.pack(2, len(FIRST)))
    name.with_suffix(".timeindex").write_bytes(TIME_ENTRY.pack(TIME + 1, 2))
    (directory / f"{3:020d}.snapshot").write_bytes(ProducerState().render())
    (directory / "leader-epoch-checkpoint").write_text("0\n0\n")
    return directory


def test_a_sound_partition_is_shown_whole(millstream: Millstream, partition: Path) -> None:
    outcome = millstream("dump-log", str(partition))
    assert outcome.code == 0
    assert outcome.err == ""
    assert [line.rpartition(".")[2] for line in outcome.out.splitlines() if not line.startswith(" ")] == [
        "index",
        "log",
        "timeindex",
        "snapshot",
    ]
    assert "DAMAGED" not in outcome.out


def test_batches_are_shown_from_their_headers(millstream: Millstream, partition: Path) -> None:
    first, second = millstream("dump-log", str(partition / f"{0:020d}.log"), "--output", "json").documents
    assert (first["first_offset"], first["last_offset"], first["records"], first["codec"], first["crc"]) == (0, 1, 2, "zstd", "ok")
    assert (second["position"], second["producer"], second["first_sequence"], second["leader_epoch"]) == (len(FIRST), 7, 5, 3)


def test_records_are_shown_when_asked_for(millstream: Millstream, partition: Path) -> None:
    shown = millstream("dump-log", str(partition / f"{0:020d}.log"), "--records", "--output", "json").documents
    records = [document for document in shown if "offset" in document]
    assert [(record["offset"], record["key"], record["value"]) for record in records] == [
        (0, "k", "v"),
        (1, None, {"base64": "/w=="}),
        (2, "k", None),
    ]
    assert records[0]["headers"] == [["trace", "1"], ["trace", None]]


def test_damage_is_marked_and_ends_with_exit_code_1(millstream: Millstream, partition: Path) -> None:
    log = partition / f"{0:020d}.log"
    content = bytearray(FIRST + SECOND)
    content[-1] ^= 1
    log.write_bytes(content)
    outcome = millstream("dump-log", str(partition))
    assert outcome.code == 1
    assert outcome.out.count("DAMAGED: wrong CRC") == 1
    assert str(log) in outcome.err
    assert outcome.err.count("\n") == 1


def test_a_damaged_snapshot_is_reported(millstream: Millstream, partition: Path) -> None:
    (partition / f"{3:020d}.snapshot").write_bytes(b"\0\1garbage")
    outcome = millstream("dump-log", str(partition))
    assert outcome.code == 1
    assert ".snapshot (1 problem)" in outcome.err


@pytest.mark.parametrize("name", ["missing.log", "notes.txt", "empty"])
def test_what_is_no_log_file_is_refused(millstream: Millstream, tmp_path: Path, name: str) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "empty").mkdir()
    outcome = millstream("dump-log", str(tmp_path / name))
    assert outcome.code == 2
    assert name in outcome.err
