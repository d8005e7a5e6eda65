"""What Arrow's own pruning says about a filter is never narrower than what the filter matches."""

import operator
import random
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from millstream.tables.filter_bounds import FilterBounds

MOMENT = pa.timestamp("us", tz="UTC")
SCHEMA = pa.schema([("page", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()), ("timestamp", MOMENT)])
PARTITION, OFFSET, TIMESTAMP, PAGE = (pc.field(name) for name in ("partition", "offset", "timestamp", "page"))


def at(microseconds: int) -> pa.Scalar:
    return pa.scalar(microseconds, MOMENT)


@pytest.mark.parametrize(
    ("expression", "partitions", "offsets", "earliest_ms", "columns"),
    [
        (OFFSET >= 10, {0, 1, 2}, (10, 100), 0, ["offset"]),
        ((OFFSET > 10) & (OFFSET <= 20), {0, 1, 2}, (11, 21), 0, ["offset"]),
        (OFFSET == 7, {0, 1, 2}, (7, 8), 0, ["offset"]),
        ((OFFSET == 7) | (OFFSET == 9), {0, 1, 2}, (7, 10), 0, ["offset"]),
        (OFFSET > 1_000, {0, 1, 2}, (100, 100), 0, ["offset"]),
        (OFFSET != 7, {0, 1, 2}, (0, 100), 0, ["offset"]),
        (pc.is_in(PARTITION, pa.array([0, 2], pa.int32())), {0, 2}, (0, 100), 0, ["partition"]),
        ((PARTITION == 1) & pc.starts_with(PAGE, "/"), {1}, (0, 100), 0, ["page", "partition"]),
        (at(1_794_830_400_000_500) < TIMESTAMP, {0, 1, 2}, (0, 100), 1_794_830_400_000, ["timestamp"]),
        (at(1_794_830_400_000_500) > TIMESTAMP, {0, 1, 2}, (0, 100), 0, ["timestamp"]),
        ((at(5_000_000) < TIMESTAMP) | (OFFSET == 3), {0, 1, 2}, (0, 100), 0, ["offset", "timestamp"]),
        (PAGE == "/", {0, 1, 2}, (0, 100), 0, ["page"]),
    ],
)
def test_bounds_of_a_filter(
    expression: pc.Expression, partitions: set[int], offsets: tuple[int, int], earliest_ms: int, columns: list[str]
) -> None:
    bounds = FilterBounds(SCHEMA, expression)
    assert bounds.partitions(range(3)) == partitions
    assert bounds.offsets(0, 100) == offsets
    assert bounds.earliest_ms() == earliest_ms
    assert bounds.columns() == columns


def test_no_row_that_matches_is_outside_of_the_bounds() -> None:
    draw = random.Random(7)
    rows = pa.table(
        {
            "page": ["/"] * 300,
            "partition": pa.array([number % 3 for number in range(300)], pa.int32()),
            "offset": pa.array([number // 3 for number in range(300)], pa.int64()),
            "timestamp": pa.array([draw.randrange(1_000) * 1_000 for _ in range(300)], MOMENT),
        }
    )
    compare = [operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne]
    for _ in range(200):
        terms = [
            draw.choice(compare)(OFFSET, draw.randrange(100)),
            draw.choice(compare)(PARTITION, pa.scalar(draw.randrange(3), pa.int32())),
            draw.choice(compare)(TIMESTAMP, at(draw.randrange(1_000) * 1_000)),
            ~(draw.choice(compare)(OFFSET, draw.randrange(100))),
        ]
        draw.shuffle(terms)
        expression = reduce(draw.choice([operator.and_, operator.or_]), terms[: draw.randrange(1, 5)])
        bounds = FilterBounds(SCHEMA, expression)
        partitions, (low, high), earliest_ms = bounds.partitions(range(3)), bounds.offsets(0, 100), bounds.earliest_ms()
        for row in rows.filter(expression).to_pylist():
            assert row["partition"] in partitions
            assert low <= row["offset"] < high
            assert row["timestamp"].timestamp() * 1000 >= earliest_ms
