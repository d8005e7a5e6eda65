"""Where alarms go: a line in the log, a POST to a webhook, and a file of metrics that Prometheus' node exporter picks up."""

import json
import logging
import threading
import urllib.error
import urllib.request
from collections import Counter as Multiset
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from millstream.audit.alarm import Alarm
from millstream.errors import UsageError

logger = logging.getLogger(__name__)

WEBHOOK_S: Final = 10.0


def alarm_document(alarm: Alarm) -> dict[str, object]:
    """An alarm as JSON."""
    return {
        "kind": alarm.kind,
        "topic": alarm.topic,
        "bucket": alarm.bucket,
        "tier": alarm.tier.name,
        "cluster": alarm.tier.cluster,
        "message": alarm.message,
        "over": alarm.is_over,
    }


def check_webhook(url: str) -> str:
    """The address of a webhook, if it is one."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise UsageError(f"--webhook {url}: expected http://HOST/... or https://HOST/...")
    return url


@dataclass
class AlarmSinks:
    """Passes each alarm on to all that is asked for; what fails is said, and holds nothing up."""

    webhook: str | None = None
    metrics_file: Path | None = None
    raised: "Multiset[tuple[str, str, str]]" = field(default_factory=Multiset)
    """Alarms that are raised, by kind, topic and tier."""
    total: int = 0

    def __call__(self, alarm: Alarm) -> None:
        """Pass on one alarm."""
        if alarm.is_over:
            logger.warning("audit: over: %s", alarm.message)
        else:
            logger.error("audit: %s", alarm.message)
            self.total += 1
        self.raised[alarm.kind, alarm.topic, alarm.tier.name] += -1 if alarm.is_over else 1
        if self.webhook is not None:
            threading.Thread(target=_post, args=(self.webhook, alarm_document(alarm)), name="webhook", daemon=True).start()
        self.write_metrics()

    def write_metrics(self) -> None:
        """Write the file of metrics, if one is asked for."""
        if self.metrics_file is None:
            return
        lines = ["# TYPE millstream_audit_alarms gauge"]
        lines += [
            f'millstream_audit_alarms{{kind="{kind}",topic="{_quoted(topic)}",tier="{_quoted(tier)}"}} {number}'
            for (kind, topic, tier), number in sorted(self.raised.items())
        ]
        lines += ["# TYPE millstream_audit_alarms_total counter", f"millstream_audit_alarms_total {self.total}", ""]
        new = self.metrics_file.with_name(self.metrics_file.name + ".new")
        try:
            new.write_text("\n".join(lines))
            new.replace(self.metrics_file)
        except OSError as error:
            logger.error("the metrics of the audit cannot be written to %s: %s", self.metrics_file, error)


def _quoted(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _post(url: str, document: dict[str, object]) -> None:
    request = urllib.request.Request(url, json.dumps(document).encode(), {"Content-Type": "application/json"}, method="POST")  # noqa: S310 -- checked by check_webhook
    try:
        urllib.request.urlopen(request, timeout=WEBHOOK_S).close()  # noqa: S310
    except (OSError, urllib.error.URLError, ValueError) as error:
        logger.error("the webhook %s did not take an alarm: %s", url, error)
