"""A join job: the events of a stream, each with those of another stream that are near to it in time, or with the row of a table."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Literal, Self, get_args

from millstream.errors import UsageError
from millstream.spark.jobs.description.durations import parse_duration_ms
from millstream.spark.jobs.description.job_settings import Job
from millstream.spark.jobs.description.measure import COLUMN
from millstream.spark.jobs.description.topic_input import TopicInput, ValueFormat, check_topic, check_word, top_level_names

JoinKind = Literal["inner", "left"]
TableFormat = Literal["parquet", "json", "csv", "delta"]


@dataclass(frozen=True)
class JoinTable:
    """A table: files, or what a topic says last about each key."""

    path: str = ""
    format: TableFormat | ValueFormat = "parquet"
    topic: str = ""
    schema: str = ""
    """For json and csv: the columns."""
    refresh: str = "1 minute"
    """How often, between two micro-batches, the table is looked at, and read again if it has changed."""

    def __post_init__(self) -> None:
        if bool(self.path) == bool(self.topic):
            raise UsageError('a table is either files, path = "...", or a topic, topic = "...": give one of the two')
        check_word("format", self.format, get_args(TableFormat) if self.path else get_args(ValueFormat))
        if self.topic:
            check_topic("topic", self.topic)
        needs_schema = self.format in {"json", "csv"}
        if needs_schema != bool(self.schema):
            what = 'needs it: the columns, as in schema = "user STRING, country STRING"' if needs_schema else "brings its own: leave it out"
            raise UsageError(f"schema: a table of format {self.format} {what}")
        self.refresh_ms  # noqa: B018 -- raises if it is none

    @property
    def name(self) -> str:
        """What it is called in messages: its topic or path."""
        return self.topic or self.path

    @property
    def refresh_ms(self) -> int:
        """How often it is looked at."""
        return parse_duration_ms("refresh", self.refresh, may_be_zero=True)


@dataclass(frozen=True)
class JoinRule:
    """Which events belong together."""

    on: tuple[str, ...]
    """Columns of the same name that have to be equal on both sides."""
    type: JoinKind = "inner"
    """`left` also gives events of the left side for which nothing came, when it is certain that nothing will."""
    within: str = ""
    """How much later than the left event the right one may be."""
    before: str = "0 seconds"
    """How much earlier than the left event the right one may be."""

    def __post_init__(self) -> None:
        check_word("type", self.type, get_args(JoinKind))
        if not self.on:
            raise UsageError('on: name the columns that have to be equal, as in on = ["user"]')
        for name in self.on:
            if not COLUMN.fullmatch(name) or "." in name:
                raise UsageError(
                    f"on: {name!r} is not the name of a column. What has to be computed goes to [left.columns] and [right.columns]"
                )
        if self.within:
            parse_duration_ms("within", self.within, may_be_zero=True)
        parse_duration_ms("before", self.before, may_be_zero=True)

    @property
    def within_ms(self) -> int:
        """How much later the right event may be."""
        return parse_duration_ms("within", self.within, may_be_zero=True)

    @property
    def before_ms(self) -> int:
        """How much earlier it may be."""
        return parse_duration_ms("before", self.before, may_be_zero=True)


@dataclass(frozen=True, kw_only=True)
class JoinJob(Job):
    """The events of a stream together with those of another one, or with a table."""

    left: TopicInput
    join: JoinRule
    right: TopicInput | None = None
    table: JoinTable | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.right is None) == (self.table is None):
            raise UsageError("a join has either another stream, [right], or a table, [table]: give one of the two")
        if self.right is not None and not self.join.within:
            raise UsageError('[join] within: two streams need it: how much later the right event may be, as in within = "10 minutes"')
        if self.table is not None:
            if self.join.within or self.join.before_ms:
                raise UsageError("[join] within, before: the rows of a table have no time: leave them out")
            if "avro" in self.table.format and not self.registry:
                raise UsageError('registry: format = "avro" needs it: where the schema registry is')
        self.check_columns({})

    @property
    def inputs(self) -> dict[str, TopicInput]:
        return {"left": self.left} | ({"right": self.right} if self.right is not None else {})

    @property
    def span_ms(self) -> int:
        watermark_ms = max(one.watermark_ms for one in self.inputs.values())
        return watermark_ms + (self.join.within_ms + self.join.before_ms if self.right is not None else 0)

    @property
    def is_repeatable(self) -> bool:
        # A table may be another one when the job is started again.
        return self.table is None

    def begun_at(self, starts: Mapping[str, str]) -> Self:
        right = None if self.right is None else self.right.replayed_from(starts["right"])
        return replace(self, left=self.left.replayed_from(starts["left"]), right=right)

    def check_columns(self, fields: Mapping[str, list[str] | None]) -> None:
        for section, one in self.inputs.items():
            one.check_columns(section, {"[join] on": self.join.on}, fields.get(section))
        if self.table is not None and self.table.schema:
            missing = [name for name in self.join.on if name not in top_level_names(self.table.schema)]
            if missing:
                raise UsageError(
                    f"[join] on: the table has no column {missing[0]!r}. It has: {', '.join(top_level_names(self.table.schema))}"
                )

    def identity(self) -> dict[str, object]:
        return {
            "job": "join",
            **{section: one.identity() for section, one in self.inputs.items()},
            "join": asdict(self.join),
            "output": [self.output.topic, self.output.table],
        }
