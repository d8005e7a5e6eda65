"""Answers as plain trees that can be compared, and the one table of what is not compared as it is.

| what | how it is compared |
|---|---|
| `MAPPED` fields: ids, ports, paths that each broker chooses | as symbols (`tests.differential.symbol`) |
| `PRESENCE` fields: sentences for people, sizes of the machine's disk, and times | whether there is one |
| arrays, unless in `ORDERED` | as sets: Kafka answers in the order of its hash tables |
| topics, groups, producers of other scenarios in an answer that lists everything | left out, by the prefix of the names |
| the size of the topic of committed offsets | left out: other scenarios wrote to it |
| partitions of a Fetch answer | as a set, and the order of those that have records |
| record batches | header by header and the bytes of the records; a CRC over a producer id only by whether it is right |

Everything else is compared exactly.
"""

import dataclasses
from collections.abc import Iterator
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, NamedTuple
from zlib import crc32

from crc32c import crc32c

from tests.batches import split_batches
from tests.differential.symbol import Symbol, Symbols, Unknown

MAPPED = {
    "cluster_id": "cluster",
    "leader": "member",
    "log_dir": "directory",
    "member_id": "member",
    "port": "port",
    "producer_id": "producer",
    "session_id": "session",
    "topic_id": "topic",
}
NO_VALUE = {None, "", -1}
"""What stands for "none" is the same at both."""
PRESENCE = {"error_message", "batch_index_error_message", "documentation", "total_bytes", "usable_bytes", "transaction_start_time"}
ORDERED = {"DescribeTopicPartitionsResponse.topics", "FetchResponse.responses", "FetchableTopicResponse.partitions"}
"""Where the order says something: where a page ends, and which partitions got the bytes first."""
LISTED_BY = ("name", "group_id", "topic_name", "transactional_id")
"""The fields that name what an array lists."""


class Difference(NamedTuple):
    """One field that is not the same."""

    path: str
    kafka: object
    ours: object


class Compared(NamedTuple):
    """Two answers, and Kafka's once more with everything named that it brought."""

    kafka: Any
    ours: Any
    answer: Any
    differences: list[Difference]


class Absent:
    """What the other side has not got."""

    def __repr__(self) -> str:
        return "(absent)"


ABSENT = Absent()


class Entries(list[Any]):
    """An array whose order says nothing."""

    def by_name(self) -> dict[str, Any] | None:
        """The entries by what they describe, if that is different for each."""
        names = [_name_of(one) for one in self]
        return None if "" in names or len(set(names)) < len(names) else dict(zip(names, self, strict=True))


def _name_of(entry: Any) -> str:
    if not isinstance(entry, dict):
        return ""
    named = [entry[field] for field in (*LISTED_BY, "topic", "topic_id") if entry.get(field) and not isinstance(entry[field], Unknown)]
    return "/".join(str(part) for part in [*named[:1], entry.get("partition_index")] if part is not None)


def tree(value: Any, symbols: Symbols, *, prefix: str, field: str = "", place: str = "") -> Any:
    """An answer of kio's as dictionaries, lists and plain values; only entries of names with the prefix stay in lists of names."""
    if dataclasses.is_dataclass(value):
        kind = type(value).__name__
        fields = {
            one.name: tree(getattr(value, one.name), symbols, prefix=prefix, field=one.name, place=f"{kind}.{one.name}")
            for one in dataclasses.fields(value)
        }
        if kind == "TransactionState" and fields.get("error_code", "none") != "none":
            fields["producer_id"] = getattr(value, "producer_id")  # noqa: B009 -- of one kind only; 0 stands for none, though a producer may have that number
        return _fetched(fields) if kind == "FetchResponse" else fields
    if isinstance(value, tuple):
        entries = [tree(one, symbols, prefix=prefix, field=field) for one in value if not _is_foreign(one, prefix)]
        return entries if place in ORDERED else Entries(sorted(entries, key=_sort_key))
    if field in MAPPED and value not in NO_VALUE and (value or field == "producer_id"):
        return symbols.named(MAPPED[field], value)
    if field in PRESENCE and value:
        return "(something)"
    if field == "records":
        return _batches(value, symbols)
    return _plain(value)


