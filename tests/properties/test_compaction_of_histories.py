"""Random histories of keyed records with compactions and restarts in between, against what a dictionary would know.

After any of it: the latest value of each key can be read, at the offset it was written at; what is left of a key is a suffix of its history
as far as compaction came; nothing is out of order; a deleted key is seen as deleted or not at all.
"""

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from millstream.files import Files
from millstream.log.compaction.latest_offsets import ENTRY_BYTES
from millstream.log.config import LogConfig
from millstream.log.directories.directory import LogDirectory
from millstream.log.loading import LoadOrder
from millstream.log.log import Log
from millstream.topic_partition import TopicPartition
from millstream.wire.compression import Codec
from millstream.wire.records import ProducerStamp, Record, encode_batch
from tests.unit.log.compacted import compact, records_of

NOW_MS = 1_700_000_000_000
RETENTION_MS = 1000
CONFIG = LogConfig(
    segment_bytes=500, index_interval_bytes=120, cleanup_policy=frozenset({"compact"}), retention_ms=-1, delete_retention_ms=RETENTION_MS
)

KEYS = st.sampled_from([b"a", b"b", b"c", b"d", b"e" * 40, b"f" * 40])
VALUES = st.none() | st.binary(max_size=30)
PAIRS = st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=5)


class CompactionOfHistories(RuleBasedStateMachine):
    """The model is the whole history."""

    @initialize()
    def open_first(self) -> None:
        self.root = Path(tempfile.mkdtemp())
        self.path = self.root / "orders-0"
        self.path.mkdir()
        self.directory = LogDirectory(Files(), self.root, on_offline=lambda _directory, _error: None)
        self.history: list[Record] = []
        self.now_ms = NOW_MS
        self.sequence = 0
        self.first_cleaned_ms: dict[int, int] = {}
        """When each tombstone was first seen by a compaction."""
        self.log = self._open(is_clean=True)

    def teardown(self) -> None:
        if hasattr(self, "root"):
            shutil.rmtree(self.root)

    @rule(pairs=PAIRS, codec=st.sampled_from(Codec), is_idempotent=st.booleans(), age_ms=st.integers(-50, 50))
    def append(self, pairs: list[tuple[bytes, bytes | None]], codec: Codec, is_idempotent: bool, age_ms: int) -> None:
        base = self.log.log_end_offset
        records = [Record(base + number, self.now_ms - age_ms + number, key, value) for number, (key, value) in enumerate(pairs)]
        producer = ProducerStamp(7, 0, self.sequence) if is_idempotent else ProducerStamp()
        sent = [record._replace(offset=record.offset - base) for record in records]
        result = self.log.append_as_leader(encode_batch(sent, codec=codec, producer=producer), leader_epoch=0, now_ms=self.now_ms)
        assert result.base_offset == base
        self.sequence += len(pairs) * is_idempotent
        self.history += records

    @rule(milliseconds=st.integers(0, RETENTION_MS))
    def time_passes(self, milliseconds: int) -> None:
        self.now_ms += milliseconds

    @rule()
    def roll(self) -> None:
        self.log.roll(now_ms=self.now_ms)

    @precondition(lambda self: self.history)
    @rule(keys_in_memory=st.sampled_from([2, 5, 1000]))
    def compact(self, keys_in_memory: int) -> None:
        before = records_of(self.log)
        clean = self.directory.cleaned_offsets.get(TopicPartition("orders", 0), 0)
        result = compact(self.log, now_ms=self.now_ms, memory=keys_in_memory * ENTRY_BYTES)
        assert result.end_offset >= clean
        assert result.broken_count == 0
        self._check_what_went(before, result.end_offset)

    @rule()
    def restart(self) -> None:
        self.log.close()
        self.log = self._open(is_clean=True)

    @rule()
    def restart_after_a_crash(self) -> None:
        recovery_point = self.log.durable_end
        self.log.abandon()
        self.log = self._open(is_clean=False, recovery_point=recovery_point)

    @rule()
    def read_everything(self) -> None:
        self._check(records_of(self.log))

    def _check_what_went(self, before: list[Record], end_offset: int) -> None:
        """Exactly the superseded records and the tombstones whose time has come go."""
        latest = {record.key: record.offset for record in self.history if record.offset < end_offset}
        after = records_of(self.log)
        kept = {record.offset for record in after}
        touched = self.log.directory.cleaned_offsets[TopicPartition("orders", 0)]
        for record in before:
            if record.offset >= touched:
                assert record.offset in kept
            elif latest[record.key] != record.offset:
                assert record.offset not in kept
            elif record.value is not None:
                assert record.offset in kept
            else:
                first = self.first_cleaned_ms.get(record.offset)
                if first is None or self.now_ms < first + RETENTION_MS:
                    assert record.offset in kept
        for batch_record in after:
            if batch_record.value is None:
                self.first_cleaned_ms.setdefault(batch_record.offset, self.now_ms)
        self._check(after)

    def _check(self, found: list[Record]) -> None:
        by_offset = {record.offset: record for record in self.history}
        assert [record.offset for record in found] == sorted({record.offset for record in found})
        for record in found:
            assert record == by_offset[record.offset]
        latest = {record.key: record for record in self.history}
        kept = {record.offset for record in found}
        for record in latest.values():
            assert record.value is None or record.offset in kept
        last_found = {record.key: record for record in found}
        for key, record in last_found.items():
            # A deleted key is seen as deleted, or not at all: never with an old value.
            assert record == latest[key]
        cleaned = self.directory.cleaned_offsets.get(TopicPartition("orders", 0), 0)
        assert [record for record in self.history if record.offset >= cleaned and record.offset not in kept] == []
        assert self.log.log_end_offset == len(self.history)
        if self.sequence:
            entry = next(iter(self.log.producers))
            assert entry.last_sequence == self.sequence - 1

    def _open(self, *, is_clean: bool, recovery_point: int = 0) -> Log:
        return Log(
            self.directory,
            TopicPartition("orders", 0),
            self.path,
            LoadOrder(CONFIG, self.now_ms, is_clean=is_clean, recovery_point=recovery_point),
        )


CompactionOfHistories.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestCompactionOfHistories = CompactionOfHistories.TestCase
