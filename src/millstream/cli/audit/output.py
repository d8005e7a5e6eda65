"""What the audit found, for people and for programs: JSON lines, tables with the tiers side by side, and where something was lost."""

import json
from collections.abc import Iterable, Sequence
from typing import Final

from millstream.audit.reports.report import bucket_text
from millstream.audit.summary import TopicSummary
from millstream.audit.topic_head import Tier
from millstream.audit.verdict import Place, Row, Verdict
from millstream.cli.output import print_table

MOST_PROBLEMS: Final = 50
MOST_BUCKETS: Final = 30
MOST_REMARKS: Final = 20
MOST_TOPICS_BY_BUCKET: Final = 5


def row_document(row: Row) -> dict[str, object]:
    """One row as JSON."""
    return {
        "topic": row.topic,
        "bucket": bucket_text(row.bucket),
        "tier": row.tier.name,
        "kind": row.tier.kind.value,
        "cluster": row.tier.cluster,
        "count": row.count,
        "bytes": row.bytes,
        "expected": row.expected,
        "missing": row.missing,
        "surplus": row.surplus,
        "repeated": row.repeated,
        "malformed": row.malformed,
        "control": row.control,
        "aborted": row.aborted,
        "delay_ms": None if row.delay is None else row.delay._asdict(),
        "completeness": round(row.completeness, 9),
        "verdict": row.verdict.value,
        "losses": [place.document() for place in row.losses],
        "surpluses": [place.document() for place in row.surpluses],
    }


def print_rows(rows: Iterable[Row]) -> None:
    """One JSON object per line."""
    for row in rows:
        print(json.dumps(row_document(row), ensure_ascii=False))


def print_summaries(summaries: Sequence[TopicSummary]) -> None:
    """A line per topic and tier."""
    lines = [
        [
            summary.topic,
            tier_text(tier, summary.tiers),
            total.count,
            total.missing,
            total.surplus,
            total.repeated,
            f"{total.completeness:.3%}",
            ", ".join(f"{number} {verdict}" for verdict, number in total.verdicts.items()),
        ]
        for summary in summaries
        for tier, total in summary.tiers.items()
    ]
    print_table(["topic", "tier", "messages", "missing", "surplus", "repeated", "complete", "buckets"], lines)


def print_buckets(topic: str, rows: Sequence[Row]) -> None:
    """The newest buckets of a topic, its tiers side by side."""
    tiers = list(dict.fromkeys(row.tier for row in rows))
    by_bucket: dict[int, dict[Tier, Row]] = {}
    for row in rows:
        by_bucket.setdefault(row.bucket, {})[row.tier] = row
    lines = []
    for start in sorted(by_bucket)[-MOST_BUCKETS:]:
        found = by_bucket[start]
        cells = [_cell(found.get(tier)) for tier in tiers]
        lines.append([bucket_text(start) or "without a time", *cells])
    print_table(["bucket", *(tier_text(tier, tiers) for tier in tiers)], lines, title=topic)


def print_problems(problems: Sequence[Row]) -> None:
    """What is wrong, and where: the worst first, then the newest."""
    for row in sorted(problems, key=lambda row: (-(row.missing + row.surplus), -row.bucket))[:MOST_PROBLEMS]:
        at = bucket_text(row.bucket) or "without a time"
        print(f"{row.topic}  {at}  {row.tier.name}: {sentence(row)}")
    if len(problems) > MOST_PROBLEMS:
        print(f"... and {len(problems) - MOST_PROBLEMS} more: --json has all, --topic, --since and --until fewer.")


def print_remarks(texts: Sequence[str]) -> None:
    """What is odd about reports."""
    for text in texts[:MOST_REMARKS]:
        print(text)
    if len(texts) > MOST_REMARKS:
        print(f"... and {len(texts) - MOST_REMARKS} more of this kind.")


def sentence(row: Row) -> str:
    """What is wrong at a tier, and between which two."""
    if row.verdict is Verdict.UNKNOWN and not row.losses and not row.surpluses:
        return "unknown: there is nothing to compare it with, or a producer was killed before it reported"
    lacking = "unknown: part of the log was gone before it was counted," if row.verdict is Verdict.UNKNOWN else row.verdict.value
    lost = [f"{lacking} {place.count} after {place.before}{_where(place)}" for place in row.losses]
    word = "unknown: a producer was killed or a report lost," if row.verdict is Verdict.UNKNOWN else "surplus"
    more = [f"{word} {place.count} more than {place.before}{_where(place)}" for place in row.surpluses]
    return "; ".join([*lost, *more]) or row.verdict.value


def tier_text(tier: Tier, others: Iterable[Tier]) -> str:
    """The name of a tier; with its cluster where several have the same name."""
    is_unique = sum(1 for other in others if other.name == tier.name) == 1
    return tier.name if is_unique else f"{tier.name} ({tier.kind} {tier.cluster[:8]})"


def _cell(row: Row | None) -> str:
    if row is None:
        return "-"
    if row.verdict is Verdict.COMPLETE:
        return str(row.count)
    more = "".join(f" {sign}{number}" for sign, number in (("-", row.missing), ("+", row.surplus)) if number)
    return f"{row.count}{more} {row.verdict}"


def _where(place: Place) -> str:
    if place.partition is None:
        return ""
    if not place.ranges:
        return f", partition {place.partition}"
    ranges = ", ".join(f"{start}-{end - 1}" if end > start + 1 else str(start) for start, end in place.ranges)
    return f", partition {place.partition}, offsets {ranges}"
