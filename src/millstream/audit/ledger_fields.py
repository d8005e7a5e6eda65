"""The parts of a ledger as plain fields and back: what is kept in `_audit_state`, as JSON.

Read from a topic that anybody may write to, so nothing is trusted: what is wrong is a ValueError that names the field.
"""

import json
from dataclasses import asdict
from functools import lru_cache
from uuid import UUID

from millstream.audit.ledger import Bucket
from millstream.audit.offset_set import MAX_INTERVALS, OffsetSet
from millstream.audit.reports.report import ANY_PARTITION, NO_TIME, Delay, Kind
from millstream.audit.reports.report_fields import MAX_LONG, Fields, offset_list, offset_set
from millstream.audit.reports.reporter import Doubt, Reporter
from millstream.audit.tier_count import TierCount
from millstream.audit.topic_head import NEVER, Span, Tier, TierHead, TopicHead
from millstream.audit.uncounted import MAX_SKIPPED, MAX_WINDOWS, Uncounted, Window
from millstream.json_object import JsonObject

MAX_BOUNDS = 500_000
"""In one record of a few megabytes."""
COARSE_INTERVALS = 100
_SUMS = ("bytes", "repeated", "malformed", "control", "aborted", "delayed")
_TIMES = ("arrived_ms", "interval_ms", "progress_ms", "sent_ms", "lag_ms", "ahead_ms", "conflicts")
_NAMES = ("tier", "cluster", "host", "application")


def encode_bucket(bucket: Bucket) -> bytes:
    """One bucket, or a part of one; sets in too many pieces for one record become coarse."""
    pieces = sum(len(offsets.bounds) for count in bucket.tiers.values() for offsets in count.offsets.values())
    if pieces > MAX_BOUNDS:
        for count in bucket.tiers.values():
            count.offsets = {partition: offsets.coarsened(COARSE_INTERVALS) for partition, offsets in count.offsets.items()}
    tiers = [{**tier_fields(tier), **_count_fields(count)} for tier, count in bucket.tiers.items()]
    numbers = {name: getattr(bucket, name) for name in ("start", "part", "position", "arrived_ms", "touched_ms")}
    return _dump({**numbers, "tiers": tiers})


def decode_bucket(data: bytes) -> Bucket:
    """The bucket in these bytes."""
    fields = JsonObject.parse(data)
    bucket = Bucket(
        _long(fields, "start", lowest=NO_TIME),
        part=_long(fields, "part"),
        position=_long(fields, "position"),
        arrived_ms=_long(fields, "arrived_ms"),
        touched_ms=_long(fields, "touched_ms"),
    )
    bucket.tiers = {tier_of(one): _count(one) for one in fields.objects("tiers")}
    return bucket


def encode_head(head: TopicHead) -> bytes:
    """Reporters and tiers of a topic."""
    return _dump(
        {
            "position": head.position,
            "refused": head.refused,
            "tiers": [{**tier_fields(tier), **_tier_head_fields(one)} for tier, one in head.tiers.items()],
            "reporters": [{"key": key, **_reporter_fields(one)} for key, one in head.reporters.items()],
        }
    )


def decode_head(data: bytes) -> TopicHead:
    """The head in these bytes."""
    fields = JsonObject.parse(data)
    return TopicHead(
        position=_long(fields, "position"),
        refused=_long(fields, "refused"),
        tiers={tier_of(one): _tier_head(one) for one in fields.objects("tiers")},
        reporters={tuple(map(str, one.items("key"))): _reporter(one) for one in fields.objects("reporters")},
    )


def _dump(fields: Fields) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()


def _long(fields: JsonObject, name: str, *, lowest: int = 0) -> int:
    return fields.integer(name, lowest=lowest, highest=MAX_LONG)


def tier_fields(tier: Tier) -> Fields:
    """Name, kind and clusters of a tier."""
    return {"tier": tier.name, "kind": tier.kind.value, "cluster": tier.cluster, "target": tier.target}


def tier_of(fields: JsonObject) -> Tier:
    """The tier of these fields."""
    return _tier(fields.text("tier"), fields.text("kind"), fields.text("cluster"), fields.text("target"))


@lru_cache
def _tier(name: str, kind: str, cluster: str, target: str) -> Tier:
    return Tier(name, Kind(kind), cluster, target)


def _set_fields(offsets: OffsetSet) -> Fields:
    return {"offsets": offset_list(offsets), "holes": offsets.holes}


def _set(fields: JsonObject) -> OffsetSet:
    return OffsetSet(offset_set(fields.items("offsets"), "offsets", most=2 * MAX_INTERVALS).bounds, _long(fields, "holes"))


def _count_fields(count: TierCount) -> Fields:
    return {
        "sets": [{"partition": partition, **_set_fields(offsets)} for partition, offsets in count.offsets.items()],
        "unplaced": [{"partition": partition, "count": min(number, MAX_LONG)} for partition, number in count.unplaced.items()],
        "delay": None if count.delay is None else count.delay._asdict(),
        **{name: min(getattr(count, name), MAX_LONG) for name in _SUMS},
    }


