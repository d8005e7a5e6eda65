"""What the wrappers for other clients have in common: everything that is not counted goes on to the client behind them.

A message that a consumer handed out has been handled when the next one is asked for, when offsets are committed, or when the consumer is
closed: the same as for our own consumer. A commit that waits for the broker first publishes what it commits, so that a kill leaves no gap
between the two.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

from millstream.audit.report import Kind
from millstream.audited.settings import Audit
from millstream.audited.tier import Handled, Tier

PUBLISH_TIMEOUT_S: Final = 2.0


class AuditedClient:
    """A client, and its tier of the audit."""

    def __init__(self, client: Any, kind: Kind, *, audit: Audit, brokers: str) -> None:
        self._client = client
        self._tier = Tier(audit, kind, lambda: brokers)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


class InHand:
    """The messages that a consumer handed out last."""

    def __init__(self, tier: Tier, read: Callable[[Any], Handled]) -> None:
        self._tier = tier
        self._read = read
        self._messages: dict[str, list[Any]] = {}

    def give(self, topic: str, messages: Iterable[Any]) -> None:
        """These go to the application."""
        self._messages.setdefault(topic, []).extend(messages)

    def publish(self) -> None:
        """They have been handled, and that is published, if the brokers let us, before it is committed."""
        self.settle()
        self._tier.reporter.publish(PUBLISH_TIMEOUT_S)

    def settle(self) -> None:
        """They have been handled."""
        messages, self._messages = self._messages, {}
        for topic, some in messages.items():
            self._tier.handled(topic, map(self._read, some))
