"""The options of a read or a write: one way to find, check and name them.

Names are found whatever their case, as everywhere in Spark. A name that neither direction knows is an error: a misspelt option that is
silently ignored costs an afternoon. What only the other direction obeys is accepted, because a table of SQL has one list of options for
both. `kafka.*` are Kafka's own: `source.read_options` and `sink.producer_options` say which are obeyed and which are refused.
"""

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar, get_args

from millstream.arrow.columns import Field, Format
from millstream.audited.settings import AuditSettings
from millstream.client.errors import SecurityOptionError
from millstream.client.security.client_security import ClientSecurity
from millstream.errors import UsageError
from millstream.registry.addresses import Addresses, parse_addresses

Word = TypeVar("Word", bound=str)

SERVERS: Final = "kafka.bootstrap.servers"
_REGISTRY: Final = "schema.registry.url"
_SHARED: Final = (
    SERVERS, "includeHeaders", "key.format", "value.format", "key.schema", "value.schema", "key.subject", "value.subject", _REGISTRY,
    "schema.registry.basic.auth.user.info", "audit",
)  # fmt: skip
_LARGEST_INT: Final = 2**31 - 1
LARGEST_LONG: Final = 2**63 - 1
_TIME_UNITS_MS: Final = {"": 1, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


@dataclass(frozen=True, slots=True)
class Direction:
    """A read or a write: the options it obeys, how a message lists them, and what Spark itself adds to them (in lower case)."""

    names: tuple[str, ...]
    introduction: str
    sparks_own: frozenset[str]


READ: Final = Direction(
    (
        *_SHARED, "subscribe", "subscribePattern", "assign", "startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets",
        "startingOffsetsByTimestampStrategy", "endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets", "failOnDataLoss",
        "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "minPartitions", "maxRecordsPerPartition",
        "minRecordsPerPartition", "groupIdPrefix", "kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs",
        "group.id", "isolation.level", "columns", "mode",
    ),
    "There are",
    frozenset({"path", "serialization.format"}),
)  # fmt: skip
WRITE: Final = Direction(
    (*_SHARED, "topic", "auto.register.schemas", "use.latest.version", "skipReplayedBatches", "delivery.guarantee"),
    "A write has",
    frozenset({"path", "serialization.format", "checkpointlocation", "queryname", "outputmode"}),
)
_SPELLING: Final = {name.lower(): name for name in (*READ.names, *WRITE.names)}


class OptionError(UsageError):
    """An option of a read or write that cannot be obeyed: the message names it and says what is allowed."""

    def __init__(self, option: str, problem: str) -> None:
        super().__init__(f"option {option}: {problem}")


@dataclass(frozen=True, slots=True)
class FieldOptions:
    """How keys or values are read or written: `schema` is an Avro schema, or DDL where json is read; `subject` is the registry's."""

    format: Format = "binary"
    schema: str | None = None
    subject: str | None = None


class Options(Mapping[str, str]):
    """The options that were given, under their own spelling (`kafka.*` in lower case); each method reads one, or says what it may be."""

    def __init__(self, given: Mapping[str, str], direction: Direction) -> None:
        names = [name for name in given if name.lower() not in direction.sparks_own]
        self._values = {_spell(name, direction): given[name] for name in names}

    def __getitem__(self, name: str) -> str:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def kafka(self) -> dict[str, str]:
        """Kafka's own options, without their prefix."""
        return {name.removeprefix("kafka."): value for name, value in self.items() if name.startswith("kafka.")}

    def refuse_kafka(self, refused: Mapping[str, str]) -> None:
        """Refuse these options of Kafka, each for its reason."""
        for name, reason in refused.items():
            if f"kafka.{name}" in self:
                raise OptionError(f"kafka.{name}", f"it cannot be set: {reason}")

    def security(self) -> ClientSecurity:
        """TLS and the login of Kafka's options `kafka.security.*`, `kafka.ssl.*` and `kafka.sasl.*`."""
        try:
            return ClientSecurity.of(self.kafka())
        except SecurityOptionError as error:
            raise OptionError(f"kafka.{error.option}", error.problem) from None

    def bootstrap_servers(self) -> str:
        """The addresses of brokers, without spaces and empty ones."""
        servers = [server.strip() for server in self.get(SERVERS, "").split(",") if server.strip()]
        if not servers:
            # Spark hands the options of a table in its catalog to Java sources only.
            hint = "" if self.kafka() else " In SQL use CREATE TEMPORARY VIEW: CREATE TABLE does not pass its options on."
            raise OptionError(SERVERS, f"it is required: addresses of brokers, as in 127.0.0.1:9092, separated by commas.{hint}")
        for server in servers:
            if not re.fullmatch(r"(?:[^:\s]+|\[[0-9a-fA-F:]+\]):[0-9]{1,5}", server):
                raise OptionError(SERVERS, f"{server!r} is not an address: give host:port, separated by commas")
        return ",".join(servers)

    def field(self, field: Field) -> FieldOptions:
        """How keys or values are read or written."""
        format_: Format = self.word(f"{field}.format", get_args(Format), default="binary")
        if format_ == "avro" and _REGISTRY not in self:
            raise OptionError(_REGISTRY, f"{field}.format = avro needs it: where the schema registry is, as in http://127.0.0.1:8081")
        return FieldOptions(format_, self.text(f"{field}.schema"), self.text(f"{field}.subject"))

    def registry(self) -> Addresses | None:
        """Where the schema registry is, with the name and password that go with it, which no message shows."""
        url = self.text(_REGISTRY)
        if url is None:
            return None
        try:
            return parse_addresses(url, user_info=self.get("schema.registry.basic.auth.user.info", ""), needs_scheme=True)
        except UsageError as error:
            raise OptionError(_REGISTRY, str(error)) from None

    def audit(self) -> AuditSettings | None:
        """The tier of the audit that the query counts for."""
        tier = self.text("audit")
        if tier is None:
            return None
        try:
            return AuditSettings(tier, application="spark", options=self.kafka())
        except UsageError as error:
            raise OptionError("audit", str(error)) from None

    def text(self, name: str) -> str | None:
        """A text that is not empty."""
        text = self.get(name)
        if text is not None and not text.strip():
            raise OptionError(name, "it is empty")
        return text

    def word(self, name: str, allowed: tuple[Word, ...], *, default: Word) -> Word:
        """One of a few words, whatever its case."""
        text = self.get(name, default)
        for word in allowed:
            if word.lower() == text.strip().lower():
                return word
        raise OptionError(name, f"{text!r} is none of {', '.join(allowed)}")

    def flag(self, name: str, *, default: bool) -> bool:
        """True or false."""
        return self.word(name, ("true", "false"), default=str(default)) == "true"

    def positive(self, name: str) -> int | None:
        """A whole number above zero."""
        text = self.get(name)
        if text is None:
            return None
        if not re.fullmatch(r"\s*[0-9]{1,19}\s*", text, re.ASCII) or not 0 < int(text) <= LARGEST_LONG:
            raise OptionError(name, f"{text!r} is not a whole number above zero and below 2^63")
        return int(text)

    def number(self, name: str, default: int, *, lowest: int = 1, highest: int = _LARGEST_INT) -> int:
        """A number of Kafka's type `int`, or `long`."""
        text = self.get(name)
        if text is None:
            return default
        try:
            number = int(text)
        except ValueError:
            raise OptionError(name, f"{text!r} is not a whole number") from None
        if not lowest <= number <= highest:
            raise OptionError(name, f"{number} is not between {lowest} and {highest}")
        return number

    def duration_ms(self, name: str, *, default: str) -> int:
        """A duration as it is written everywhere in Spark."""
        text = self.get(name, default)
        found = re.fullmatch(r"\s*([0-9]+)\s*([a-z]*)\s*", text.lower())
        if not found or found[2] not in _TIME_UNITS_MS:
            raise OptionError(name, f"{text!r} is not a duration: give a number with ms, s, m, h or d, as in 15m")
        return int(found[1]) * _TIME_UNITS_MS[found[2]]


def _spell(name: str, direction: Direction) -> str:
    lower = name.lower()
    if lower in _SPELLING or lower.startswith("kafka."):
        return _SPELLING.get(lower, lower)
    close = difflib.get_close_matches(lower, [known.lower() for known in direction.names], n=1)
    listing = f"{direction.introduction}: {', '.join(direction.names)}, and kafka.* for Kafka's own."
    raise OptionError(name, f"there is no such option. {f'Did you mean {_SPELLING[close[0]]}?' if close else listing}")
