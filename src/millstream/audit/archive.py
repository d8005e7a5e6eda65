"""Buckets that are finished, as columns: what was judged of them, a few bytes per bucket and tier.

A ledger has sets of offsets, to compare tiers with; when a bucket is finished only the outcome is kept. One archive has buckets of one
topic and one day. Numbers stand in arrays, one entry per bucket; what is seldom anything but zero stands apart, by position. So a million
buckets are read and summed in the time it takes to copy them.

    uint32 size of the head | head, JSON | int64 starts | int64 parts | for each tier: int64 counts | int64 bytes | uint8 verdicts

Numbers are little-endian: what was read is not copied, but looked at where it lies, on machines that are little-endian themselves.
"""

import json
import struct
import sys
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Final, TypeAlias, cast

from millstream.audit.ledger import Bucket
from millstream.audit.ledger_fields import tier_fields, tier_of
from millstream.audit.report import ANY_PARTITION, Delay
from millstream.audit.report_fields import MAX_LONG, Fields
from millstream.audit.tier_count import TierCount
from millstream.audit.topic_head import Tier
from millstream.audit.verdict import Place, Row, Verdict
from millstream.json_object import JsonObject

Numbers: TypeAlias = "array[int] | memoryview[int]"
DAY_MS: Final = 24 * 3_600_000
SEVERITY: Final = (Verdict.COMPLETE, Verdict.OPEN, Verdict.UNKNOWN, Verdict.SURPLUS, Verdict.LATE, Verdict.MISSING)
"""From harmless to bad; the place of a verdict is its code."""
ABSENT: Final = 255
"""The tier has nothing to do with the bucket."""
_SIZE: Final = struct.Struct(">I")
_CODES: Final = bytes([*range(len(SEVERITY)), ABSENT])
_SELDOM: Final = ("missing", "surplus", "repeated", "malformed", "control", "aborted")


@dataclass(slots=True)
class TierColumns:
    """One tier's numbers, an entry per bucket of the archive."""

    counts: Numbers = field(default_factory=lambda: array("q"))
    """What was read cannot be added to."""
    bytes: Numbers = field(default_factory=lambda: array("q"))
    verdicts: bytearray = field(default_factory=bytearray)
    seldom: dict[int, Fields] = field(default_factory=dict)
    """By position: what is not zero, and where it is."""

    def total(self, name: str) -> int:
        """The sum of one of the seldom numbers."""
        return sum(cast(int, fields.get(name, 0)) for fields in self.seldom.values())

    def difference_to_expected(self) -> int:
        """How many more than were counted should be there."""
        different = [(position, fields["expected"]) for position, fields in self.seldom.items() if "expected" in fields]
        return sum(cast(int, expected) - self.counts[position] for position, expected in different)


class Archive:
    """Finished buckets of one topic and day."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.starts: Numbers = array("q")
        self.parts: Numbers = array("q")
        self.tiers: dict[Tier, TierColumns] = {}

    def __len__(self) -> int:
        return len(self.starts)

    def has(self, start: int, part: int) -> bool:
        """Whether this part of a bucket is in it."""
        return start in self.starts and any(known == start and self.parts[at] == part for at, known in enumerate(self.starts))

    def add(self, bucket: Bucket, rows: Iterable[Row]) -> None:
        """One more bucket, with what was judged of it."""
        position = len(self.starts)
        _array(self.starts).append(bucket.start)
        _array(self.parts).append(bucket.part)
        for row in rows:
            columns = self.tiers.setdefault(row.tier, TierColumns())
            _append(columns, position, [min(row.count, MAX_LONG)], [min(row.bytes, MAX_LONG)], SEVERITY.index(row.verdict))
            if seldom := _seldom(row):
                columns.seldom[position] = seldom
        for columns in self.tiers.values():
            _append(columns, position + 1, [], [], ABSENT)

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
        with_open = [columns.verdicts for columns in self.tiers.values() if code in columns.verdicts]
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
        tiers = [
            {**tier_fields(tier), "seldom": [[position, fields] for position, fields in columns.seldom.items()]}
            for tier, columns in self.tiers.items()
        ]
        head = json.dumps({"count": len(self), "tiers": tiers}, separators=(",", ":")).encode()
        parts = [_SIZE.pack(len(head)), head, _little_endian(self.starts), _little_endian(self.parts)]
        for columns in self.tiers.values():
            parts += (_little_endian(columns.counts), _little_endian(columns.bytes), bytes(columns.verdicts))
        return b"".join(parts)

    @classmethod
    def decode(cls, topic: str, data: bytes) -> "Archive":
        """The archive in these bytes; a ValueError if they are none."""
        if len(data) < _SIZE.size:
            raise ValueError(f"{len(data)} bytes are no archive")
        (size,) = _SIZE.unpack_from(data)
        position = _SIZE.size + size
        head = JsonObject.parse(data[_SIZE.size : position])
        count = head.integer("count")
        tiers = head.objects("tiers")
        if len(data) != position + count * (16 + 17 * len(tiers)):
            raise ValueError(f"{len(data)} bytes are not {count} buckets of {len(tiers)} tiers")
        archive = cls(topic)
        view = memoryview(data)
        archive.starts, position = _numbers(view, position, count)
        archive.parts, position = _numbers(view, position, count)
        for fields in tiers:
            counts, position = _numbers(view, position, count)
            sizes, position = _numbers(view, position, count)
            verdicts, position = bytearray(view[position : position + count]), position + count
            if verdicts.translate(None, _CODES):
                raise ValueError(f"a verdict is one of {list(_CODES)}, and not {verdicts.translate(None, _CODES)[0]}")
            seldom = {at: one for at, one in map(_seldom_entry, fields.items("seldom")) if at < count}
            archive.tiers[tier_of(fields)] = TierColumns(counts, sizes, verdicts, seldom)
        return archive


def _append(columns: TierColumns, position: int, count: list[int], size: list[int], verdict: int) -> None:
    """Numbers of the bucket at this position, if there are any; those before have nothing of the tier."""
    lacking = [0] * (position - len(columns.verdicts))
    _array(columns.counts).extend([*lacking, *count])
    _array(columns.bytes).extend([*lacking, *size])
    columns.verdicts.extend([ABSENT] * len(lacking) + [verdict] * len(count))


def _array(numbers: Numbers) -> "array[int]":
    assert isinstance(numbers, array), "what was read is not added to"
    return numbers


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
        bytes=columns.bytes[position],
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


def _little_endian(numbers: Numbers) -> bytes:
    if sys.byteorder == "little":
        return numbers.tobytes()
    swapped = array("q", numbers)
    swapped.byteswap()
    return swapped.tobytes()


def _numbers(data: memoryview, position: int, count: int) -> tuple[Numbers, int]:
    end = position + 8 * count
    if sys.byteorder == "little":
        return data[position:end].cast("q"), end
    numbers = array("q")
    numbers.frombytes(data[position:end])
    numbers.byteswap()
    return numbers, end
