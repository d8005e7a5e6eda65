"""Where alarms go: a line in the log, a POST to a webhook, and a file of metrics that Prometheus' node exporter picks up."""

import logging
from collections import Counter as Multiset
from dataclasses import dataclass, field
from pathlib import Path

from millstream.audit.alarm import MAX_RAISED, Alarm, AlarmState
from millstream.audit.reports.report import bucket_text
from millstream.auditor.webhook import Webhook

logger = logging.getLogger(__name__)


def alarm_document(alarm: Alarm) -> dict[str, object]:
    """An alarm as JSON."""
    return {
        "kind": alarm.kind,
        "state": alarm.state.value,
        "topic": alarm.topic,
        "bucket": None if alarm.bucket is None else bucket_text(alarm.bucket),
        "tier": alarm.tier.name,
        "cluster": alarm.tier.cluster,
        "verdict": None if alarm.verdict is None else alarm.verdict.value,
        "expected": alarm.expected,
        "missing": alarm.missing,
        "losses": [place.document() for place in alarm.losses],
        "message": alarm.message,
    }


@dataclass
class AlarmSinks:
    """Passes each alarm on to all that is asked for; what fails is said, and holds nothing up."""

    webhook: Webhook | None = None
    metrics_file: Path | None = None
    total: int = 0
    """Alarms that were raised since the start."""
    _raised: "Multiset[tuple[str, str, str]]" = field(default_factory=Multiset)

    def __call__(self, alarm: Alarm) -> None:
        """Pass on one alarm."""
        if alarm.state is AlarmState.RESOLVED:
            logger.warning("audit: resolved: %s", alarm.message)
        else:
            logger.error("audit: %s%s", "changed: " if alarm.state is AlarmState.CHANGED else "", alarm.message)
        self.total += alarm.state is AlarmState.RAISED
        if self.webhook is not None:
            self.webhook.post(alarm_document(alarm))

    def note_raised(self, raised: "Multiset[tuple[str, str, str]]") -> None:
        """How many alarms are raised now, by kind, topic and tier; of those that were, a zero remains."""
        known = Multiset(dict.fromkeys(self._raised, 0))
        known.update(raised)
        self._raised = known if len(known) <= MAX_RAISED else +known
        self.write_metrics()

    def write_metrics(self) -> None:
        """Write the file of metrics, if one is asked for."""
        if self.metrics_file is None:
            return
        lines = ["# TYPE millstream_audit_alarms gauge"]
        lines += [
            f'millstream_audit_alarms{{kind="{kind}",topic="{_quoted(topic)}",tier="{_quoted(tier)}"}} {number}'
            for (kind, topic, tier), number in sorted(self._raised.items())
        ]
        lines += ["# TYPE millstream_audit_alarms_total counter", f"millstream_audit_alarms_total {self.total}"]
        if self.webhook is not None:
            lines += ["# TYPE millstream_audit_webhook_failures_total counter"]
            lines += [f"millstream_audit_webhook_failures_total {self.webhook.failed}"]
        new = self.metrics_file.with_name(self.metrics_file.name + ".new")
        try:
            new.write_text("\n".join([*lines, ""]))
            new.replace(self.metrics_file)
        except OSError as error:
            logger.error("the metrics of the audit cannot be written to %s: %s", self.metrics_file, error)

    def close(self) -> None:
        """Send what is left."""
        if self.webhook is not None:
            self.webhook.close()
        self.write_metrics()


def _quoted(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
