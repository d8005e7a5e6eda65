from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.audit.reports.report import ANY_BUCKET, NO_TIME
from millstream.lake import bucket_counts
from millstream.lake.bucket_counts import BucketCount, PartitionCounts, audit_counts

BUCKET_MS = 1_000
Messages = list[tuple[int, int, bool]]
"""The step from the offset before, the time in milliseconds, whether it is malformed."""


def count(messages: Messages, parts: int) -> tuple[list[BucketCount], dict[int, set[int]], dict[int, int]]:
    """Counted in so many parts; and what it should be, by plain Python."""
    offsets = np.cumsum([step for step, _, _ in messages]).astype(np.int64)
    times = np.array([time for _, time, _ in messages], np.int64) * 1_000
    malformed = np.array([flag for _, _, flag in messages], np.bool_)
    counts = PartitionCounts(3, BUCKET_MS)
    for chosen in np.array_split(np.arange(len(messages)), parts):
        counts.add(offsets[chosen], times[chosen], np.full(len(chosen), 7, np.int64), malformed[chosen])
    expected: dict[int, set[int]] = defaultdict(set)
    broken: dict[int, int] = defaultdict(int)
    for offset, (_, time, flag) in zip(offsets.tolist(), messages, strict=True):
        bucket = NO_TIME if time < 0 else time - time % BUCKET_MS
        expected[bucket].add(offset)
        broken[bucket] += flag
    return counts.counts(), expected, broken


def offsets_in(bounds: tuple[int, ...] | None) -> set[int]:
    assert bounds is not None
    return {offset for start, end in zip(bounds[::2], bounds[1::2], strict=True) for offset in range(start, end)}


messages = st.lists(st.tuples(st.integers(1, 3), st.integers(-1, 4_000), st.booleans()), min_size=1, max_size=60)


@given(messages, st.integers(1, 4))
def test_counts_are_those_of_plain_python(messages: Messages, parts: int) -> None:
    counted, expected, broken = count(messages, parts)
    assert {one.bucket: offsets_in(one.bounds) for one in counted} == expected
    assert {one.bucket: one.count for one in counted} == {bucket: len(offsets) for bucket, offsets in expected.items()}
    assert {one.bucket: one.malformed for one in counted} == broken
    assert sum(one.bytes for one in counted) == 7 * len(messages)
    assert [BucketCount.of(one.document()) for one in counted] == counted


@given(messages, st.integers(1, 4))
def test_offsets_without_buckets_stay_exact_where_times_are_mixed(messages: Messages, parts: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bucket_counts, "MOST_RUNS", 2)
        counted, expected, broken = count(messages, parts)
    everything = set().union(*expected.values())
    assert {one.bucket: one.count for one in counted if one.bucket != ANY_BUCKET} == {b: len(offsets) for b, offsets in expected.items()}
    if counted[-1].bucket == ANY_BUCKET:
        assert offsets_in(counted[-1].bounds) == everything
        assert (counted[-1].count, counted[-1].malformed) == (len(everything), sum(broken.values()))
        assert [(one.bucket, one.count) for one in audit_counts(counted)] == [(ANY_BUCKET, len(everything))]
    reported = [one for one in audit_counts(counted) if one.offsets is not None]
    assert sum(len(one.offsets or ()) for one in reported) == len(everything)


def test_too_many_gaps_leave_counts_only() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bucket_counts, "MOST_RUNS", 2)
        patch.setattr(bucket_counts, "MOST_GAPS", 3)
        counted, _, _ = count([(2, number % 2_000, False) for number in range(0, 20_000, 999)], 2)
    assert {one.bounds for one in counted} == {None}
    assert sum(one.count for one in audit_counts(counted)) == 21
