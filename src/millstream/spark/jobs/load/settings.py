"""Everything that a load was asked for, checked before Spark starts. A TOML file has the same names, with `-` for `_`."""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Final, Literal, Self, get_args
from urllib.parse import unquote

from millstream.arrow.columns import Format
from millstream.audited.settings import AuditSettings
from millstream.errors import UsageError
from millstream.registry.addresses import parse_addresses
from millstream.spark.jobs.description.durations import parse_duration_ms
from millstream.spark.jobs.running.job_name import check_name, group_of, name_after
from millstream.spark.jobs.running.suggestion import did_you_mean

TableKind = Literal["delta", "parquet", "iceberg"]
Starting = Literal["earliest", "latest"]

DEFAULT_BATCH_MESSAGES: Final = 5_000_000
DEFAULT_EVERY: Final = "10 seconds"
_LONGEST_PAUSE_MS: Final = 86_400_000
_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_SQL_VIEW: Final = re.compile(r"\bmessages\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSettings:
    """A load of topics into tables: `<to>/<topic>`, or `<to>/<topic>.<record>` where a topic has several record types."""

    brokers: str
    topics: tuple[str, ...]
    to: str
    checkpoint: str
    table: TableKind = "delta"
    value_format: Format = "binary"
    value_schema: str | None = None
    """The columns of JSON values, as DDL."""
    key_format: Format = "binary"
    key_schema: str | None = None
    """The columns of JSON keys, as DDL."""
    registry: str | None = None
    headers: bool = False
    """Whether there is a column of the messages' headers."""
    event_time: str | None = None
    """The field whose time decides about date and hour, instead of the message's own; with dots inside of records."""
    sql: str | None = None
    """A query over `messages` whose result is loaded."""
    name: str = ""
    """Of the load and its consumer group; empty: named after the checkpoint."""
    starting: Starting = "earliest"
    once: bool = False
    every: str = DEFAULT_EVERY
    """The time between two micro-batches."""
    batch_messages: int = DEFAULT_BATCH_MESSAGES
    audit: str | None = None
    dead_letters: str | None = None
    """The topic of malformed messages; without it `<topic>-dead-letters`."""
    fail_on_malformed: bool = False
    allow_data_loss: bool = False
    kafka: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Options of Kafka's clients, for TLS and logins."""
    catalog: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Properties of the catalog of Iceberg tables; empty: an SQLite file beside the tables."""

    def __post_init__(self) -> None:
        self._check_places()
        self._check_topics()
        for name, allowed in (("table", TableKind), ("value_format", Format), ("key_format", Format), ("starting", Starting)):
            given = getattr(self, name)
            if given not in get_args(allowed):
                words = ", ".join(get_args(allowed))
                raise UsageError(f"{name.replace('_', '-')} {given!r} is none of {words}.{did_you_mean(given, get_args(allowed))}")
        if self.name:
            check_name(self.name)
        self._check_formats()
        if self.batch_messages < 1:
            raise UsageError(f"batch-messages {self.batch_messages}: give a number above zero.")
        if self.every_ms > _LONGEST_PAUSE_MS:
            raise UsageError(f"every {self.every}: give a day at most; 0 s is as soon as possible.")
        if self.audit is not None:
            AuditSettings(self.audit)
        if self.catalog and self.table != "iceberg":
            raise UsageError(f"catalog: only Iceberg tables have one, and these are {self.table} tables.")
        if self.table == "parquet":
            self._check_parquet()
        if self.sql is not None:
            self._check_sql(self.sql)

    @property
    def every_ms(self) -> int:
        """The time between two micro-batches."""
        return parse_duration_ms("every", self.every, may_be_zero=True)

    @property
    def job_name(self) -> str:
        """The name of the load."""
        return self.name or name_after(self.checkpoint)

    @property
    def group(self) -> str:
        """The consumer group that shows how far the load is behind."""
        return group_of(self.job_name)

    def located(self) -> Self:
        """The same load with whole paths: tasks run in directories of their own."""
        return replace(self, to=_whole_path(self.to), checkpoint=_whole_path(self.checkpoint))

    def read_options(self) -> dict[str, str]:
        """The load as options of `format("millstream")`."""
        return {
            "kafka.bootstrap.servers": self.brokers,
            "subscribe": ",".join(self.topics),
            "startingOffsets": self.starting,
            "maxOffsetsPerTrigger": str(self.batch_messages),
            "failOnDataLoss": str(not self.allow_data_loss).lower(),
            "group.id": self.group,
            **{f"kafka.{name}": value for name, value in self.kafka.items()},
        }

    def document(self) -> str:
        """The settings as a text, without what may be secret: that travels as options of Spark's, which hides it."""
        return json.dumps({**asdict(self), "kafka": {}, "catalog": {}})

    @classmethod
    def of(cls, document: str, *, kafka: Mapping[str, str], catalog: Mapping[str, str]) -> Self:
        """What `document` made, and what it left out."""
        fields = json.loads(document)
        return cls(**{**fields, "topics": tuple(fields["topics"]), "kafka": kafka, "catalog": catalog})

    def dead_letter_topic(self, topic: str) -> str:
        """Where malformed messages of a topic go."""
        return self.dead_letters or f"{topic}-dead-letters"

    def _check_places(self) -> None:
        for name in ("brokers", "to", "checkpoint"):
            if not getattr(self, name).strip():
                raise UsageError(f"{name}: it is empty.")
        if self.table != "parquet" and "://" not in self.to and unquote(self.to) != self.to:
            raise UsageError(f"to {self.to}: libraries of tables take what follows a % for a letter: use a directory without it.")

    def _check_topics(self) -> None:
        if not self.topics:
            raise UsageError("topics: name at least one.")
        for topic in self.topics:
            if not _TOPIC.fullmatch(topic) or topic in {".", ".."}:
                raise UsageError(f"{topic!r} is not the name of a topic: letters, digits, '.', '_' and '-', at most 249 of them.")
        if len(set(self.topics)) < len(self.topics):
            raise UsageError(f"topics {','.join(self.topics)}: one is named twice.")
        for topic in self.topics:
            self._check_dead_letters(self.dead_letter_topic(topic))
        if self.dead_letters in self.topics:
            raise UsageError(f"dead-letters {self.dead_letters}: it is one of the topics that are loaded, and would feed itself.")

    def _check_dead_letters(self, name: str) -> None:
        """It is needed only after the commit of a micro-batch, which would then be done again for ever."""
        if not _TOPIC.fullmatch(name) and not (self.fail_on_malformed or self.sql is not None or self.table == "parquet"):
            raise UsageError(
                f"dead-letters {name!r}: messages that cannot be read would go to this topic, and it is no name of one: letters, digits, "
                "'.', '_' and '-', at most 249 of them. Give another with dead-letters."
            )

    def _check_formats(self) -> None:
        for part, form, schema in (("value", self.value_format, self.value_schema), ("key", self.key_format, self.key_schema)):
            if form == "avro" and self.registry is None:
                raise UsageError(f"{part}-format avro needs a registry: where the schemas are, as in http://127.0.0.1:8081.")
            if form == "json" and not schema:
                raise UsageError(f"{part}-format json needs a {part}-schema: the columns, as in 'id BIGINT, name STRING'.")
            if schema and form != "json":
                raise UsageError(f"{part}-schema goes with {part}-format json; Avro has its columns from the registry.")
        if self.registry is not None:
            parse_addresses(self.registry, needs_scheme=True)

    def _check_parquet(self) -> None:
        """What Spark's own Parquet sink cannot do."""
        if self.audit is not None:
            raise UsageError("audit: only Delta and Iceberg tables keep their counts with the rows, so only loads into them are audited.")
        if self.dead_letters is not None:
            raise UsageError("dead-letters: a load into Parquet ends at a malformed message; those into Delta and Iceberg sort them out.")
        if self.sql is not None:
            raise UsageError("sql: it goes with Delta and Iceberg tables, which know where they stand.")
        if "avro" in {self.value_format, self.key_format} and len(self.topics) > 1:
            raise UsageError("a load of Avro into Parquet takes one topic, because a directory has one schema: start one for each.")

    def _check_sql(self, sql: str) -> None:
        if len(self.topics) > 1:
            raise UsageError("sql: it takes one topic, because its result is one table: start a load for each.")
        if not _SQL_VIEW.search(sql):
            raise UsageError(f"sql: {sql!r} does not read the messages, which are called so: FROM messages.")
        if self.dead_letters is not None:
            raise UsageError("dead-letters: a load with sql ends at a malformed message; only plain loads sort them out.")


def _whole_path(address: str) -> str:
    return address if re.match(r"[a-z0-9]+:/", address) else str(Path(address).expanduser().absolute())
