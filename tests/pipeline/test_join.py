"""Joins on a real Spark, compared with what plain Python computes from the same events, while others write to the topics."""

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from millstream.errors import UsageError
from millstream.spark.jobs.description.job_settings import JobOutput
from millstream.spark.jobs.description.join_job import JoinJob, JoinRule, JoinTable
from millstream.spark.jobs.description.replay import replayed
from millstream.spark.jobs.description.topic_input import TopicInput
from millstream.spark.jobs.streams.join import start_join
from millstream.spark.jobs.streams.join_table import KeptTable, read_table_once
from tests.brokers import Broker
from tests.pipeline.site_activity import CLICK_SCHEMA, MINUTE_MS, VIEW_SCHEMA, Click, View, make_views, results, send
from tests.spark.topic_content import Message, write
from tests.spark.traffic import Traffic
from tests.topics import create_topic
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

VIEWS = make_views(300, step_ms=6_000)
USERS = "user STRING, country STRING"
COUNTRIES = {f"user-{number}": f"country-{number % 4}" for number in range(15)}
"""Not of every user."""


def make_clicks() -> list[Click]:
    """Clicks up to six minutes after views, so some are too late for them, and some on pages that were not seen."""
    draw = random.Random(3)
    clicks = [
        Click(view.user, view.page, f"button-{view.number}", view.at + draw.randrange(-30_000, 6 * MINUTE_MS))
        for view in VIEWS
        if draw.random() < 0.5
    ]
    return sorted([*clicks, Click("user-1", "/unseen", "x", VIEWS[0].at)], key=lambda click: click.at)


CLICKS = make_clicks()


def pairs(views: list[View], *, is_left: bool) -> list[tuple[int, str | None]]:
    """The number of each view and the button of each click on it within five minutes; in a left join also views without any."""
    found: list[tuple[int, str | None]] = []
    for view in views:
        buttons = [
            click.button
            for click in CLICKS
            if (click.user, click.page) == (view.user, view.page) and view.at <= click.at <= view.at + 5 * MINUTE_MS
        ]
        found += [(view.number, button) for button in buttons] or ([(view.number, None)] if is_left else [])
    return sorted(found, key=str)


def join_job(broker: Broker, tmp_path: Path, rule: JoinRule, **other: Any) -> JoinJob:
    views = create_topic(broker, partitions=3)
    # A view is known by the number in its bytes, which every other column could repeat.
    left = TopicInput(views, schema=VIEW_SCHEMA, time="at", watermark="1 minute", deduplicate=True, malformed="skip")
    output = JobOutput(create_topic(broker))
    given: dict[str, Any] = {"left": left, "join": rule, "output": output, "checkpoint": str(tmp_path / "checkpoint")}
    return JoinJob(name="joined", brokers=broker.bootstrap_servers, **given, **other)


def run(spark: "SparkSession", job: JoinJob, *, is_final: bool = False) -> None:
    query = start_join(spark, job, once=True, is_final=is_final)
    assert query.awaitTermination(300), "the job did not end"


@pytest.mark.parametrize("kind", ["inner", "left"])
def test_two_streams_meet_within_a_bound_of_time(spark: "SparkSession", broker: Broker, tmp_path: Path, kind: str) -> None:
    clicks = create_topic(broker, partitions=2)
    right = TopicInput(clicks, schema=CLICK_SCHEMA, time="at", watermark="1 minute")
    job = join_job(broker, tmp_path, JoinRule(("user", "page"), type=kind, within="5 minutes"), right=right)  # type: ignore[arg-type]  # a word
    by_place = {view.at: view.number for view in VIEWS}
    assert len(by_place) == len(VIEWS), "views are known by their times"
    send(broker, job.left.topic, VIEWS[:200])
    send(broker, clicks, CLICKS[:90])
    with Traffic(broker, job.left.topic, partition=2, per_second=20):
        if kind == "left":
            run(spark, job)
        # Views that come again are known by their keys.
        send(broker, job.left.topic, VIEWS[190:])
        send(broker, clicks, CLICKS[90:])
        run(spark, job, is_final=True)
    found = results(broker, job.output.topic)
    assert sorted(((by_place[row["at"]], row.get("button")) for row in found.values()), key=str) == pairs(VIEWS, is_left=kind == "left")
    with_click = next(row for row in found.values() if "button" in row)
    assert with_click["right_at"] - with_click["at"] <= 5 * MINUTE_MS
    assert set(with_click) == {
        "page", "user", "bytes", "price", "at", "button", "right_at", "left_time", "left_partition", "left_offset", "right_time",
        "right_partition", "right_offset",
    }  # fmt: skip
    if kind == "left":
        again = replayed(job, {"left": "earliest", "right": "earliest"}, topic=create_topic(broker))
        assert isinstance(again, JoinJob)
        run(spark, again, is_final=True)
        # The same results; views that came twice may be known by the place where they came first or again.
        assert sorted((row["at"], row.get("button", "")) for row in results(broker, again.output.topic).values()) == sorted(
            (row["at"], row.get("button", "")) for row in found.values()
        )


