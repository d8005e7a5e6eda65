"""A windows job: what is measured, per key, over windows of event time."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Literal, Self, get_args

from millstream.errors import UsageError
from millstream.spark.jobs.description.durations import parse_duration_ms
from millstream.spark.jobs.description.job_settings import Job
from millstream.spark.jobs.description.measure import COLUMN, Measure, parse_measure
from millstream.spark.jobs.description.topic_input import TopicInput, check_word

WindowKind = Literal["tumbling", "sliding", "session"]
RESULT_COLUMNS = ("window_start", "window_end")


@dataclass(frozen=True)
class Window:
    """Windows of event time."""

    kind: WindowKind = "tumbling"
    size: str = ""
    """How long a tumbling or sliding window is."""
    slide: str = ""
    """How far apart sliding windows begin."""
    gap: str = ""
    """A session ends when so long nothing came."""
    by: tuple[str, ...] = ()
    """The columns that make the key: each of their values has windows of its own."""

    def __post_init__(self) -> None:
        check_word("kind", self.kind, get_args(WindowKind))
        wanted = {"tumbling": ("size",), "sliding": ("size", "slide"), "session": ("gap",)}[self.kind]
        for name in ("size", "slide", "gap"):
            text = getattr(self, name)
            if name in wanted and not text:
                raise UsageError(f'{name}: windows of kind {self.kind} need it, as in {name} = "10 minutes"')
            if name not in wanted and text:
                raise UsageError(f"{name}: windows of kind {self.kind} have none; they have {' and '.join(wanted)}")
            if text:
                parse_duration_ms(name, text)
        if self.kind == "sliding" and self.length_ms % self.step_ms:
            raise UsageError(f"slide: {self.slide!r} does not divide the size, {self.size!r}: every event has to be in as many windows")
        for name in self.by:
            if not COLUMN.fullmatch(name):
                raise UsageError(f"by: {name!r} is not the name of a column. What has to be computed goes to [input.columns]")
        if len({_result_name(name).lower() for name in self.by}) < len(self.by):
            raise UsageError("by: a column is there twice")

    @property
    def length_ms(self) -> int:
        """How long a window is; of a session, the gap."""
        return parse_duration_ms("gap", self.gap) if self.kind == "session" else parse_duration_ms("size", self.size)

    @property
    def step_ms(self) -> int:
        """How far apart windows begin."""
        return parse_duration_ms("slide", self.slide) if self.kind == "sliding" else self.length_ms


@dataclass(frozen=True, kw_only=True)
class WindowsJob(Job):
    """Counts and the like per key over windows of event time."""

    input: TopicInput
    window: Window
    measures: Mapping[str, str]
    """The columns of the results and how they are made: see `measure`."""
    complete_from_ms: int = 0
    """Windows that begin before this time are left out: a replay that begins there has not seen all of them."""

    def __post_init__(self) -> None:
        super().__post_init__()
        # Spark takes names that differ only in case for the same.
        taken = {name.lower() for name in (*RESULT_COLUMNS, *self.keys)}
        if not self.measures:
            raise UsageError('[measures]: nothing is measured: add a line such as views = "count"')
        for measure in self.parsed_measures:
            if measure.name.lower() in taken:
                raise UsageError(f"[measures] {measure.name}: the results have a column of this name already: choose another")
            taken.add(measure.name.lower())
            if not COLUMN.fullmatch(measure.name) or "." in measure.name:
                raise UsageError(f"[measures]: {measure.name!r} cannot be the name of a column: use letters, digits and _")
        self.check_columns({})

    @property
    def parsed_measures(self) -> list[Measure]:
        """What is measured."""
        return [parse_measure(name, text) for name, text in self.measures.items()]

    @property
    def keys(self) -> list[str]:
        """What the columns of the key are called in the results: the last part of a nested name."""
        return [_result_name(name) for name in self.window.by]

    @property
    def result_columns(self) -> list[str]:
        """The columns of the results."""
        return [*RESULT_COLUMNS, *self.keys, *self.measures]

    @property
    def inputs(self) -> dict[str, TopicInput]:
        return {"input": self.input}

    @property
    def span_ms(self) -> int:
        return self.window.length_ms + self.input.watermark_ms

    def begun_at(self, starts: Mapping[str, str]) -> Self:
        return replace(self, input=self.input.replayed_from(starts["input"]))

    def check_columns(self, fields: Mapping[str, list[str] | None]) -> None:
        used = {"[window] by": list(self.window.by)}
        used |= {f"[measures] {measure.name}": [measure.column] for measure in self.parsed_measures if measure.column}
        self.input.check_columns("input", used, fields.get("input"))

    def identity(self) -> dict[str, object]:
        return {
            "job": "windows",
            "input": self.input.identity(),
            "window": asdict(self.window),
            "measures": dict(self.measures),
            "output": [self.output.topic, self.output.table],
        }


def _result_name(column: str) -> str:
    return column.rpartition(".")[2]
