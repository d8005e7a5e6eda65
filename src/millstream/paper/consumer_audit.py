"""The tier of a consumer: which messages it has handled, by their offsets, and what the audit says about a bucket.

What was handled is published before its offsets are stored. So after a kill it is either known to have been handled, or read again.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from time import time
from typing import TYPE_CHECKING, Final

from millstream.audit.reports.report import Kind, bucket_of
from millstream.audit.summary import Selection, TopicAudit
from millstream.audit.topic_head import Tier as TierName
from millstream.audit.verdict import DEFAULT_GRACE_MS, Row, Verdict
from millstream.audited.settings import Audit
from millstream.audited.tier import Handled, Tier
from millstream.client.errors import BrokerUnavailable
from millstream.paper.message import ConsumedMessage, milliseconds_of
from millstream.paper.settings import Setting

if TYPE_CHECKING:
    from millstream.auditor.settings import AuditorSettings

_PUBLISH_TIMEOUT_S: Final = 2.0


class ConsumerAudit:
    """Counts what a consumer handles, publishes that, and asks what the audit says."""

    def __init__(self, audit: Audit, brokers: Callable[[], str], options: Mapping[str, Setting]) -> None:
        self._brokers = brokers
        self._options = options
        self._tier = Tier(audit, Kind.CONSUMER, brokers, options=options)

    def verdict(self, topic: str, bucket: datetime | int) -> Row:
        """What is known of the messages of a topic in the bucket of this time, at this consumer's tier: is it complete, and if not, what
        is missing? Reads the audit, with what this consumer has handled until now; that takes a moment."""
        # Whoever is not asking needs neither.
        from millstream.auditor.snapshot import take_snapshot

        self.publish()
        settings = self._auditor_settings()
        snapshot = take_snapshot([settings], topic=topic)
        start, now_ms = bucket_of(milliseconds_of(bucket), settings.bucket_ms), int(time() * 1000)
        audit = TopicAudit(snapshot.ledger(topic), snapshot.archives.get(topic, []), now_ms=now_ms)
        for row in audit.rows(Selection(since_ms=start, until_ms=start + settings.bucket_ms, tier=self._tier.settings.tier)):
            if (row.bucket, row.tier.kind) == (start, Kind.CONSUMER):
                return row
        is_open = start + settings.bucket_ms + DEFAULT_GRACE_MS > now_ms
        return _nothing(topic, start, self._tier.settings.tier, Verdict.OPEN if is_open else Verdict.COMPLETE)

    def note_handled(self, topic: str, messages: Sequence[ConsumedMessage]) -> None:
        """These messages of a topic were handled."""
        records = [message.record for message in messages]
        places = [record.partition() for record in records]
        offsets = [record.offset() for record in records]
        times = [record.timestamp()[1] for record in records]
        payloads, keys = [message.payload for message in messages], [record.key() for record in records]
        first, oldest = offsets[0], min(times)
        if len(set(places)) == 1 and offsets[-1] - first + 1 == len(offsets) and self._tier.is_one_bucket(oldest, max(times)):
            # Nearly always: what librdkafka has of one partition comes in one piece.
            size = sum(map(len, filter(None, payloads))) + sum(map(len, filter(None, keys)))
            self._tier.handled_run(topic, places[0], range(first, offsets[-1] + 1), timestamp_ms=oldest, size=size)
            return
        sizes = [len(payload or b"") + len(key or b"") for payload, key in zip(payloads, keys, strict=True)]
        self._tier.handled(topic, map(Handled, places, offsets, times, sizes))

    def publish(self) -> None:
        """Publish what was handled until now, if the brokers let us."""
        self._tier.reporter.publish(_PUBLISH_TIMEOUT_S)

    def close(self) -> None:
        """Publish what is left."""
        self._tier.close()

    def _auditor_settings(self) -> "AuditorSettings":
        from millstream.auditor.settings import AuditorSettings

        brokers, settings = self._brokers(), self._tier.settings
        if not brokers:
            raise BrokerUnavailable("this consumer knows no broker yet that could be asked: create its message streams first")
        options = {name: str(value) for name, value in {**self._options, **settings.options}.items()}
        return AuditorSettings({**options, "bootstrap.servers": brokers}, bucket_ms=settings.bucket_ms, registry=settings.registry)


def _nothing(topic: str, bucket: int, tier: str, verdict: Verdict) -> Row:
    """Nothing came, and nothing was to come."""
    name = TierName(tier, Kind.CONSUMER, "")
    return Row(topic, bucket, name, 0, 0, expected=0, missing=0, surplus=0, repeated=0, malformed=0, control=0, aborted=0, delay=None,
               verdict=verdict)  # fmt: skip