@pytest.mark.parametrize("source", ["delta", "topic"])
def test_a_stream_meets_a_table(spark: "SparkSession", broker: Broker, tmp_path: Path, source: str) -> None:
    if source == "delta":
        path = str(tmp_path / "users")
        # Names that columns of streams have mean nothing in a table.
        times = {"event_time": ["then"] * len(COUNTRIES), "message_time": ["later"] * len(COUNTRIES)}
        write_deltalake(path, pa.table({"user": list(COUNTRIES), "country": list(COUNTRIES.values()), **times}))
        table = JoinTable(path=path, format="delta")
    else:
        topic = create_topic(broker, configs={"cleanup.policy": "compact"})
        # What is written last holds, also where its time is older.
        rows = [
            Message(json.dumps({"user": user, "country": "old"}).encode(), user.encode(), timestamp_ms=1_700_000_001_000)
            for user in (*COUNTRIES, "user-16")
        ]
        rows += [Message(json.dumps({"user": user, "country": country}).encode(), user.encode()) for user, country in COUNTRIES.items()]
        write(broker, topic, [*rows, Message(None, b"user-16")])
        table = JoinTable(topic=topic, format="json", schema=USERS)
    job = join_job(broker, tmp_path, JoinRule(("user",), type="left"), table=table)
    # Without a key a message is not the same as others without a key.
    write(broker, job.left.topic, [view.message()._replace(key=None) for view in VIEWS])
    run(spark, job)
    found = results(broker, job.output.topic).values()
    assert sorted((row["at"], row.get("country")) for row in found if "country" in row) == sorted(
        (view.at, COUNTRIES[view.user]) for view in VIEWS if view.user in COUNTRIES
    )
    assert len(found) == len(VIEWS)
    if source == "delta":
        assert {(row["event_time"], row["message_time"]) for row in found if "country" in row} == {("then", "later")}


def test_events_meet_the_table_as_it_is_when_they_come(spark: "SparkSession", broker: Broker, tmp_path: Path) -> None:
    path = str(tmp_path / "users")
    write_deltalake(path, pa.table({"user": list(COUNTRIES), "country": list(COUNTRIES.values())}))
    table = JoinTable(path=path, format="delta", refresh="0 seconds")
    job = join_job(broker, tmp_path, JoinRule(("user",), type="left"), table=table)
    job = replace(job, trigger="100 ms", output=replace(job.output, table=str(tmp_path / "results")))
    send(broker, job.left.topic, VIEWS[:100])
    query = start_join(spark, job)
    try:
        wait_until(lambda: len(results(broker, job.output.topic)) == 100 or query.exception(), "the first events", deadline_s=300)
        write_deltalake(path, pa.table({"user": list(COUNTRIES), "country": ["moved"] * len(COUNTRIES)}), mode="overwrite")
        send(broker, job.left.topic, VIEWS[100:])
        wait_until(lambda: len(results(broker, job.output.topic)) == len(VIEWS) or query.exception(), "the others", deadline_s=300)
    finally:
        query.stop()
    expected = sorted(
        (view.at, (COUNTRIES[view.user] if number < 100 else "moved") if view.user in COUNTRIES else "")
        for number, view in enumerate(VIEWS)
    )
    assert sorted((row["at"], row.get("country", "")) for row in results(broker, job.output.topic).values()) == expected
    rows = DeltaTable(job.output.table).to_pyarrow_table().to_pylist()
    assert sorted((row["at"], row["country"] or "") for row in rows) == expected


