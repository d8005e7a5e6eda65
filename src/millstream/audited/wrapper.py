"""What the wrappers for other clients have in common: everything that is not counted goes on to the client behind them.

A message that a consumer handed out has been handled when the next one is asked for, when offsets are committed, or when the consumer is
closed: the same as for our own consumer. A commit that waits for the broker first publishes what it commits, so that a kill leaves no gap
between the two.

A client that commits by itself leaves such a gap: what was committed and not yet published when it is killed is missing in the audit. So
switch that off, and let the wrapper commit (`auto_commit_interval_s`): it publishes first.
"""

import logging
from collections.abc import Callable, Iterable
from time import monotonic
from typing import Any, Final

from millstream.audit.reports.report import Kind
from millstream.audited.settings import Audit
from millstream.audited.tier import Handled, Tier
from millstream.errors import UsageError

_log = logging.getLogger(__name__)

PUBLISH_TIMEOUT_S: Final = 2.0


class AuditedClient:
    """A client, and its tier of the audit."""

    def __init__(self, client: Any, kind: Kind, *, audit: Audit, brokers: str) -> None:
        self._client = client
        self._tier = Tier(audit, kind, lambda: brokers)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


class InHand:
    """The messages that a consumer handed out last, and whether it is time to commit those before them."""

    def __init__(self, tier: Tier, read: Callable[[Any], Handled], *, auto_commit_interval_s: float | None) -> None:
        if auto_commit_interval_s is not None and auto_commit_interval_s <= 0:
            raise UsageError(f"auto_commit_interval_s={auto_commit_interval_s!r}: give seconds, or None to commit yourself")
        self._tier = tier
        self._read = read
        self._messages: dict[str, list[Any]] = {}
        self._interval_s = auto_commit_interval_s
        self._commit_at = monotonic() + (auto_commit_interval_s or 0)
        self._is_uncommitted = False

    @property
    def is_committing(self) -> bool:
        """Whether the wrapper commits."""
        return self._interval_s is not None

    def check(self, *, group: object, client_commits: bool, option: str) -> None:
        """Whether there is a group, and only one of wrapper and client commits by itself."""
        if self.is_committing and group is None:
            raise UsageError("auto_commit_interval_s is for consumers with a group: make the client with a group_id, or give no interval")
        client_commits = client_commits and group is not None
        if self.is_committing and client_commits:
            raise UsageError(
                f"either the client commits or its wrapper: make the client with {option}, or leave out auto_commit_interval_s"
            )
        if client_commits:
            _log.warning(
                "audit: the consumer of %r commits by itself; what it has committed and not published when it is killed will be missing in "
                "the audit. Make it with %s, and give the wrapper auto_commit_interval_s=5", self._tier.settings.tier, option,
            )  # fmt: skip

    def give(self, topic: str, messages: Iterable[Any]) -> None:
        """These go to the application."""
        self._messages.setdefault(topic, []).extend(messages)

    def publish(self) -> bool:
        """They have been handled, and that is published before it is committed. False if it is better to wait: it takes long. Where nothing
        can be published commits go on; trouble with the audit stops no application."""
        self.settle()
        may_commit = self._tier.reporter.publish(PUBLISH_TIMEOUT_S) or self._tier.reporter.is_troubled
        self._is_uncommitted = self._is_uncommitted and not may_commit
        return may_commit

    def is_commit_due(self, *, at_once: bool = False) -> bool:
        """They have been handled. Whether the wrapper is to commit now: what was handled since it last did, when it is time."""
        self.settle()
        if not (self.is_committing and self._is_uncommitted and (at_once or monotonic() >= self._commit_at)):
            return False
        self._commit_at = monotonic() + (self._interval_s or 0)
        return True

    def settle(self) -> None:
        """They have been handled."""
        messages, self._messages = self._messages, {}
        self._is_uncommitted = self._is_uncommitted or bool(messages)
        for topic, some in messages.items():
            self._tier.handled(topic, map(self._read, some))


def handled_record(record: Any) -> Handled:
    """A record of kafka-python or aiokafka as it is counted."""
    size = max(record.serialized_key_size, 0) + max(record.serialized_value_size, 0)
    return Handled(record.partition, record.offset, record.timestamp, size)


def say_not_committed(error: object) -> None:
    """An automatic commit failed: as with the clients' own, the next one makes up for it."""
    _log.warning("audit: offsets were not committed, the next commit will: %s", error)
