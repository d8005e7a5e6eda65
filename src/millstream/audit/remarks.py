"""What is odd about the reports of a topic, in sentences: nothing of it stops the audit, and all of it may explain what the audit says."""

from collections.abc import Iterator
from typing import NamedTuple

from millstream.audit.ledger import Ledger
from millstream.audit.reports.reporter import Reporter
from millstream.audit.topic_head import MAX_TIERS


class Remark(NamedTuple):
    """One thing that is odd."""

    key: tuple[str, ...]
    """The same for the same thing, whatever the numbers are."""
    text: str


def remarks_on(ledger: Ledger) -> Iterator[Remark]:
    """All that is odd about the reporters of a topic."""
    topic, head = ledger.topic, ledger.head
    if head.refused:
        lengths = f"buckets of a length that cannot be compared with {ledger.bucket_ms / 1000:g} s"
        text = f"{topic}: {head.refused} reports have {lengths}, or are of more than {MAX_TIERS} tiers of the topic, and were left out"
        yield Remark((topic, "refused"), text)
    for reporter in head.reporters.values():
        who = f"{topic}: {reporter.tier!r} on {reporter.host} ({reporter.application}, {reporter.id})"
        for kind, text in _of_reporter(reporter):
            yield Remark((topic, kind, str(reporter.id), reporter.tier, reporter.host), f"{who} {text}")


def _of_reporter(reporter: Reporter) -> Iterator[tuple[str, str]]:
    if reporter.has_wrong_clock:
        yield "clock", "has a clock that is more than a day off: the times at which its reports came count"
    if reporter.conflicts:
        yield "conflict", f"is two processes: {reporter.conflicts} reports have the numbers of others, and were left out"
    if reporter.gaps:
        yield "gaps", f"sent reports that never came: {sum(gap.end - gap.start for gap in reporter.gaps)} or fewer"
