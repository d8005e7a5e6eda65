"""What measures make of values that are not so nice, on a real Spark, without a stream around it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from millstream.errors import UsageError
from millstream.spark.jobs.description.job_settings import JobOutput
from millstream.spark.jobs.description.measure import MOST_TOP
from millstream.spark.jobs.description.topic_input import TopicInput
from millstream.spark.jobs.description.windows_job import Window, WindowsJob
from millstream.spark.jobs.streams.results import as_messages
from millstream.spark.jobs.streams.windows import TRACKED, measure_windows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
JOB = WindowsJob(
    name="measures",
    brokers="b:1",
    checkpoint="checkpoint",
    input=TopicInput("views", schema="page STRING, user STRING, price DOUBLE, spans ARRAY<INT>, whole BIGINT, exact DECIMAL(38, 0)"),
    window=Window(size="10 minutes", by=("page",)),
    measures={"views": "count"},
    output=JobOutput("results"),
)


def measure(spark: "SparkSession", rows: list[tuple[Any, ...]], columns: str, **measures: str) -> dict[str, dict[str, Any]]:
    """The results by page; every row is a page, and a value of each column."""
    events = spark.createDataFrame(
        [(NOON + timedelta(seconds=number % 60), *row) for number, row in enumerate(rows)], f"event_time TIMESTAMP, {columns}"
    )
    results = measure_windows(events, replace(JOB, measures=measures)).collect()
    return {row["page"]: row.asDict(recursive=True) for row in results}


def test_of_equally_frequent_values_the_smaller_come_first_and_a_large_k_gives_all(spark: "SparkSession") -> None:
    users = ["c", "a", "b", "b", "d", "d", "e"]
    found = measure(spark, [("/", user) for user in users], "page STRING, user STRING", top="top(3, user)", all=f"top({MOST_TOP}, user)")[
        "/"
    ]
    assert [(one["value"], one["count"]) for one in found["top"]] == [("b", 2), ("d", 2), ("a", 1)]
    assert [one["value"] for one in found["all"]] == ["b", "d", "a", "c", "e"]


def test_missing_values_are_messages_and_no_values(spark: "SparkSession") -> None:
    rows = [("/", None, None), ("/", "a", 1.5), ("/empty", None, None)]
    measures = {"views": "count", "users": "distinct(user)", "top": "top(2, user)", "price": "sum(price)", "most": "max(price)"}
    found = measure(spark, rows, "page STRING, user STRING, price DOUBLE", **measures)
    assert {name: found["/"][name] for name in measures} == {
        "views": 2, "users": 1, "top": [{"value": "a", "count": 1}], "price": 1.5, "most": 1.5,
    }  # fmt: skip
    assert {name: found["/empty"][name] for name in measures} == {"views": 1, "users": 0, "top": [], "price": None, "most": None}


def test_sums_do_not_depend_on_the_order_and_leave_out_what_is_no_number(spark: "SparkSession") -> None:
    prices = [0.1] * 10 + [1e15, -1e15, float("nan"), float("inf"), 1e30]
    rows = [(page, price) for page, some in (("/up", prices), ("/down", prices[::-1])) for price in some]
    found = measure(spark, rows, "page STRING, price DOUBLE", price="sum(price)")
    assert found["/up"]["price"] == found["/down"]["price"] == 1.0


def test_a_sum_that_does_not_fit_into_its_type_is_null_and_no_error(spark: "SparkSession") -> None:
    rows = [("/", 2**62, 9e28, Decimal("9" * 38))] * 20 + [("/fits", 2**62, 9e27, Decimal(1))]
    sums = {"whole": "sum(whole)", "price": "sum(price)", "exact": "sum(exact)"}
    found = measure(spark, rows, "page STRING, whole BIGINT, price DOUBLE, exact DECIMAL(38, 0)", **sums)
    assert {name: found["/"][name] for name in sums} == dict.fromkeys(sums)
    assert {name: found["/fits"][name] for name in sums} == {"whole": 2**62, "price": 9e27, "exact": 1}


def test_a_key_and_a_measure_may_be_called_window(spark: "SparkSession") -> None:
    events = spark.createDataFrame([(NOON, "left")], "event_time TIMESTAMP, window STRING")
    by_window = replace(JOB, input=TopicInput("views", schema="window STRING"), window=Window(size="10 minutes", by=("window",)))
    assert [row["window"] for row in measure_windows(events, by_window).collect()] == ["left"]
    assert measure(spark, [("/",)], "page STRING", window="count")["/"]["window"] == 1


def test_results_whose_keys_differ_by_a_microsecond_have_keys_of_their_own(spark: "SparkSession") -> None:
    times = [NOON + timedelta(microseconds=number) for number in (1, 2)]
    results = spark.createDataFrame([(moment,) for moment in times], "at TIMESTAMP")
    keys = [row["key"] for row in as_messages(results, identity=["at"], values=["at"]).collect()]
    assert keys == ['{"at":"2026-01-31T12:00:00.000001Z"}', '{"at":"2026-01-31T12:00:00.000002Z"}']


def test_the_most_frequent_of_more_values_than_are_followed_are_found(spark: "SparkSession") -> None:
    """Approximate then: a value that comes often enough is not missed, and its count is off by less than a share of all."""
    rows = [("/", f"rare-{number}") for number in range(2 * TRACKED)] + [("/", f"often-{number % 3}") for number in range(3000)]
    top = measure(spark, rows, "page STRING, user STRING", top="top(3, user)")["/"]["top"]
    assert {one["value"] for one in top} == {"often-0", "often-1", "often-2"}
    assert all(abs(one["count"] - 1000) <= 3.5 * len(rows) / TRACKED for one in top)


def test_a_column_that_cannot_be_measured_so_is_said(spark: "SparkSession") -> None:
    rows = [("/", [1])]
    for kind, problem in (("sum(spans)", "which cannot be added up"), ("top(2, spans)", "values of which cannot be counted one by one")):
        with pytest.raises(UsageError, match=rf"\[measures\] m: the column 'spans' is of type array<int>, {problem}"):
            measure(spark, rows, "page STRING, spans ARRAY<INT>", m=kind)
