"""What a job reads: a topic, how its values become columns, and which of them is the time of the event.

The columns of an event are the fields of the message's value, those that `columns` computes, and of the message itself:

    message_key  message_time  message_partition  message_offset
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, Self, get_args

from millstream.errors import UsageError
from millstream.spark.jobs.description.durations import parse_duration_ms
from millstream.spark.jobs.description.measure import COLUMN
from millstream.spark.jobs.running.suggestion import did_you_mean

ValueFormat = Literal["json", "avro", "string"]
Malformed = Literal["fail", "skip", "dead-letters"]
MESSAGE_COLUMNS: Final = {
    "message_key": "key",
    "message_time": "timestamp",
    "message_partition": "partition",
    "message_offset": "offset",
}
"""The names of the message's own columns, and what the source calls them."""
EVENT_TIME: Final = "event_time"
"""The column that watermarks and windows go by; it is made from the one that `time` names."""
DEAD_LETTER_OPTIONS: Final = {"retention.ms": "-1"}
"""Options of a topic for dead letters that has to be created: they stay."""
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
_START: Final = re.compile(r"earliest|latest|@[0-9]{1,18}|\{.*\}")
_NAME: Final = re.compile(r"\s*(?:`([^`]+)`|([^\s:]+))")
_OPENING, _CLOSING = "<(", ">)"


