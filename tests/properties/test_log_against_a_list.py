"""The log against a Python list: whatever is done to it, in whatever order, it holds the records a list would hold.

The model is a list of batches (base offset, values); restarts, clean and not, may happen between any two steps. Nothing is lost in an
unclean restart here because the page cache survives it; what a power cut takes is the subject of `tests/crash`.
"""

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from millstream.errors import CorruptMessage, OffsetOutOfRange
from millstream.files import Files
from millstream.log.config import LogConfig
from millstream.log.directories.directory import LogDirectory
from millstream.log.loading import LoadOrder
from millstream.log.log import AppendResult, Log
from millstream.log.retention import apply_retention
from millstream.topic_partition import TopicPartition
from tests.batches import decode_records, encode_batch

NOW_MS = 1_700_000_000_000
CONFIG = LogConfig(segment_bytes=700, index_interval_bytes=150, segment_index_bytes=120, retention_bytes=1500, retention_ms=-1)

VALUES = st.lists(st.binary(max_size=60), min_size=1, max_size=4)


class LogAgainstAList(RuleBasedStateMachine):
    """Each rule does the same to the log and to the list."""

    @initialize()
    def open_first(self) -> None:
        self.root = Path(tempfile.mkdtemp())
        self.path = self.root / "orders-0"
        self.path.mkdir()
        self.directory = LogDirectory(Files(), self.root, on_offline=lambda _directory, _error: None)
        self.batches: list[tuple[int, list[bytes]]] = []
        self.start = self.end = 0
        self.epochs: dict[int, int] = {}
        self.epoch = 0
        self.sequence = 0
        self.timestamp = NOW_MS - 1000
        self.log = self._open(is_clean=True)

    def teardown(self) -> None:
        if hasattr(self, "root"):
            shutil.rmtree(self.root)

    @rule(values=VALUES)
    def append(self, values: list[bytes]) -> None:
        self._append(values, {})

    @rule(values=VALUES)
    def append_idempotent_twice(self, values: list[bytes]) -> None:
        fields = {"producer_id": 9, "producer_epoch": 0, "base_sequence": self.sequence}
        result = self._append(values, fields)
        self.sequence += len(values)
        batch = encode_batch(list(values), keys=None, timestamp=self.timestamp, **fields)
        again = self.log.append_as_leader(batch, leader_epoch=self.epoch, now_ms=NOW_MS)
        assert again.is_duplicate
        assert again.base_offset == result

    @rule(run=st.lists(VALUES, min_size=1, max_size=12), damaged=st.sets(st.integers(0, 11)))
    def append_run(self, run: list[list[bytes]], damaged: set[int]) -> None:
        self.timestamp += 1
        batches = [bytearray(encode_batch(list(values), keys=None, timestamp=self.timestamp)) for values in run]
        for number in damaged & set(range(len(run))):
            batches[number][-1] ^= 0xFF
        results = self.log.append_run_as_leader(batches, leader_epoch=self.epoch, now_ms=NOW_MS)
        for number, (values, result) in enumerate(zip(run, results, strict=True)):
            if number in damaged:
                assert isinstance(result, CorruptMessage)
                continue
            assert isinstance(result, AppendResult)
            assert (result.base_offset, result.last_offset) == (self.end, self.end + len(values) - 1)
            self.epochs.setdefault(self.epoch, self.end)
            self.batches.append((self.end, values))
            self.end += len(values)

    @rule()
    def become_leader_again(self) -> None:
        self.epoch += 1

    @rule()
    def roll(self) -> None:
        self.log.roll(now_ms=NOW_MS)

    @rule()
    def flush(self) -> None:
        flush = self.log.begin_flush()
        if flush is not None:
            flush.run()
            self.log.complete_flush(flush, now_ms=NOW_MS)
        assert self.log.durable_end == self.end

    @rule(share=st.floats(0, 1))
    def delete_records(self, share: float) -> None:
        self.start = self.start + int((self.end - self.start) * share)
        self.log.delete_records_before(self.start)

    @rule()
    def apply_retention(self) -> None:
        size = self.log.size_bytes
        marked = apply_retention(self.log, NOW_MS, high_watermark=self.end)
        if not marked and size > 1500 + 700:  # nothing is dropped before what is the first then is on the disk
            assert self.log.is_flush_due(NOW_MS)
            self.flush()
            marked = apply_retention(self.log, NOW_MS, high_watermark=self.end)
        for path in marked:
            path.unlink()
        assert self.log.log_start_offset >= self.start
        self.start = self.log.log_start_offset
        assert self.log.size_bytes <= 1500 + 700

    @rule(share=st.floats(0, 1))
    @precondition(lambda self: self.end > self.start)
    def truncate(self, share: float) -> None:
        target = self.start + int((self.end - self.start) * share)
        self.log.truncate_to(target)
        self.batches = [(base, values) for base, values in self.batches if base + len(values) <= target]
        self.end = self.log.log_end_offset
        assert self.end <= target
        assert not self.batches or self.end == self.batches[-1][0] + len(self.batches[-1][1])
        self.start = min(self.start, self.end)
        self.epochs = {epoch: start for epoch, start in self.epochs.items() if start < self.end}
        self._forget_producer()

    @rule()
    def restart(self) -> None:
        self.log.close()
        self.log = self._open(is_clean=True)

    @rule()
    def restart_after_a_crash(self) -> None:
        recovery_point = self.log.durable_end
        self.log.abandon()
        self.log = self._open(is_clean=False, recovery_point=recovery_point)

    @invariant()
    def ends_agree(self) -> None:
        if hasattr(self, "log"):
            assert (self.log.log_start_offset, self.log.log_end_offset) == (self.start, self.end)
            assert self.log.durable_end <= self.end

    @rule(share=st.floats(0, 1), max_bytes=st.integers(0, 1000))
    def read_from_anywhere(self, share: float, max_bytes: int) -> None:
        offset = self.start + int((self.end - self.start) * share)
        region = self.log.read(offset, max_bytes=max_bytes, limit_offset=self.end)
        if offset == self.end:
            assert region is None
            return
        assert region is not None
        records = decode_records(Files().pread(region.handle, region.length, region.position))
        expected = dict(self._records())
        assert records[0].offset <= offset <= records[-1].offset
        assert all(expected[record.offset] == record.value for record in records if record.offset in expected)

    @rule()
    def read_everything(self) -> None:
        found: list[tuple[int, bytes]] = []
        offset = self.start
        while offset < self.end:
            region = self.log.read(offset, max_bytes=1 << 20, limit_offset=self.end)
            assert region is not None
            records = decode_records(Files().pread(region.handle, region.length, region.position))
            found += [(record.offset, record.value or b"") for record in records if record.offset >= offset]
            offset = found[-1][0] + 1
        assert found == [(offset, value) for offset, value in self._records() if offset >= self.start]

    @rule()
    def reading_outside_is_refused(self) -> None:
        for offset in (self.start - 1, self.end + 1):
            with pytest.raises(OffsetOutOfRange):
                self.log.read(offset, max_bytes=1, limit_offset=self.end)

    @rule()
    def epochs_agree(self) -> None:
        known = {epoch: start for epoch, start in self.epochs.items() if start < self.end}
        for epoch in known:
            later = [start for other, start in known.items() if other > epoch]
            end = min(later, default=self.end)
            if end > self.start:
                assert self.log.end_offset_for_epoch(epoch) == (epoch, end)

    def _append(self, values: list[bytes], fields: dict[str, int]) -> int:
        self.timestamp += 1
        batch = encode_batch(list(values), keys=None, timestamp=self.timestamp, **fields)
        result = self.log.append_as_leader(batch, leader_epoch=self.epoch, now_ms=NOW_MS)
        assert result.base_offset == self.end
        self.epochs.setdefault(self.epoch, self.end)
        self.batches.append((self.end, values))
        self.end += len(values)
        return result.base_offset

    def _records(self) -> list[tuple[int, bytes]]:
        return [(base + number, value) for base, values in self.batches for number, value in enumerate(values)]

    def _forget_producer(self) -> None:
        """After a truncation the log knows the producer's last batch that is left, or nothing of it."""
        entry = next((entry for entry in self.log.producers if entry.producer_id == 9), None)
        if entry is None:
            self.sequence = 0
        else:
            assert entry.last_offset < self.end
            self.sequence = entry.last_sequence + 1

    def _open(self, *, is_clean: bool, recovery_point: int = 0) -> Log:
        order = LoadOrder(CONFIG, NOW_MS, is_clean=is_clean, recovery_point=recovery_point, log_start_offset=self.start)
        return Log(self.directory, TopicPartition("orders", 0), self.path, order)


LogAgainstAList.TestCase.settings = settings(max_examples=150, stateful_step_count=40)
TestLogAgainstAList = LogAgainstAList.TestCase
