"""What can be chosen about a tier, checked once: `audit="checkout"`, or `audit=AuditSettings("checkout", datacentre="fra")`."""

import re
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from millstream.audit.counter import Counter
from millstream.audit.reports.report import DEFAULT_BUCKET_MS, DEFAULT_INTERVAL_MS, Kind, Origin
from millstream.errors import UsageError

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_LONGEST_TEXT: Final = 200
_LONGEST_INTERVAL_S: Final = 3600.0
_SHORTEST_INTERVAL_S: Final = 0.1
_LONGEST_BUCKET_S: Final = 24 * 3600


@dataclass(frozen=True)
class AuditSettings:
    """How a tier counts and reports."""

    tier: str
    """What its counts are shown under. All processes that do the same work have the same; a tier is known by it, whoever reports."""
    application: str = ""
    """Which program this is; without it, the name of the script."""
    host: str = ""
    """Where it runs; without it, the name of this machine."""
    datacentre: str = ""
    interval_s: float = DEFAULT_INTERVAL_MS / 1000
    """How often counts are published. What was counted and not published is unknown after a kill."""
    bucket_s: int = DEFAULT_BUCKET_MS // 1000
    """Length of a bucket; all tiers of a topic must have the same."""
    registry: str | None = None
    """Address of a schema registry, as in http://127.0.0.1:8081: reports are Avro then, otherwise JSON."""
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """TLS and passwords of the brokers, by Kafka's or librdkafka's names. Our producer and consumer have their own here already."""

    def __post_init__(self) -> None:
        tier: Any = self.tier
        if not isinstance(tier, str) or not _NAME.fullmatch(tier):
            raise UsageError(
                f"audit={self.tier!r} is no name of a tier: give 1 to 100 letters, digits, dots, hyphens and underscores, "
                "the first of them a letter or digit, as in audit='checkout'"
            )
        for name in ("application", "host", "datacentre"):
            text: str = getattr(self, name)
            if len(text) > _LONGEST_TEXT or not text.isprintable():
                raise UsageError(f"audit: {name} is a text of at most {_LONGEST_TEXT} printable letters")
        if not _SHORTEST_INTERVAL_S <= self.interval_s <= _LONGEST_INTERVAL_S:
            raise UsageError(f"audit: interval_s={self.interval_s!r}: give {_SHORTEST_INTERVAL_S} to {_LONGEST_INTERVAL_S:.0f} seconds")
        if self.bucket_s not in range(1, _LONGEST_BUCKET_S + 1):
            raise UsageError(f"audit: bucket_s={self.bucket_s!r}: give a whole number of seconds, at most a day")

    @property
    def bucket_ms(self) -> int:
        """Length of a bucket."""
        return self.bucket_s * 1000

    @property
    def interval_ms(self) -> int:
        """How often counts are published."""
        return round(self.interval_s * 1000)

    def origin(self, kind: Kind, cluster: str) -> Origin:
        """Who counts: what stands in every report."""
        application = self.application or Path(sys.argv[0] if sys.argv else "").name or "python"
        return Origin(self.tier, kind, application[:_LONGEST_TEXT], self.host or socket.gethostname(), self.datacentre, cluster)

    def counter(self, kind: Kind) -> Counter:
        """What counts for a reporter of its own; the cluster is filled in when its reports are published."""
        return Counter(self.origin(kind, ""), bucket_ms=self.bucket_ms, interval_ms=self.interval_ms)


Audit = str | AuditSettings
"""The `audit` argument of producers and consumers: the name of the tier, or all settings."""


def audit_settings(audit: Audit) -> AuditSettings:
    """The settings behind an `audit` argument."""
    return audit if isinstance(audit, AuditSettings) else AuditSettings(audit)