@dataclass(frozen=True)
class TopicInput:
    """A topic as a stream of events."""

    topic: str
    format: ValueFormat = "json"
    """What values are: json needs `schema`, avro is described by the registry, string has one column `value`."""
    schema: str = ""
    """For json: the columns, as in `page STRING, ms BIGINT`."""
    time: str = "message_time"
    """The column with the time of the event: a timestamp, or a whole number of milliseconds since 1970."""
    watermark: str = "10 minutes"
    """How much later than the newest event another one may come and still count."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Columns that are computed: names, and expressions of Spark's SQL."""
    added: tuple[str, ...] = ()
    """Columns that the function adds which a job in Python is given, so that others may name them; a file has none."""
    where: str = ""
    """A condition of Spark's SQL: other messages are left out."""
    deduplicate: bool | tuple[str, ...] = False
    """Drop repeated messages within the watermark: true by message key, or the columns that identify a message."""
    malformed: Malformed = "fail"
    """What becomes of a message that is not of its format: the job fails, or goes on without it and counts it, or also produces it to a
    topic of dead letters."""
    dead_letters: str = ""
    """That topic; TOPIC-dead-letters unless said otherwise."""
    start: str = "earliest"
    """Where a new job begins: earliest, latest, @ and milliseconds since 1970, or offsets as Spark writes them: {"topic": {"0": 23}}."""
    max_per_batch: int = 0
    """At most so many messages in one micro-batch; 0 is no limit."""

    def __post_init__(self) -> None:
        check_topic("topic", self.topic)
        for name, value, allowed in (("format", self.format, ValueFormat), ("malformed", self.malformed, Malformed)):
            check_word(name, value, get_args(allowed))
        if self.format == "json" and not self.schema.strip():
            raise UsageError('schema: values of format json need it: the columns, as in schema = "page STRING, ms BIGINT"')
        if self.format != "json" and self.schema:
            raise UsageError(f'schema: it describes json; values of format {self.format} need none. Leave it out, or set format = "json"')
        parse_duration_ms("watermark", self.watermark, may_be_zero=True)
        if not _START.fullmatch(self.start):
            raise UsageError(
                f'start: {self.start!r} is none of earliest, latest, @MILLISECONDS and offsets like {{"{self.topic}": {{"0": 23}}}}'
            )
        if self.max_per_batch < 0:
            raise UsageError(f"max-per-batch: {self.max_per_batch} is not a number of messages; 0 is no limit")
        for name in self.columns:
            if not COLUMN.fullmatch(name) or "." in name or name in {*MESSAGE_COLUMNS, EVENT_TIME}:
                raise UsageError(
                    f"columns: {name!r} cannot be the name of a computed column: use letters, digits and _, and none of the message's own"
                )
        if self.dead_letters:
            check_topic("dead-letters", self.dead_letters)
            if self.malformed != "dead-letters":
                raise UsageError(f'dead-letters: nothing goes there with malformed = "{self.malformed}": set malformed = "dead-letters"')
        if self.dead_letter_topic == self.topic:
            raise UsageError(f"dead-letters: {self.topic} is the topic that is read: give them another")
        if self.deduplicate == ():
            raise UsageError("deduplicate: the list is empty: name the columns that identify a message, or write true for the message key")

    @property
    def watermark_ms(self) -> int:
        """How late an event may be."""
        return parse_duration_ms("watermark", self.watermark, may_be_zero=True)

    @property
    def dead_letter_topic(self) -> str | None:
        """Where malformed messages are produced to; None if they are not."""
        return (self.dead_letters or f"{self.topic}-dead-letters") if self.malformed == "dead-letters" else None

    def replayed_from(self, start: str) -> Self:
        """The same input for a replay. Its malformed messages are counted; the live job has produced them as dead letters already."""
        malformed: Malformed = "skip" if self.malformed == "dead-letters" else self.malformed
        return replace(self, start=start, malformed=malformed, dead_letters="")

    def identity(self) -> dict[str, object]:
        """What decides what the state in a checkpoint is about; a filter or a watermark may change."""
        return {"topic": self.topic, "time": self.time, "columns": dict(self.columns), "deduplicate": self.deduplicate}

    def known_columns(self, fields: Iterable[str] | None = None) -> frozenset[str] | None:
        """The names of the columns, if they are known without Spark: of avro only with the `fields` that the registry has."""
        if fields is None:
            if self.format == "avro":
                return None
            fields = top_level_names(self.schema) if self.format == "json" else ("value",)
        return frozenset({*fields, *self.columns, *self.added, *MESSAGE_COLUMNS})

    def check_columns(self, section: str, used: Mapping[str, Iterable[str]], fields: Iterable[str] | None = None) -> None:
        """Raise if a setting uses a column that does not exist; `used` has the columns of each setting of the job about this input, which
        is this section of the file."""
        known = self.known_columns(fields)
        if known is None:
            return
        keys = self.deduplicate if isinstance(self.deduplicate, tuple) else ()
        for setting, names in {f"[{section}] time": [self.time], f"[{section}] deduplicate": keys, **used}.items():
            for name in names:
                if name.partition(".")[0].lower() not in {one.lower() for one in known}:
                    raise UsageError(
                        f"{setting}: the messages of {self.topic} have no column {name!r}.{did_you_mean(name, known)} "
                        f"There are: {', '.join(sorted(known))}"
                    )


def check_topic(setting: str, name: str) -> None:
    """Raise unless this can be the name of a topic."""
    if not _TOPIC.fullmatch(name):
        raise UsageError(f"{setting}: {name!r} cannot be the name of a topic: it has letters, digits, '.', '_' and '-', at most 249")


def check_word(setting: str, value: str, allowed: tuple[str, ...]) -> None:
    """Raise unless the value is one of a few words."""
    if value not in allowed:
        raise UsageError(f"{setting}: {value!r} is none of {', '.join(allowed)}.{did_you_mean(value, allowed)}")


def top_level_names(schema: str) -> list[str]:
    """The names of the columns in a schema as Spark writes it; what is nested in a column is left out."""
    depth, start, parts = 0, 0, []
    for position, letter in enumerate(schema):
        depth += (letter in _OPENING) - (letter in _CLOSING)
        if letter == "," and depth == 0:
            parts.append(schema[start:position])
            start = position + 1
    parts.append(schema[start:])
    found = [_NAME.match(part) for part in parts]
    return [name[1] or name[2] for name in found if name is not None]
