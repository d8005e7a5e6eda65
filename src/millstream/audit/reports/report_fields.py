"""A report as plain fields (numbers, texts, lists, objects) and back, for every encoding; field by field as `report_schema` has it.

Reading trusts nothing: whatever is not as it must be is a ValueError that names the field. Offsets are flat lists, first an offset and then
lengths: `[start, length, gap, length, gap, length ...]`.
"""

from itertools import accumulate, pairwise
from typing import Final
from uuid import UUID

from millstream.audit.offset_set import MAX_INTERVALS, OffsetSet
from millstream.audit.reports.report import ANY_PARTITION, NO_TIME, Count, Delay, Kind, Origin, ReadRange, Report
from millstream.json_object import JsonObject

Fields = dict[str, object]
MAX_LONG: Final = 2**63 - 1
MAX_PARTITION: Final = 2**31 - 1
MAX_BUCKET_MS: Final = 7 * 24 * 3_600_000
MAX_NAME: Final = 1_000
MAX_COUNTS: Final = 100_000
MAX_COUNT: Final = 2**53 - 1
"""Messages, or bytes, in one count: what is beyond is a mistake, and would make sums that no 64 bits hold."""
MAX_INTERVAL_MS: Final = 3_600_000
"""Whoever promises less often than that to report would keep buckets open for days."""


def report_fields(report: Report) -> Fields:
    """The fields of a report."""
    return {
        "reporter": str(report.reporter),
        "sequence": report.sequence,
        **report.origin._asdict(),
        "kind": report.origin.kind.value,
        "topic": report.topic,
        "bucket_ms": report.bucket_ms,
        "sent_ms": report.sent_ms,
        "interval_ms": report.interval_ms,
        "is_last": report.is_last,
        "progress_ms": report.progress_ms,
        "counts": [_count_fields(count) for count in report.counts],
        "read": [covered._asdict() for covered in report.read],
        "topic_id": report.topic_id,
    }


def report_of(fields: JsonObject) -> Report:
    """The report of these fields; a ValueError says what is wrong with them."""
    bucket_ms = fields.integer("bucket_ms", lowest=1, highest=MAX_BUCKET_MS)
    counts = fields.objects("counts")
    if len(counts) > MAX_COUNTS:
        raise ValueError(f"counts must be at most {MAX_COUNTS}, and are {len(counts)}")
    return Report(
        reporter=_uuid(fields.text("reporter")),
        sequence=fields.integer("sequence", highest=MAX_LONG - 1),
        origin=_origin(fields),
        topic=_name(fields, "topic"),
        bucket_ms=bucket_ms,
        sent_ms=fields.integer("sent_ms", highest=MAX_LONG),
        interval_ms=fields.integer("interval_ms", lowest=1, highest=MAX_INTERVAL_MS),
        is_last=fields.boolean("is_last"),
        progress_ms=fields.optional_integer("progress_ms", highest=MAX_LONG),
        counts=tuple(_count(count, bucket_ms) for count in counts),
        read=tuple(_read_range(covered) for covered in fields.objects("read")),
        # Reports of former releases do not have it.
        topic_id=fields.optional_text("topic_id") if "topic_id" in fields else None,
    )


def offset_list(offsets: OffsetSet) -> list[int]:
    """An offset and lengths: small numbers, whatever the offsets are."""
    bounds = offsets.bounds
    return [bounds[0], *(later - earlier for earlier, later in pairwise(bounds))] if bounds else []


def offset_set(values: list[object], called: str, *, most: int = MAX_INTERVALS) -> OffsetSet:
    """The set of such a list, of at most so many intervals; lengths and gaps are at least 1."""
    if len(values) % 2 or len(values) > 2 * most:
        raise ValueError(f"{called} must be a start and lengths of at most {most} intervals, and has {len(values)} numbers")
    numbers = [value for value in values if type(value) is int and value >= 0]
    if len(numbers) != len(values) or 0 in numbers[1:]:
        raise ValueError(f"{called} must be whole numbers, lengths and gaps from 1 on, and is {ascii(values)[:80]}")
    bounds = tuple(accumulate(numbers))
    if bounds and bounds[-1] > MAX_LONG:
        raise ValueError(f"{called} goes up to {bounds[-1]}; the highest offset is {MAX_LONG}")
    return OffsetSet(bounds)


def _count_fields(count: Count) -> Fields:
    return {
        "bucket": count.bucket,
        "partition": count.partition,
        "count": count.count,
        "bytes": count.bytes,
        "malformed": count.malformed,
        "control": count.control,
        "aborted": count.aborted,
        "delay": None if count.delay is None else count.delay._asdict(),
        "offsets": None if count.offsets is None else offset_list(count.offsets),
        "holes": 0 if count.offsets is None else count.offsets.holes,
    }


def _count(fields: JsonObject, bucket_ms: int) -> Count:
    bucket = fields.integer("bucket", lowest=NO_TIME, highest=MAX_LONG)
    if bucket > 0 and bucket % bucket_ms:
        raise ValueError(f"bucket must be the start of one, a multiple of {bucket_ms}, and is {bucket}")
    number = {name: fields.integer(name, highest=MAX_COUNT) for name in ("count", "bytes", "malformed", "control", "aborted")}
    partition = fields.integer("partition", lowest=ANY_PARTITION, highest=MAX_PARTITION)
    offsets = _offsets(fields)
    if offsets is not None and (len(offsets) != number["count"] or partition == ANY_PARTITION):
        raise ValueError(f"{number['count']} messages of partition {partition} were counted, with {len(offsets)} offsets")
    return Count(bucket=bucket, partition=partition, delay=_delay(fields), offsets=offsets, **number)


def _offsets(fields: JsonObject) -> OffsetSet | None:
    values = fields.optional_items("offsets")
    if values is None:
        return None
    exact = offset_set(values, "offsets")
    return OffsetSet(exact.bounds, fields.integer("holes", highest=len(exact)))


def _delay(fields: JsonObject) -> Delay | None:
    delay = fields.optional_object("delay")
    return None if delay is None else Delay(*(delay.integer(name, lowest=-MAX_LONG, highest=MAX_LONG) for name in Delay._fields))


def _read_range(fields: JsonObject) -> ReadRange:
    start = fields.integer("start", highest=MAX_LONG)
    return ReadRange(fields.integer("partition"), start, fields.integer("end", lowest=start, highest=MAX_LONG))


def _origin(fields: JsonObject) -> Origin:
    kind = fields.text("kind")
    if kind not in frozenset(Kind):
        raise ValueError(f"kind must be one of {', '.join(Kind)}, and is {ascii(kind)[:80]}")
    names = ("application", "host", "datacentre", "cluster", "target")
    return Origin(_name(fields, "tier"), Kind(kind), *(_name(fields, name, may_be_empty=True) for name in names))


def _name(fields: JsonObject, name: str, *, may_be_empty: bool = False) -> str:
    text = fields.text(name)
    if len(text) > MAX_NAME or not (text or may_be_empty):
        raise ValueError(f"{name} must have 1 to {MAX_NAME} letters, and has {len(text)}")
    if not text.isprintable():
        # It is shown on terminals and in log lines: no line breaks, no escape sequences.
        raise ValueError(f"{name} must be printable, and is {ascii(text)[:80]}")
    return text


def _uuid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise ValueError(f"reporter must be a UUID, and is {ascii(text)[:80]}") from None
