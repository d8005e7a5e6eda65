from dataclasses import replace
from pathlib import Path

import pytest

from millstream.errors import UsageError
from millstream.spark.jobs.description.job_settings import JobOutput
from millstream.spark.jobs.description.join_job import JoinJob, JoinRule
from millstream.spark.jobs.description.replay import replayed
from millstream.spark.jobs.description.topic_input import TopicInput
from millstream.spark.jobs.description.windows_job import Window, WindowsJob

INPUT = TopicInput("views", format="string")
LIVE = WindowsJob(
    name="live",
    brokers="b:1",
    checkpoint="checkpoints/live/",
    output=JobOutput("counts"),
    input=INPUT,
    window=Window(size="1 hour"),
    measures={"views": "count"},
)
JOINED = JoinJob(
    name="live",
    brokers="b:1",
    checkpoint="checkpoints/live",
    output=JobOutput("counts"),
    left=INPUT,
    right=replace(INPUT, topic="clicks"),
    join=JoinRule(("value",), within="1 hour"),
)


def test_a_replay_shares_nothing_with_the_live_job() -> None:
    again = replayed(LIVE, {"input": "@5"}, topic="counts-again", from_ms=5)
    assert isinstance(again, WindowsJob)
    assert (again.name, again.group) == ("live-replay-counts-again", "millstream-pipeline-live-replay-counts-again")
    assert (again.output.topic, again.checkpoint) == ("counts-again", "checkpoints/live-replay-counts-again")
    assert (again.input.start, again.complete_from_ms) == ("@5", 5)
    assert again.window == LIVE.window


def test_sessions_that_may_have_begun_before_the_replay_are_left_out() -> None:
    again = replayed(replace(LIVE, window=Window("session", gap="1 hour")), {"input": "@5"}, topic="again", from_ms=5)
    assert isinstance(again, WindowsJob)
    assert again.complete_from_ms == 5 + 3_600_000


def test_both_sides_of_a_join_begin_anew() -> None:
    again = replayed(JOINED, {"left": "@5", "right": "latest"}, topic="again", from_ms=5)
    assert {section: one.start for section, one in again.inputs.items()} == {"left": "@5", "right": "latest"}


def test_a_replay_into_the_live_jobs_output_or_checkpoint_is_refused() -> None:
    with pytest.raises(UsageError, match="counts is where the live job writes"):
        replayed(LIVE, {"input": "earliest"}, topic="counts")
    with pytest.raises(UsageError, match="is the checkpoint of the live job"):
        replayed(LIVE, {"input": "earliest"}, topic="again", checkpoint="checkpoints/./live")
    with pytest.raises(UsageError, match="lake/counts/ is where the live job writes"):
        replayed(replace(LIVE, output=JobOutput(table="lake/counts")), {"input": "earliest"}, table="lake/counts/")
    live = replace(LIVE, output=JobOutput(table="lake/counts"))
    for same in (str(Path("lake/counts").absolute()), f"file://{Path('lake/counts').absolute()}"):
        with pytest.raises(UsageError, match="lake/counts is where the live job writes"):
            replayed(live, {"input": "earliest"}, table=same)
    with pytest.raises(UsageError, match="a replay needs a place for its results: --to-topic TOPIC, --to-table PATH"):
        replayed(LIVE, {"input": "earliest"}, checkpoint="elsewhere")


def test_a_replay_into_a_table_is_named_after_it() -> None:
    assert replayed(LIVE, {"input": "earliest"}, table="lake/by time (2)").name == "live-replay-by-time-2-"


def test_a_replay_counts_malformed_messages_and_does_not_produce_them_again() -> None:
    live = replace(LIVE, input=replace(INPUT, malformed="dead-letters", dead_letters="bad"))
    again = replayed(live, {"input": "earliest"}, topic="again")
    assert again.inputs["input"].malformed == "skip"
    assert again.inputs["input"].dead_letter_topic is None
