"""Buckets that are finished, as columns: what was judged of them, a few bytes per bucket and tier.

A ledger has sets of offsets, to compare tiers with; when a bucket is finished only the outcome is kept. One archive has buckets of one
topic and one day. Numbers stand in arrays, one entry per bucket, as narrow as the largest of them allows; what is seldom anything but zero
stands apart, by position. Sums stand in front, and columns are looked at only where rows are asked for. So a million buckets are read
and summed in less than a second.

    uint32 size of the tiers | tiers, JSON
    uint32 count of buckets | int64 first start | int64 step (0: the starts are a column) | type of the parts
    for each tier: int64 sum of counts | int64 sum of bytes | uint32 complete buckets | type of counts | type of bytes | uint32 size of rest
    int64 starts, if they are a column | parts | for each tier: counts | bytes | uint8 verdicts | the rest, JSON: [[position, fields], ...]

Numbers are little-endian: what was read is not copied, but looked at where it lies, on machines that are little-endian themselves. A type
is a letter of `array`.
"""

import json
import struct
import sys
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any, Final, TypeAlias, cast

from millstream.audit.ledger import Bucket
from millstream.audit.ledger_fields import tier_fields, tier_of
from millstream.audit.reports.report import ANY_PARTITION, Delay
from millstream.audit.reports.report_fields import MAX_LONG, Fields
from millstream.audit.tier_count import TierCount
from millstream.audit.topic_head import Tier
from millstream.audit.verdict import Place, Row, Verdict
from millstream.json_object import JsonObject

Numbers: TypeAlias = Sequence[int]
DAY_MS: Final = 24 * 3_600_000
SEVERITY: Final = (Verdict.COMPLETE, Verdict.OPEN, Verdict.UNKNOWN, Verdict.SURPLUS, Verdict.LATE, Verdict.MISSING)
"""From harmless to bad; the place of a verdict is its code."""
ABSENT: Final = 255
"""The tier has nothing to do with the bucket."""
_SIZE: Final = struct.Struct("<I")
_HEAD: Final = struct.Struct("<Iqqc")
_TIER: Final = struct.Struct("<qqIccI")
_CODES: Final = bytes([*range(len(SEVERITY)), ABSENT])
_WIDTHS: Final = {b"B": 1, b"H": 2, b"I": 4, b"q": 8}
_SELDOM: Final = ("missing", "surplus", "repeated", "malformed", "control", "aborted")


@dataclass(slots=True)
class TierColumns:
    """One tier's numbers, an entry per bucket of the archive. What was read cannot be added to."""

    total_count: int = 0
    total_bytes: int = 0
    complete: int = 0
    """Buckets that are."""
    seldom: dict[int, Fields] = field(default_factory=dict)
    """By position: what is not zero, and where it is."""
    _counts: "array[int] | tuple[memoryview, bytes]" = field(default_factory=lambda: array("q"))
    _sizes: "array[int] | tuple[memoryview, bytes]" = field(default_factory=lambda: array("q"))
    _verdicts: bytearray | memoryview = field(default_factory=bytearray)

    @property
    def counts(self) -> Numbers:
        """Messages."""
        return self._counts if isinstance(self._counts, array) else _numbers(*self._counts)

    @property
    def sizes(self) -> Numbers:
        """Bytes of messages."""
        return self._sizes if isinstance(self._sizes, array) else _numbers(*self._sizes)

    @property
    def verdicts(self) -> bytes:
        """Places in `SEVERITY`, or `ABSENT`."""
        return bytes(self._verdicts)

    def total(self, name: str) -> int:
        """The sum of one of the seldom numbers."""
        return sum(cast(int, fields.get(name, 0)) for fields in self.seldom.values())

    def difference_to_expected(self) -> int:
        """How many more than were counted should be there."""
        different = [(position, fields["expected"]) for position, fields in self.seldom.items() if "expected" in fields]
        return sum(cast(int, expected) - self.counts[position] for position, expected in different)

    def append(self, position: int, row: Row | None) -> None:
        """The numbers of the bucket at this position; those before have nothing of the tier, nor has this one without a row."""
        assert isinstance(self._counts, array)
        assert isinstance(self._sizes, array)
        assert isinstance(self._verdicts, bytearray)
        lacking = position - len(self._verdicts) + (row is None)
        for numbers in (self._counts, self._sizes):
            numbers.extend([0] * lacking)
        self._verdicts.extend([ABSENT] * lacking)
        if row is None:
            return
        self._counts.append(min(row.count, MAX_LONG))
        self._sizes.append(min(row.bytes, MAX_LONG))
        self._verdicts.append(SEVERITY.index(row.verdict))
        self.total_count += row.count
        self.total_bytes += row.bytes
        self.complete += row.verdict is Verdict.COMPLETE
        if seldom := _seldom(row):
            self.seldom[position] = seldom