@pytest.mark.parametrize("source", ["csv", "topic"])
def test_a_table_is_read_again_when_it_has_changed(spark: "SparkSession", broker: Broker, tmp_path: Path, source: str) -> None:
    def write_users(number: int, *countries: str) -> None:
        users = {f"user-{one}": country for one, country in enumerate(countries)}
        if source == "csv":
            lines = [f"{user},{country}" for user, country in users.items()]
            (tmp_path / "users" / "users.csv").write_text("\n".join(["user,country", *lines]))
        else:
            rows = [json.dumps({"user": user, "country": country}).encode() for user, country in users.items()]
            write(broker, topic, [Message(row, user.encode(), timestamp_ms=number) for row, user in zip(rows, users, strict=True)])

    def countries() -> list[str]:
        return [row["country"] for row in kept.rows().orderBy("user").collect()]

    topic = create_topic(broker)
    (tmp_path / "users").mkdir()
    place = {"path": str(tmp_path / "users"), "format": "csv"} if source == "csv" else {"topic": topic, "format": "json"}
    table = JoinTable(**place, schema=USERS, refresh="1 minute")  # type: ignore[arg-type]  # words
    job = join_job(broker, tmp_path, JoinRule(("user",)), table=table)
    now = [0.0]
    write_users(1, "a", "b")
    kept = KeptTable(spark, job, table, clock=lambda: now[0])
    write_users(2, "a", "c", "d")
    assert countries() == ["a", "b"]
    now[0] = 60.0
    assert countries() == ["a", "c", "d"]
    if source == "csv":
        now[0] = 120.0
        (tmp_path / "users" / "more.csv").write_text("user,country\nuser-1,e")
        with pytest.raises(UsageError, match="has 2 rows for user = 'user-1'"):
            kept.rows()


def test_a_delta_table_has_the_columns_of_its_log(spark: "SparkSession", broker: Broker, tmp_path: Path) -> None:
    """Its files may be older than a column, and have partitions as text."""
    path = str(tmp_path / "users")
    write_deltalake(path, pa.table({"user": ["user-1"], "group": ["07"]}), partition_by=["group"])
    write_deltalake(path, pa.table({"user": ["user-2"], "group": ["08"], "age": [33]}), mode="append", schema_mode="merge")
    table = JoinTable(path=path, format="delta")
    rows = read_table_once(spark, join_job(broker, tmp_path, JoinRule(("user",)), table=table), table)
    assert sorted((row["user"], row["group"], row["age"]) for row in rows.collect()) == [("user-1", "07", None), ("user-2", "08", 33)]


def test_what_a_table_or_stream_lacks_is_said_before_anything_runs(spark: "SparkSession", broker: Broker, tmp_path: Path) -> None:
    path = str(tmp_path / "users")
    spark.createDataFrame([("user-1", "a"), ("user-1", "b")], USERS).write.parquet(path)
    job = join_job(broker, tmp_path, JoinRule(("user",)), table=JoinTable(path=path))
    with pytest.raises(UsageError, match=r"has 2 rows for user = 'user-1'"):
        start_join(spark, job)
    with pytest.raises(UsageError, match=r"\[join\] on: the table .* has no column 'page'"):
        start_join(spark, replace(job, join=JoinRule(("page",))))
    named = str(tmp_path / "named")
    spark.createDataFrame([("user-1", 1)], "user STRING, Left_Offset INT").write.parquet(named)
    with pytest.raises(UsageError, match=r"\[join\]: the results would have two columns 'left_offset'"):
        start_join(spark, replace(job, table=JoinTable(path=named)))
    with pytest.raises(UsageError, match=r"\[left\] where: .*nonsense"):
        start_join(spark, replace(job, left=replace(job.left, where="nonsense > 1")))
    with pytest.raises(UsageError, match=r"\[left.columns\] size: "):
        start_join(spark, replace(job, left=replace(job.left, columns={"size": "length("})))
    with pytest.raises(UsageError, match=r"\[left\] time: the column 'page' is of type string"):
        start_join(spark, replace(job, left=replace(job.left, time="page")))
