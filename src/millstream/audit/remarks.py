"""What is odd about the reports of a topic, in sentences: nothing of it stops the audit, and all of it may explain what the audit says."""

from collections.abc import Iterator
from typing import NamedTuple

from millstream.audit.ledger import Ledger
from millstream.audit.reporter import Reporter


class Remark(NamedTuple):
    """One thing that is odd."""

    key: tuple[str, ...]
    """The same for the same thing, whatever the numbers are."""
    text: str


def remarks_on(ledger: Ledger) -> Iterator[Remark]:
    """All that is odd about the reporters of a topic."""
    topic, head = ledger.topic, ledger.head
    if head.refused:
        length = f"buckets that are longer than {ledger.bucket_ms} ms or do not divide them"
        yield Remark((topic, "refused"), f"{topic}: {head.refused} reports have {length}, and were left out")
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
