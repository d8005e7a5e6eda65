"""What a scan was asked for, checked before any broker is asked.

`options` are Kafka's own, by its names or librdkafka's: all that is about TLS and logins (`client.security`), and the few below. An unknown
name is an error.
"""

import difflib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, ClassVar, Final, Literal, TypeVar, get_args

from millstream.address import parse_bootstrap_servers
from millstream.arrow.columns import Mode
from millstream.arrow.data_loss import DataLoss
from millstream.client.cluster import Cluster
from millstream.client.security.client_security import PREFIXES, ClientSecurity
from millstream.errors import UsageError
from millstream.registry.addresses import Addresses, parse_addresses
from millstream.tables.position import Points, Position, check_order, parse_position

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger(__name__)

FieldFormat = Literal["binary", "string", "json", "avro", "auto"]
Word = TypeVar("Word", bound=str)

DEFAULT_BROKERS: Final = "127.0.0.1:9092"
_FETCH_BYTES: Final = 4 * 1024 * 1024
_LARGEST_INT: Final = 2**31 - 1
_NUMBERS: Final = {"max.partition.fetch.bytes": _FETCH_BYTES, "request.timeout.ms": 30_000, "poll.timeout.ms": 120_000}
_KNOWN: Final = (*_NUMBERS, "client.id", "isolation.level", "check.crcs")


@dataclass(frozen=True, slots=True)
class FieldOptions:
    """How keys or values are read; `schema` is an Avro schema, or the columns of JSON."""

    format: FieldFormat
    schema: "str | Mapping[str, str] | pa.Schema | None" = None
    subject: str | None = None


@dataclass(frozen=True, slots=True)
class ScanOptions:
    """Everything that was asked for."""

    topic: str
    brokers: str
    start: Points
    end: Points
    partitions: tuple[int, ...] | None
    columns: tuple[str, ...] | None
    key: FieldOptions
    value: FieldOptions
    registry: Addresses | None
    mode: Mode
    flatten: bool
    fail_on_data_loss: bool
    threads: int | None
    follow: bool
    client_id: str
    security: ClientSecurity
    read_committed: bool
    check_crcs: bool
    fetch_bytes: int
    request_timeout_ms: int
    poll_timeout_ms: int

    poll_timeout_option: ClassVar[str] = "poll.timeout.ms"

    def open_cluster(self) -> Cluster:
        """The brokers, for one thread."""
        timeout_s = self.request_timeout_ms / 1000
        return Cluster(self.brokers, client_id=self.client_id, timeout_s=timeout_s, security=self.security)

    def report_data_loss(self, what: str) -> None:
        """Records that were to be read are not there: raises `DataLoss`, or logs a warning."""
        if self.fail_on_data_loss:
            raise DataLoss(f"{what}. fail_on_data_loss=False (a query: --allow-data-loss) reads what there is")
        logger.warning("%s. Some rows may be missing", what)


def make_options(
    topic: str,
    *,
    brokers: str | Iterable[str],
    start: Position,
    end: Position,
    partitions: Iterable[int] | None,
    columns: Sequence[str] | None,
    key: FieldOptions,
    value: FieldOptions,
    registry: str | Sequence[str] | None,
    mode: Mode,
    flatten: bool,
    fail_on_data_loss: bool,
    threads: int | None,
    follow: bool,
    options: Mapping[str, str] | None,
) -> ScanOptions:
    """The options of a scan, or a `UsageError` that says which one is wrong and what it may be."""
    if not topic or not isinstance(topic, str):
        raise UsageError("topic: give the name of one topic")
    now = datetime.now(UTC)
    first, last = parse_position("start", start, now=now), parse_position("end", end, now=now)
    check_order(first, last)
    if follow and end != "latest":
        raise UsageError("end: with follow=True there is no end; leave it out")
    if threads is not None and threads < 1:
        raise UsageError(f"threads: {threads} is not above zero")
    if isinstance(columns, str) or (columns is not None and not columns):
        raise UsageError(f"columns: {columns!r} is not a list of names; leave it out for all columns")
    client = _ClientOptions(options or {})
    return ScanOptions(
        topic=topic,
        brokers=_brokers(brokers),
        start=first,
        end=last,
        partitions=None if partitions is None else _partitions(partitions),
        columns=None if columns is None else tuple(columns),
        key=_checked("key", key, registry),
        value=_checked("value", value, registry),
        registry=None if registry is None else parse_addresses(registry),
        mode=one_of("mode", str(mode).upper(), get_args(Mode)),
        flatten=flatten,
        fail_on_data_loss=fail_on_data_loss,
        threads=threads,
        follow=follow,
        client_id=client.values.get("client.id", "millstream-table"),
        security=ClientSecurity.of(client.values),
        read_committed=client.word("isolation.level", "read_uncommitted", "read_committed") == "read_committed",
        check_crcs=client.word("check.crcs", "true", "false") == "true",
        fetch_bytes=client.number("max.partition.fetch.bytes"),
        request_timeout_ms=client.number("request.timeout.ms"),
        poll_timeout_ms=client.number("poll.timeout.ms"),
    )