def _count(fields: JsonObject) -> TierCount:
    count = TierCount()
    count.offsets = {one.integer("partition"): _set(one) for one in fields.objects("sets")}
    count.unplaced = {one.integer("partition", lowest=ANY_PARTITION): _long(one, "count") for one in fields.objects("unplaced")}
    delay = fields.optional_object("delay")
    count.delay = None if delay is None else Delay(*(_long(delay, name, lowest=-MAX_LONG) for name in Delay._fields))
    for name in _SUMS:
        setattr(count, name, _long(fields, name))
    return count


def _tier_head_fields(head: TierHead) -> Fields:
    return {
        "first_bucket": head.first_bucket,
        "spans": [[partition, *span] for partition, span in head.spans.items()],
        "read": [[partition, *span] for partition, span in head.read.items()],
        "without_bucket": _count_fields(head.without_bucket),
        "refused": head.refused,
        "topic_ids": head.topic_ids,
        "uncounted": _uncounted_fields(head.uncounted),
    }


def _tier_head(fields: JsonObject) -> TierHead:
    passed = fields.optional_object("without_bucket")
    return TierHead(
        first_bucket=fields.integer("first_bucket", highest=NEVER),
        spans=_spans(fields, "spans"),
        read=_spans(fields, "read"),
        without_bucket=_count(passed) if passed is not None else TierCount(),
        refused=_long(fields, "refused"),
        topic_ids=[str(one) for one in fields.items("topic_ids")],
        uncounted=_uncounted(fields),
    )


def _uncounted_fields(uncounted: Uncounted) -> Fields:
    return {
        "at_end_ms": uncounted.at_end_ms,
        "skipped": [{"partition": partition, "offsets": offset_list(offsets)} for partition, offsets in uncounted.skipped.items()],
        "skips": [list(window) for window in uncounted.skips],
        "gaps": [list(window) for window in uncounted.gaps],
    }


def _uncounted(head: JsonObject) -> Uncounted:
    """That of a tier; what an auditor wrote that did not know of it has none."""
    fields = head.optional_object("uncounted") if "uncounted" in head else None
    if fields is None:
        return Uncounted()
    return Uncounted(
        at_end_ms=_long(fields, "at_end_ms"),
        skipped={
            one.integer("partition"): offset_set(one.items("offsets"), "offsets", most=2 * MAX_SKIPPED) for one in fields.objects("skipped")
        },
        skips=_windows(fields, "skips"),
        gaps=_windows(fields, "gaps"),
    )


def _windows(fields: JsonObject, name: str) -> list[Window]:
    windows = []
    for item in fields.items(name)[:MAX_WINDOWS]:
        if not isinstance(item, list) or len(item) != 2 or not all(type(value) is int for value in item):
            raise ValueError(f"{name} must be lists of two times, and has {ascii(item)[:80]}")
        windows.append(Window(item[0], item[1]))
    return windows


def _spans(fields: JsonObject, name: str) -> dict[int, Span]:
    spans = {}
    for item in fields.items(name):
        if not isinstance(item, list) or len(item) != 3 or not all(type(value) is int for value in item):
            raise ValueError(f"{name} must be lists of partition, start and end, and has {ascii(item)[:80]}")
        spans[item[0]] = Span(item[1], item[2])
    return spans


def _reporter_fields(reporter: Reporter) -> Fields:
    return {
        "id": str(reporter.id),
        "kind": reporter.kind.value,
        **{name: getattr(reporter, name) for name in (*_NAMES, *_TIMES)},
        "is_last": reporter.is_last,
        "has_wrong_clock": reporter.has_wrong_clock,
        "seen": offset_list(reporter.seen),
        "gaps": [asdict(gap) for gap in reporter.gaps],
        "digests": [[sequence, digest] for sequence, digest in reporter.digests.items()],
    }


def _reporter(fields: JsonObject) -> Reporter:
    tier, cluster, host, application = (fields.text(name) for name in _NAMES)
    reporter = Reporter(UUID(fields.text("id")), Kind(fields.text("kind")), tier, cluster, host, application)
    for name in _TIMES:
        setattr(reporter, name, _long(fields, name, lowest=-MAX_LONG))
    reporter.is_last, reporter.has_wrong_clock = fields.boolean("is_last"), fields.boolean("has_wrong_clock")
    reporter.seen = offset_set(fields.items("seen"), "seen")
    reporter.gaps = [
        Doubt(_long(one, "start"), _long(one, "end"), _long(one, "low_ms", lowest=-MAX_LONG), _long(one, "high_ms", lowest=-MAX_LONG))
        for one in fields.objects("gaps")
    ]
    reporter.digests = {
        int(str(item[0])): int(str(item[1])) for item in fields.items("digests") if isinstance(item, list) and len(item) == 2
    }
    return reporter
