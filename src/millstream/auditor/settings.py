"""What an auditor of one cluster is given: where it is, how its connections are protected, and how its buckets are judged."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from millstream.audit.reports.report import DEFAULT_BUCKET_MS
from millstream.audit.verdict import DEFAULT_GRACE_MS, DEFAULT_THRESHOLD
from millstream.client.security.client_security import ClientSecurity

GROUP: Final = "millstream-audit"
BROKER_TIER: Final = "broker"
"""Name of the tier that the auditor counts itself, off the log."""


@dataclass(frozen=True)
class AuditorSettings:
    """One cluster and how it is audited."""

    client_options: Mapping[str, str]
    """librdkafka's options; `bootstrap.servers` at least."""
    bucket_ms: int = DEFAULT_BUCKET_MS
    grace_ms: int = DEFAULT_GRACE_MS
    threshold: float = DEFAULT_THRESHOLD
    flush_s: float = 5.0
    """How often the state is written."""
    group: str = GROUP
    reads_logs: bool = True
    """Whether the auditor counts the brokers' tier."""
    topics: re.Pattern[str] | None = None
    """Topics whose logs are read even if no tier has reported of them."""
    registry: str | None = None
    """Where the schemas of reports in Avro are."""
    datacentre: str = ""

    @property
    def brokers(self) -> str:
        """Where the cluster is."""
        return self.client_options["bootstrap.servers"]

    @property
    def security(self) -> ClientSecurity:
        """How connections to it are protected."""
        return ClientSecurity.of(self.client_options)