class Archive:
    """Finished buckets of one topic and day."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.starts: Numbers = array("q")
        """A range, where one follows the other."""
        self._parts: array[int] | tuple[memoryview, bytes] = array("q")
        self.tiers: dict[Tier, TierColumns] = {}

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def parts(self) -> Numbers:
        """Which part of its bucket each one is."""
        return self._parts if isinstance(self._parts, array) else _numbers(*self._parts)

    def has(self, start: int, part: int) -> bool:
        """Whether this part of a bucket is in it."""
        return start in self.starts and any(known == start and self.parts[at] == part for at, known in enumerate(self.starts))

    def add(self, bucket: Bucket, rows: Iterable[Row]) -> None:
        """One more bucket, with what was judged of it."""
        position = len(self.starts)
        assert isinstance(self.starts, array)
        assert isinstance(self._parts, array)
        self.starts.append(bucket.start)
        self._parts.append(bucket.part)
        found = {row.tier: row for row in rows}
        for tier in found:
            self.tiers.setdefault(tier, TierColumns())
        for tier, columns in self.tiers.items():
            columns.append(position, found.get(tier))

    def rows(self) -> Iterator[Row]:
        """What was judged, bucket by bucket."""
        for position in range(len(self.starts)):
            yield from self.rows_at(position)

    def rows_at(self, position: int) -> Iterator[Row]:
        """What was judged of one bucket."""
        for tier, columns in self.tiers.items():
            if columns.verdicts[position] != ABSENT:
                yield _row(self.topic, self.starts[position], tier, columns, position)

    def open_starts(self) -> set[int]:
        """Starts of buckets that were still open when they were archived, because there were too many."""
        code = SEVERITY.index(Verdict.OPEN)
        with_open = [verdicts for columns in self.tiers.values() if columns.complete < len(self) and code in (verdicts := columns.verdicts)]
        return {self.starts[position] for verdicts in with_open for position, found in enumerate(verdicts) if found == code}

    def bucket_at(self, position: int) -> Bucket:
        """A bucket as numbers only, to be merged with what came of it later."""
        bucket = Bucket(self.starts[position], part=self.parts[position])
        for row in self.rows_at(position):
            count = bucket.tiers[row.tier] = TierCount()
            if row.count:
                count.unplaced[ANY_PARTITION] = row.count
            count.bytes, count.repeated, count.malformed = row.bytes, row.repeated, row.malformed
            count.control, count.aborted = row.control, row.aborted
        return bucket

    def encode(self) -> bytes:
        """The bytes of the archive."""
        names = json.dumps([tier_fields(tier) for tier in self.tiers], separators=(",", ":")).encode()
        starts = _as_range(self.starts)
        parts_type, parts = _narrow(self.parts)
        step = starts.step if starts is not None else 0
        head = [_SIZE.pack(len(names)), names, _HEAD.pack(len(self), self.starts[0] if len(self) else 0, step, parts_type)]
        body = [parts] if starts is not None else [_little_endian(array("q", self.starts)), parts]
        for columns in self.tiers.values():
            (counts_type, counts), (bytes_type, sizes) = _narrow(columns.counts), _narrow(columns.sizes)
            seldom = json.dumps(list(columns.seldom.items()), separators=(",", ":")).encode() if columns.seldom else b""
            sums = (min(columns.total_count, MAX_LONG), min(columns.total_bytes, MAX_LONG), columns.complete)
            head.append(_TIER.pack(*sums, counts_type, bytes_type, len(seldom)))
            body += (counts, sizes, columns.verdicts, seldom)
        return b"".join([*head, *body])

    @classmethod
    def decode(cls, topic: str, data: bytes) -> "Archive":
        """The archive in these bytes; a ValueError if they are none."""
        try:
            return _decoded(cls(topic), data)
        except (struct.error, KeyError):
            raise ValueError(f"{len(data)} bytes are no archive") from None


def _decoded(archive: Archive, data: bytes) -> Archive:
    (size,) = _SIZE.unpack_from(data)
    tiers = _tiers(data[_SIZE.size : _SIZE.size + size])
    position = _SIZE.size + size
    count, first, step, parts_type = _HEAD.unpack_from(data, position)
    position += _HEAD.size
    heads = [_TIER.unpack_from(data, position + number * _TIER.size) for number in range(len(tiers))]
    position += len(tiers) * _TIER.size
    lengths = [count * (_WIDTHS[counts_type] + _WIDTHS[bytes_type] + 1) + rest for *_, counts_type, bytes_type, rest in heads]
    if len(data) != position + count * ((0 if step else 8) + _WIDTHS[parts_type]) + sum(lengths):
        raise ValueError(f"{len(data)} bytes are not {count} buckets of {len(tiers)} tiers")
    view = memoryview(data)
    if step:
        archive.starts = range(first, first + step * count, step)
    else:
        archive.starts, position = _numbers(view[position : position + 8 * count], b"q"), position + 8 * count
    end = position + count * _WIDTHS[parts_type]
    archive._parts, position = (view[position:end], parts_type), end
    for tier, (total, total_bytes, complete, counts_type, bytes_type, rest) in zip(tiers, heads, strict=True):
        bytes_at = position + count * _WIDTHS[counts_type]
        verdicts_at = bytes_at + count * _WIDTHS[bytes_type]
        end = verdicts_at + count
        if strange := data[verdicts_at:end].translate(None, _CODES):
            raise ValueError(f"a verdict is one of {list(_CODES)}, and not {strange[0]}")
        archive.tiers[tier] = TierColumns(
            total,
            total_bytes,
            complete,
            _seldom_of(data[end : end + rest], count) if rest else {},
            (view[position:bytes_at], counts_type),
            (view[bytes_at:verdicts_at], bytes_type),
            view[verdicts_at:end],
        )
        position = end + rest
    return archive


@lru_cache
def _tiers(data: bytes) -> tuple[Tier, ...]:
    """Most archives have the same."""
    return tuple(tier_of(one) for one in JsonObject.parse(b'{"tiers":' + data + b"}").objects("tiers"))


def _seldom_of(data: bytes, count: int) -> dict[int, Fields]:
    items = JsonObject.parse(b'{"seldom":' + data + b"}").items("seldom")
    return {at: fields for at, fields in map(_seldom_entry, items) if at < count}


def _seldom(row: Row) -> Fields:
    fields: Fields = {name: value for name in _SELDOM if (value := getattr(row, name))}
    if row.expected != row.count:
        fields["expected"] = row.expected
    for name in ("losses", "surpluses"):
        if places := getattr(row, name):
            fields[name] = [asdict(place) for place in places]
    if row.delay is not None:
        fields["delay"] = list(row.delay)
    return fields


def _seldom_entry(item: object) -> tuple[int, Fields]:
    if not isinstance(item, list) or len(item) != 2 or type(item[0]) is not int or not isinstance(item[1], dict):
        raise ValueError(f"an entry of an archive must be a position and fields, and is {ascii(item)[:80]}")
    fields: dict[str, Any] = item[1]
    delay = Delay(*fields["delay"]) if "delay" in fields else ()
    numbers = [*(fields.get(name, 0) for name in (*_SELDOM, "expected")), *delay]
    places = [*_places(fields.get("losses", [])), *_places(fields.get("surpluses", []))]
    if not all(type(number) is int for number in [*numbers, *(place.count for place in places)]):
        raise ValueError(f"numbers of an archive must be whole numbers, and are {ascii(fields)[:80]}")
    return item[0], fields


def _row(topic: str, start: int, tier: Tier, columns: TierColumns, position: int) -> Row:
    fields: dict[str, Any] = columns.seldom.get(position, {})
    count = columns.counts[position]
    return Row(
        topic=topic,
        bucket=start,
        tier=tier,
        count=count,
        bytes=columns.sizes[position],
        expected=fields.get("expected", count),
        **{name: fields.get(name, 0) for name in _SELDOM},
        delay=Delay(*fields["delay"]) if "delay" in fields else None,
        verdict=SEVERITY[columns.verdicts[position]],
        losses=_places(fields.get("losses", [])),
        surpluses=_places(fields.get("surpluses", [])),
    )


def _places(items: list[dict[str, Any]]) -> tuple[Place, ...]:
    return tuple(
        Place(item["before"], item["partition"], item["count"], tuple((start, end) for start, end in item["ranges"])) for item in items
    )


def _as_range(numbers: Numbers) -> range | None:
    """The same numbers as a range, if they follow each other."""
    if isinstance(numbers, range):
        return numbers
    if len(numbers) < 2 or numbers[1] <= numbers[0]:
        return None
    found = range(numbers[0], numbers[-1] + 1, numbers[1] - numbers[0])
    return found if len(found) == len(numbers) and list(found) == list(numbers) else None


def _narrow(numbers: Numbers) -> tuple[bytes, bytes]:
    """A type that holds all of the numbers, and their bytes."""
    most, least = max(numbers, default=0), min(numbers, default=0)
    kind = next((kind for kind, width in _WIDTHS.items() if least >= 0 and most < 1 << (8 * width - (kind == b"q"))), b"q")
    return kind, _little_endian(array(kind.decode(), numbers))


def _little_endian(numbers: "array[int]") -> bytes:
    if sys.byteorder != "little":
        numbers = array(numbers.typecode, numbers)
        numbers.byteswap()
    return numbers.tobytes()


def _numbers(data: memoryview, kind: bytes) -> Numbers:
    if sys.byteorder == "little":
        return data.cast(kind.decode())  # type: ignore[call-overload, no-any-return]
    numbers = array(kind.decode())
    numbers.frombytes(data)
    numbers.byteswap()
    return numbers
