"""Everything that a load was asked for, checked before Spark starts."""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Final, Literal, Self, get_args

from millstream.arrow.columns import Format
from millstream.audited.settings import AuditSettings
from millstream.errors import UsageError
from millstream.registry.addresses import parse_addresses

TableKind = Literal["delta", "parquet"]
KeyFormat = Literal["binary", "string"]
Starting = Literal["earliest", "latest"]

DEFAULT_BATCH_MESSAGES: Final = 5_000_000
DEFAULT_EVERY_S: Final = 10.0
_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


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
    key_format: KeyFormat = "binary"
    registry: str | None = None
    name: str = "load"
    """Of the consumer group, `millstream-<name>`, that shows the lag."""
    starting: Starting = "earliest"
    once: bool = False
    every_s: float = DEFAULT_EVERY_S
    batch_messages: int = DEFAULT_BATCH_MESSAGES
    audit: str | None = None
    dead_letters: str | None = None
    """The topic of malformed messages; without it `<topic>-dead-letters`."""
    fails_on_malformed: bool = False
    fails_on_data_loss: bool = True
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Kafka's own, for TLS and logins."""

    def __post_init__(self) -> None:
        self._check_topics()
        for name, allowed in (("table", TableKind), ("value_format", Format), ("key_format", KeyFormat), ("starting", Starting)):
            if getattr(self, name) not in get_args(allowed):
                raise UsageError(f"{name.replace('_', '-')} {getattr(self, name)!r} is none of {', '.join(get_args(allowed))}.")
        if not _NAME.fullmatch(self.name):
            raise UsageError(f"name {self.name!r}: give letters, digits, dots, hyphens and underscores, at most 100 of them.")
        if self.value_format == "avro" and self.registry is None:
            raise UsageError("value-format avro needs a registry: where the schemas are, as in http://127.0.0.1:8081.")
        if self.value_format == "json" and not self.value_schema:
            raise UsageError("value-format json needs a value-schema: the columns, as in 'id BIGINT, name STRING'.")
        if self.value_schema and self.value_format != "json":
            raise UsageError("value-schema goes with value-format json; Avro has its columns from the registry.")
        if self.registry is not None:
            parse_addresses(self.registry, needs_scheme=True)
        if self.batch_messages < 1:
            raise UsageError(f"batch-messages {self.batch_messages}: give a number above zero.")
        if not 0 <= self.every_s <= 86_400:
            raise UsageError(f"every {self.every_s} seconds: give 0 (as soon as possible) to 86400.")
        if self.audit is not None:
            AuditSettings(self.audit)
        if self.table == "parquet":
            self._check_parquet()

    def _check_parquet(self) -> None:
        """What Spark's own Parquet sink cannot do."""
        if self.audit is not None:
            raise UsageError("audit: only a Delta table keeps its counts with the rows, so only a load into one can be audited.")
        if self.dead_letters is not None:
            raise UsageError("dead-letters: a load into Parquet ends at a malformed message; only one into Delta sorts them out.")
        if self.value_format == "avro" and len(self.topics) > 1:
            raise UsageError("a load of Avro into Parquet takes one topic, because a directory has one schema: start one for each.")

    @property
    def group(self) -> str:
        """The consumer group that shows how far the load is behind."""
        return f"millstream-{self.name}"

    def read_options(self) -> dict[str, str]:
        """The load as options of `format("millstream")`."""
        return {
            "kafka.bootstrap.servers": self.brokers,
            "subscribe": ",".join(self.topics),
            "startingOffsets": self.starting,
            "maxOffsetsPerTrigger": str(self.batch_messages),
            "failOnDataLoss": str(self.fails_on_data_loss).lower(),
            "group.id": self.group,
            **{f"kafka.{name}": value for name, value in self.options.items()},
        }

    def document(self) -> str:
        """The settings as a text, without what may be secret: that travels as options of Spark's, which hides it."""
        return json.dumps({**asdict(self), "options": {}})

    @classmethod
    def of(cls, document: str) -> Self:
        """What `document` made."""
        fields = json.loads(document)
        return cls(**{**fields, "topics": tuple(fields["topics"])})

    def dead_letter_topic(self, topic: str) -> str:
        """Where malformed messages of a topic go."""
        return self.dead_letters or f"{topic}-dead-letters"

    def _check_topics(self) -> None:
        if not self.topics:
            raise UsageError("topics: name at least one.")
        for topic in self.topics:
            if not _TOPIC.fullmatch(topic) or topic in {".", ".."}:
                raise UsageError(f"{topic!r} is not the name of a topic: letters, digits, '.', '_' and '-', at most 249 of them.")
        if len(set(self.topics)) < len(self.topics):
            raise UsageError(f"topics {','.join(self.topics)}: one is named twice.")
        if self.dead_letters in self.topics:
            raise UsageError(f"dead-letters {self.dead_letters}: it is one of the topics that are loaded, and would feed itself.")
