"""The tier of a producer: what it sent, minus what failed, counted when it has been answered (`audited.sent_counts`).

A list of messages costs two looks at the clock and one addition per call, and each message its length, and the partition of its key. What
has a time or headers of its own, or comes when a bucket ends or the queue is full, is stamped, sent and counted one by one.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from time import monotonic, time
from typing import Any, Final

from millstream.audit.reports.report import ANY_PARTITION
from millstream.audited.audit_topic import open_audit_topic
from millstream.audited.reporter import Reporter
from millstream.audited.sent_counts import SentCounts
from millstream.audited.settings import Audit, audit_settings
from millstream.paper.delivery_progress import DeliveryProgress
from millstream.paper.librdkafka import RefusedAtOnce, partition_leaders, raising_plainly
from millstream.paper.message import Message
from millstream.paper.producer_partitions import ProducerPartitions
from millstream.paper.settings import Setting

_ASK_TIMEOUT_S: Final = 0.5
_SLACK_S: Final = 5.0
_DEFAULT_TIMEOUT_MS: Final = 60_000


class ProducerAudit:
    """Counts what a producer sends, and publishes that."""

    def __init__(self, audit: Audit, brokers: str, options: Mapping[str, Setting]) -> None:
        settings = audit_settings(audit)
        self._progress = DeliveryProgress()
        self._client: Any = None
        self._patience_s = _patience_s(options)
        self.partitions = ProducerPartitions(options, leaders_of=self._leaders_of)
        self.counts = SentCounts(settings, self.partitions, answered_until=self._answered_until, announce=self._announce)
        self._reporter = Reporter(settings, self.counts, open_topic=lambda: open_audit_topic(brokers, settings, options))
        self.begin, self.add_unstamped = self.counts.begin, self.counts.add_unstamped

    def follow(self, client: Any) -> None:
        """The producer of librdkafka whose messages are counted."""
        self._client = client

    def note_statistics(self, text: str) -> None:
        """What librdkafka says of itself now and then."""
        statistics = json.loads(text)
        self._progress.feed(statistics)
        self.partitions.feed(statistics)

    def add(self, topic: str, message: Message, *, timestamp_ms: int, partition: int) -> None:
        """A message of this time was handed over."""
        self.counts.add(self.counts.place(topic, timestamp_ms, partition), 1, len(message.payload or b"") + len(message.key or b""))

    def note_failure(self, message: Any, timestamp_ms: int | None, partition: int | None) -> None:
        """A message of librdkafka's was not written; it does not say its time, only how long ago it was sent."""
        topic, size = message.topic(), len(message) + len(message.key() or b"")
        if timestamp_ms is not None and partition is not None:
            place = self.counts.place(topic, timestamp_ms, partition)
        else:
            chosen = message.partition() if self.partitions.is_deciding else ANY_PARTITION
            place = self.counts.unstamped_place(topic, time() - message.latency(), chosen)
        self.counts.add_failure(place, size)

    def close(self) -> None:
        """Publish what is left, as the last report unless something is still being sent."""
        self._reporter.close()

    def _announce(self) -> None:
        self._reporter.announce()

    def _leaders_of(self, topic: str) -> dict[int, int]:
        return partition_leaders(self._client, topic, timeout_s=_ASK_TIMEOUT_S)

    def _answered_until(self) -> float:
        now = monotonic()
        # An error that ends the producer is said by its next call.
        with suppress(RefusedAtOnce), raising_plainly():
            self._client.poll(0)
        if not len(self._client):
            return now
        return max(self._progress.answered_until, now - self._patience_s)


def _patience_s(options: Mapping[str, Setting]) -> float:
    """After so long a message has been answered, or given up, whatever happened."""
    names = ("message.timeout.ms", "delivery.timeout.ms")
    message_timeout_ms = next((float(options[name]) for name in names if name in options), _DEFAULT_TIMEOUT_MS)
    if not message_timeout_ms:
        return float("inf")
    return (message_timeout_ms + float(options.get("socket.timeout.ms", _DEFAULT_TIMEOUT_MS))) / 1000 + _SLACK_S