def _fetched(answer: dict[str, Any]) -> dict[str, Any]:
    """Where a partition stands in an answer says something only if it has records: others get them after it."""
    partitions = [
        {name: value for name, value in topic.items() if name != "partitions"} | one
        for topic in answer["responses"]
        for one in topic["partitions"]
    ]
    order = [
        (one.get("topic", one.get("topic_id")), one["partition_index"]) for one in partitions if one["records"] and one["records"]["size"]
    ]
    return answer | {"responses": Entries(sorted(partitions, key=_sort_key)), "with records": order}


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, timedelta):
        return round(value / timedelta(milliseconds=1))
    if isinstance(value, datetime):
        return round(value.timestamp() * 1000)
    return value


def _is_foreign(entry: Any, prefix: str) -> bool:
    if not dataclasses.is_dataclass(entry):
        return False
    names = [getattr(entry, field, None) for field in LISTED_BY]
    if type(entry).__name__ == "DescribeLogDirsTopic" and "__consumer_offsets" in names:
        return True
    return any(isinstance(name, str) and name.startswith("d-") and not name.startswith(prefix) for name in names)


def _sort_key(entry: Any) -> str:
    """Stable on both sides: what is not known yet sorts by the rest of its entry."""
    if isinstance(entry, dict):
        named = [_sort_key(entry[field]) for field in (*LISTED_BY, "topic", "topic_id", "partition_index") if field in entry]
        return repr((named, [(name, _sort_key(value)) for name, value in entry.items()]))
    if isinstance(entry, int):
        return f"{entry:+025d}"
    return "?" if isinstance(entry, Unknown) else repr(entry)


def _batches(data: bytes | None, symbols: Symbols) -> object:
    if data is None:
        return None
    batches: list[object] = []
    position = 0
    for header, batch in split_batches(data):
        producer: object = header.producer_id
        crc: object = header.crc
        if header.producer_id >= 0:
            producer = symbols.named("producer", header.producer_id)
            crc = "right" if crc32c(batch[21:]) == header.crc else "wrong"
        batches.append({**header._asdict(), "producer_id": producer, "crc": crc, "records": f"{crc32(batch[61:]):08x}"})
        position += len(batch)
    return {"size": len(data), "batches": batches, "bytes of a cut batch": len(data) - position}


class Unifier:
    """Compares two trees, and names what both sides show for the first time in the same place."""

    def __init__(self, kafka: Symbols, ours: Symbols) -> None:
        self._kafka = kafka
        self._ours = ours
        self._counts: dict[str, int] = {}

    def differences(self, kafka: Any, ours: Any, path: str = "") -> Iterator[Difference]:
        """Every field that is not the same."""
        if isinstance(kafka, dict) and isinstance(ours, dict):
            for name in kafka | ours:
                yield from self.differences(kafka.get(name, ABSENT), ours.get(name, ABSENT), f"{path}.{name}" if path else name)
        elif isinstance(kafka, Entries) and isinstance(ours, Entries) and kafka.by_name() and ours.by_name():
            yield from self.differences(kafka.by_name(), ours.by_name(), path)
        elif isinstance(kafka, list) and isinstance(ours, list):
            for index in range(max(len(kafka), len(ours))):
                one, other = (side[index] if index < len(side) else ABSENT for side in (kafka, ours))
                yield from self.differences(one, other, f"{path}[{index}]")
        elif isinstance(kafka, Unknown) and isinstance(ours, Unknown):
            # The same answer may have shown them before, in another field.
            again = self._kafka.named(*kafka), self._ours.named(*ours)
            if again == (kafka, ours):
                self._bind(kafka, ours)
            elif again[0] != again[1]:
                yield Difference(path, *again)
        elif kafka != ours:
            yield Difference(path, kafka, ours)

    def _bind(self, kafka: Unknown, ours: Unknown) -> None:
        number = self._counts[kafka.kind] = self._counts.get(kafka.kind, 0) + 1
        symbol = Symbol(kafka.kind, number)
        self._kafka.bind(symbol, kafka.value)
        self._ours.bind(symbol, ours.value)