def one_of(name: str, given: str, allowed: tuple[Word, ...]) -> Word:
    """One of a few words."""
    for word in allowed:
        if word == given:
            return word
    raise UsageError(f"{name}: {given!r} is none of {', '.join(allowed)}")


def did_you_mean(wrong: str, known: Iterable[str], *, otherwise: Callable[[], str]) -> str:
    """A hint for a name that is not there."""
    near = difflib.get_close_matches(wrong, list(known), n=1)
    return f"did you mean {near[0]!r}?" if near else otherwise()


def scan_options_among(options: Mapping[str, str]) -> dict[str, str]:
    """Those of a client's options that a scan has."""
    return {name: value for name, value in options.items() if name in _KNOWN or name.startswith(PREFIXES)}


class _ClientOptions:
    """Options by Kafka's names."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self.values = {str(name): str(value) for name, value in given.items()}
        for name in self.values:
            if not scan_options_among({name: ""}):
                hint = did_you_mean(name, _KNOWN, otherwise=lambda: f"there are {', '.join(_KNOWN)}, and those about TLS and logins")
                raise UsageError(f"options: a scan has no option {name!r}; {hint}")

    def number(self, name: str) -> int:
        """A whole number above zero."""
        text = self.values.get(name, str(_NUMBERS[name]))
        if not (text.isascii() and text.isdecimal()) or not 0 < int(text) <= _LARGEST_INT:
            raise UsageError(f"options: {name} is {text!r}, not a whole number above zero and below 2^31")
        return int(text)

    def word(self, name: str, default: str, other: str) -> str:
        """One of two words."""
        return one_of(f"options: {name}", self.values.get(name, default).lower(), (default, other))


def _brokers(given: str | Iterable[str]) -> str:
    return ",".join(map(str, parse_bootstrap_servers(given)))


def _partitions(given: Iterable[int]) -> tuple[int, ...]:
    numbers = tuple(sorted(set(given)))
    if not numbers or any(type(number) is not int or number < 0 for number in numbers):
        raise UsageError(f"partitions: {list(numbers)} are no partitions; as in [0, 1], or leave it out for all")
    return numbers


def _checked(name: str, field: FieldOptions, registry: object) -> FieldOptions:
    one_of(f"{name}_format", field.format, get_args(FieldFormat))
    if field.format == "avro" and registry is None:
        raise UsageError(f"registry: {name}_format='avro' needs it, as in registry='http://127.0.0.1:8081'")
    if field.schema is not None and field.format not in {"json", "avro"}:
        raise UsageError(f"{name}_schema: it goes with {name}_format='json' (the columns) or 'avro' (a schema)")
    if field.format == "avro" and field.schema is not None and not isinstance(field.schema, str):
        raise UsageError(f"{name}_schema: with {name}_format='avro' it is an Avro schema, as text")
    if field.subject is not None and (field.format not in {"avro", "auto"} or field.schema is not None):
        raise UsageError(f"{name}_subject: it goes with {name}_format='avro', where {name}_schema is not given")
    return field
