"""What all jobs have in common: a name, brokers, a checkpoint, and where results go."""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, Self, get_args

from millstream.errors import UsageError
from millstream.spark.jobs.description.durations import parse_duration_ms
from millstream.spark.jobs.description.topic_input import TopicInput, check_topic, check_word
from millstream.spark.jobs.running.job_name import check_name, group_of

ResultFormat = Literal["json", "avro"]
MOST_STATE_PARTITIONS: Final = 10_000
_PATTERN: Final = re.compile(r"[\[\]{}*?\\]")


@dataclass(frozen=True)
class JobOutput:
    """Where results go: a topic, a Delta table, or both."""

    topic: str = ""
    table: str = ""
    """The address of a Delta table: a directory, or `s3://` and the like."""
    format: ResultFormat = "json"
    partitions: int = 1
    """Of the topic, if the job has to create it; it is created compacted, because results have keys of their own."""
    skip_replayed_batches: bool = True
    """Whether a micro-batch that is on the topic is not written again. It stops the job if the micro-batch has other results now, because
    the job or a schema was changed just then: false writes them all the same, under the same keys."""

    def __post_init__(self) -> None:
        if not self.topic and not self.table:
            raise UsageError('results need a topic or a table: add topic = "...", table = "...", or both')
        if self.topic:
            check_topic("topic", self.topic)
        check_word("format", self.format, get_args(ResultFormat))
        if not 0 < self.partitions <= 10_000:
            raise UsageError(f"partitions: {self.partitions} is not a number of partitions")


@dataclass(frozen=True, kw_only=True)
class Job(ABC):
    """Settings of every job."""

    name: str
    """The job's name: that of the Spark query, and of the consumer group `millstream-pipeline-NAME` that shows its lag."""
    brokers: str
    checkpoint: str
    """The directory where Spark keeps how far the job is, and its state. One job, one checkpoint."""
    output: JobOutput
    registry: str = ""
    """The address of the schema registry, for avro."""
    trigger: str = "1 second"
    """The time between two micro-batches."""
    state_partitions: int = 0
    """Into how many parts Spark cuts the state, each the work of one core; 0: the cores that there are when the job first runs."""
    kafka: Mapping[str, str] = field(default_factory=dict)
    """Options of Kafka's clients, without `kafka.` in front: `security.protocol` and the like."""

    def __post_init__(self) -> None:
        check_name(self.name)
        for name in ("brokers", "checkpoint"):
            if not getattr(self, name).strip():
                raise UsageError(f"{name}: it is empty")
        if pattern := _PATTERN.search(self.checkpoint):
            raise UsageError(
                f"checkpoint: {self.checkpoint!r} has a {pattern[0]!r} in it, which Spark takes for a pattern: choose another name"
            )
        if not 0 <= self.state_partitions <= MOST_STATE_PARTITIONS:
            raise UsageError(f"state-partitions: {self.state_partitions} is not a number from 0 to {MOST_STATE_PARTITIONS}")
        self.trigger_ms  # noqa: B018 -- raises if it is none
        inputs = self.inputs
        if not self.registry and "avro" in {self.output.format, *(one.format for one in inputs.values())}:
            raise UsageError('registry: format = "avro" needs it: where the schema registry is, as in registry = "http://127.0.0.1:8081"')
        for section, one in inputs.items():
            if one.topic == self.output.topic:
                raise UsageError(f"[output] topic: {one.topic} is what [{section}] reads, too: the job would read its own results")
            if one.dead_letter_topic is not None and one.dead_letter_topic in {self.output.topic, *(two.topic for two in inputs.values())}:
                raise UsageError(
                    f"[{section}] dead-letters: {one.dead_letter_topic} is another topic of this job: give them one of their own"
                )

    @property
    @abstractmethod
    def inputs(self) -> dict[str, TopicInput]:
        """The streams that it reads, by the section of the job file."""

    @property
    @abstractmethod
    def span_ms(self) -> int:
        """How long after an event, in event time, its result may still change: what a topic has to keep."""

    @property
    def is_repeatable(self) -> bool:
        """Whether the same messages give the same results at any time."""
        return True

    @property
    def trigger_ms(self) -> int:
        """The time between two micro-batches."""
        return parse_duration_ms("trigger", self.trigger, may_be_zero=True)

    @property
    def group(self) -> str:
        """The consumer group that its progress is committed to."""
        return group_of(self.name)

    @abstractmethod
    def begun_at(self, starts: Mapping[str, str]) -> Self:
        """The same job for a replay, with other starts of its inputs, by section."""

    @abstractmethod
    def check_columns(self, fields: Mapping[str, list[str] | None]) -> None:
        """Raise if a column is used that does not exist; `fields` are those of avro values, by section, where they are known."""

    @abstractmethod
    def identity(self) -> dict[str, object]:
        """What decides what is in the checkpoint: a job that differs in it needs another checkpoint."""
