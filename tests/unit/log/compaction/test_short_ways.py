"""What the cleaner knows from its first pass, and what it reads quickly, leaves the very bytes that a look at each record leaves."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from millstream.log.compaction.batch_cleaning import CleanedBatch, CleaningRules, clean_batch, keys_of
from millstream.log.compaction.latest_offsets import LatestOffsets
from millstream.wire.batch import BatchHeader, read_header
from millstream.wire.compression import Codec
from millstream.wire.records import Record, encode_batch

NOW_MS = 1_700_000_000_000
RETENTION_MS = 1000
KEYS = [b"a", b"b", b"c", b"d", b"e", b"f" * 60, None]
VALUES = [b"", b"v", bytes(70), bytes(200)]
Pairs = list[tuple[int, bytes | None, bytes | None, int]]


def pairs(*, tombstones: bool) -> st.SearchStrategy[Pairs]:
    values = st.sampled_from([*VALUES, None] if tombstones else VALUES)
    return st.lists(st.tuples(st.integers(1, 2), st.sampled_from(KEYS), values, st.integers(-200, 200)), min_size=1, max_size=6)


HISTORY = st.lists(st.tuples(pairs(tombstones=False) | pairs(tombstones=True), st.sampled_from([Codec.NONE, Codec.GZIP])), max_size=12)


def written(history: list[tuple[Pairs, Codec]]) -> list[tuple[BatchHeader, memoryview]]:
    """The batches one after the other; those whose steps are all 1 have no gaps."""
    batches, base_offset = [], 0
    for fields, codec in history:
        offset, records = base_offset - 1, []
        for step, key, value, pace in fields:
            offset += step
            records.append(Record(offset, NOW_MS + pace, key, value))
        batch = encode_batch(records, codec=codec, base_offset=base_offset, last_offset_delta=offset - base_offset)
        batches.append((read_header(batch), memoryview(batch)))
        base_offset = offset + 1
    return batches


def outcome(left: CleanedBatch) -> tuple[bytes | None, int, int]:
    return None if left.content is None else bytes(left.content), left.record_count, left.max_timestamp


@given(HISTORY, st.integers(0, 12), st.integers(0, 60), st.booleans())
def test_short_ways_leave_what_the_long_way_leaves(
    history: list[tuple[Pairs, Codec]], clean_batches: int, memory: int, is_last: bool
) -> None:
    batches = written(history)
    first_dirty_offset = sum(header.last_offset_delta + 1 for header, _ in batches[:clean_batches])
    latest = LatestOffsets(first_dirty_offset=first_dirty_offset, max_bytes=memory * 168)
    for header, batch in batches[clean_batches:]:
        if not latest.add(header, keys_of(header, batch)):
            break
    latest.complete()
    long_way = CleaningRules(latest.by_key, latest.latest_offset, NOW_MS, RETENTION_MS, last_offsets={}, marker_epochs={})
    short_ways = replace(long_way, first_dirty_offset=first_dirty_offset, latest_in=latest.latest_in, has_tombstones=latest.has_tombstones)
    for header, batch in batches:
        left = clean_batch(header, batch, short_ways, is_last=is_last)
        assert outcome(left) == outcome(clean_batch(header, batch, long_way, is_last=is_last))


def test_a_batch_of_which_every_record_stays_is_not_even_copied() -> None:
    batches = written([([(1, b"a", b"v", 0), (1, b"b", b"v", 0)], Codec.GZIP), ([(1, b"c", b"v", 0)], Codec.NONE)])
    latest = LatestOffsets(first_dirty_offset=0, max_bytes=1 << 20)
    for header, batch in batches:
        latest.add(header, keys_of(header, batch))
    latest.complete()
    rules = CleaningRules(latest.by_key, 2, NOW_MS, RETENTION_MS, {}, {}, 0, latest.latest_in, latest.has_tombstones)
    assert all(clean_batch(header, batch, rules, is_last=False).content is batch for header, batch in batches)
