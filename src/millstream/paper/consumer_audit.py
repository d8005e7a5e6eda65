"""The tier of a consumer: which messages it has handled, by their offsets, and what the audit says about a bucket.

What was handled is published before its offsets are stored. So after a kill it is either known to have been handled, or read again.
"""

from collections.abc import Callable, Sequence
from typing import Final

from millstream.audit.report import Kind
from millstream.audited.settings import Audit
from millstream.audited.tier import Handled, Tier
from millstream.paper.message import ConsumedMessage

_PUBLISH_TIMEOUT_S: Final = 2.0


class ConsumerAudit:
    """Counts what a consumer handles, and publishes that."""

    def __init__(self, audit: Audit, brokers: Callable[[], str]) -> None:
        self._tier = Tier(audit, Kind.CONSUMER, brokers)

    def note_handled(self, topic: str, messages: Sequence[ConsumedMessage]) -> None:
        """These messages of a topic were handled."""
        records = [message.record for message in messages]
        places = [record.partition() for record in records]
        offsets = [record.offset() for record in records]
        times = [record.timestamp()[1] for record in records]
        sizes = [len(payload or b"") + len(record.key() or b"") for payload, record in messages]
        self._tier.handled(topic, map(Handled, places, offsets, times, sizes))

    def publish(self) -> None:
        """Publish what was handled until now, if the brokers let us."""
        self._tier.reporter.publish(_PUBLISH_TIMEOUT_S)

    def close(self) -> None:
        """Publish what is left."""
        self._tier.close()
