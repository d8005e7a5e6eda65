"""Whatever is raised at whatever line of an append or a truncation: nothing half done is used afterwards."""

import errno
import linecache
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, Self

import pytest

import millstream.log
from millstream.errors import StorageError
from millstream.files import Files
from millstream.log.config import LogConfig
from millstream.log.directories.directory import LogDirectory
from millstream.log.loading import LoadOrder
from millstream.log.log import AppendResult, Log
from millstream.log.records import record_check
from millstream.topic_partition import TopicPartition
from tests.batches import encode_batch
from tests.unit.log.conftest import NOW_MS
from tests.unit.log.partition import read_all

LOG_PACKAGE = str(Path(millstream.log.__file__).parent)
CONFIG = LogConfig.of({"index.interval.bytes": 1, "segment.bytes": 700})
"""An index entry with every batch, and a new segment after a few."""


class Interruption:
    """Raises when so many lines of the log's own code have been run."""

    def __init__(self, error: Callable[[str], BaseException], after: int) -> None:
        self.error = error
        self.left = after

    def __enter__(self) -> Self:
        self._before = sys.gettrace()
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)

    def _trace(self, frame: FrameType, event: str, _argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(LOG_PACKAGE):
            return None
        # The word `try` does nothing that could fail, and CPython covers it by no handler around it.
        if event == "line" and linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip() != "try:":
            self.left -= 1
            if self.left < 0:
                sys.settrace(None)
                raise self.error("no room for this")
        return self._trace


def batch(number: int, *, of: str, **fields: int) -> bytes:
    return encode_batch([f"{of} {number}".encode().ljust(100, b".")], keys=None, timestamp=NOW_MS + number, **fields)


def by_producer(number: int, *, of: str = "run") -> bytes:
    return batch(number, of=of, producer_id=7, producer_epoch=0, base_sequence=number)


def append_one(log: Log) -> list[AppendResult | Exception]:
    return [log.append_as_leader(by_producer(0), leader_epoch=2, now_ms=NOW_MS)]


def append_run(log: Log) -> list[AppendResult | Exception]:
    # A view of a buffer that others use afterwards, as the batches of a connection are.
    received = bytearray(b"".join(by_producer(number) for number in range(4)))
    size = len(received) // 4
    view = memoryview(received)
    try:
        return log.append_run_as_leader([view[start : start + size] for start in range(0, 4 * size, size)], leader_epoch=2, now_ms=NOW_MS)
    finally:
        received[:] = b"?" * len(received)


def append_followed(log: Log) -> list[AppendResult | Exception]:
    data = b"".join(batch(number, of="run", base_offset=log.log_end_offset + number, leader_epoch=2) for number in range(4))
    log.append_as_follower(data, now_ms=NOW_MS)
    return []


def opened(root: Path, *, is_clean: bool) -> Log:
    directory = LogDirectory(Files(), root, on_offline=lambda _directory, _error: None)
    (root / "orders-0").mkdir(parents=True, exist_ok=True)
    return Log(directory, TopicPartition("orders", 0), root / "orders-0", LoadOrder(CONFIG, NOW_MS, is_clean=is_clean))


def interrupted(log: Log, action: Callable[[Log], list[AppendResult | Exception]], error: type[BaseException], after: int) -> bool:
    """Do it; whether it was interrupted. Whoever got an offset must find its batch there."""
    results: list[AppendResult | Exception] = []
    with Interruption(error, after) as interruption, suppress(error, StorageError):
        results = action(log)
    for number, result in enumerate(results):
        if isinstance(result, AppendResult):
            found = [record.value for record in read_all(log) if record.offset == result.base_offset]
            assert found == [f"run {number}".encode().ljust(100, b".")]
    return interruption.left < 0


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt])
@pytest.mark.parametrize(
    "before", [pytest.param(0, id="into an empty segment"), pytest.param(2, id="into a segment that rolls", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("action", [append_one, append_run, append_followed])
def test_append_that_is_interrupted_anywhere_leaves_a_log_that_is_right_or_unusable(
    tmp_path: Path, action: Callable[[Log], list[AppendResult | Exception]], before: int, error: type[BaseException]
) -> None:
    after, endings = 0, set()
    while True:
        root = tmp_path / str(after)
        log = opened(root, is_clean=True)
        for number in range(before):
            log.append_as_leader(batch(number, of="before"), leader_epoch=1, now_ms=NOW_MS)
        if not interrupted(log, action, error, after):
            break
        kept = read_all(log) if log.directory.offline is None else []
        if log.directory.offline is None:
            assert log.append_as_leader(batch(0, of="next"), leader_epoch=2, now_ms=NOW_MS).base_offset == len(kept)
            kept = read_all(log)
            assert kept[-1].value == b"next 0".ljust(100, b".")
        else:
            with pytest.raises(StorageError):
                log.append_as_leader(batch(0, of="next"), leader_epoch=2, now_ms=NOW_MS)
        endings.add(log.directory.offline is None)
        log.abandon()
        again = opened(root, is_clean=False)
        found = read_all(again)
        assert found[: len(kept)] == kept
        values = [(record.value or b"").rstrip(b".") for record in found]
        assert values[:before] == [b"before %d" % number for number in range(before)]
        rest = [value for value in values[before:] if value != b"next 0"]
        assert rest == sorted(set(rest))
        assert set(rest) <= {b"run %d" % number for number in range(4)}
        assert [record.offset for record in found] == list(range(len(found)))
        after += 1
    assert endings == {True, False}
    assert after > 30


@pytest.mark.parametrize("error", [MemoryError, lambda text: OSError(errno.EMFILE, text)], ids=["no memory", "no descriptors"])
@pytest.mark.parametrize("action", [lambda log: log.truncate_to(3), lambda log: log.truncate_fully_and_start_at(50)], ids=["some", "all"])
def test_truncation_that_is_interrupted_anywhere_leaves_a_log_that_is_right_or_unusable(
    tmp_path: Path, action: Callable[[Log], None], error: Callable[[str], BaseException]
) -> None:
    after, endings, is_interrupted = 0, set(), True
    while is_interrupted:
        log = opened(tmp_path / str(after), is_clean=True)
        for number in range(6):
            log.append_as_leader(by_producer(number), leader_epoch=number // 2, now_ms=NOW_MS)
        log.segments.release()
        with Interruption(error, after) as interruption, suppress(MemoryError, OSError, StorageError):
            action(log)
        is_interrupted = interruption.left < 0
        endings.add(log.directory.offline is None)
        if log.directory.offline is None:
            assert [record.offset for record in read_all(log)] == list(range(log.log_start_offset, log.log_end_offset))
            producer = log.producers.get(7)
            assert (producer.last_offset + 1 if producer else log.log_start_offset) == log.log_end_offset
            assert log.epochs.epoch_of(log.log_end_offset) == log.epochs.latest
        after += 7
    assert endings == {True, False}


def test_batch_whose_check_fails_in_any_way_is_refused_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The case that was seen: a batch that needs more memory than there is, amid others of a run."""

    checked = record_check.checked

    def out_of_memory(batch: bytes, header: Any, **options: Any) -> Any:
        if b"bomb" in bytes(batch):
            raise MemoryError
        return checked(batch, header, **options)

    monkeypatch.setattr("millstream.log.records.record_check.checked", out_of_memory)
    log = opened(tmp_path, is_clean=True)
    log.update_config(LogConfig.of({"cleanup.policy": "compact"}))
    batches = [encode_batch([value], keys=[b"key"], timestamp=NOW_MS) for value in (b"a 0", b"bomb", b"a 1")]
    results = log.append_run_as_leader(batches, leader_epoch=0, now_ms=NOW_MS)
    assert [type(result) for result in results] == [AppendResult, MemoryError, AppendResult]
    with pytest.raises(MemoryError):
        log.append_as_leader(batches[1], leader_epoch=0, now_ms=NOW_MS)
    assert log.append_as_leader(batches[0], leader_epoch=0, now_ms=NOW_MS).base_offset == 2
    assert [record.value for record in read_all(log)] == [b"a 0", b"a 1", b"a 0"]
