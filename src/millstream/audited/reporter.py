"""Publishes what a tier has counted: at once when a topic is first used, then at an interval, and when the tier is closed.

It has a thread and a connection of its own, so that the application waits for nothing. What cannot be published stays as it is and is
published later: the reports that were taken are tried again, and while they wait the counts add up where they are kept, so memory does not
grow with time. Trouble is logged once, and once more when it is over.

A process that ends without closing its tiers closes them on its way out, for which it waits `CLOSE_TIMEOUT_S` at most. The child of a fork
begins anew, as another reporter: what was counted before the fork is its parent's to report.
"""

import atexit
import logging
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from time import monotonic, time
from typing import Final, Protocol
from weakref import WeakSet

from millstream.audit.reports.report import Report
from millstream.audited.audit_topic import AuditTopic
from millstream.audited.settings import AuditSettings
from millstream.errors import MillstreamError

_log = logging.getLogger(__name__)

CLOSE_TIMEOUT_S: Final = 5.0
_SETTLE_S: Final = 0.2
"""How often to look whether what was sent has been answered, while there is something that was not."""


class Source(Protocol):
    """What a tier has counted, as the reporter takes it; called in the reporter's thread."""

    def settle(self) -> bool:
        """Look what has become of messages whose fate is open; False while there are such."""

    def take(self, now_ms: int, *, is_last: bool) -> Sequence[Report]:
        """The reports of what was counted since the last call; the reporter fills in the cluster."""

    def restart(self) -> None:
        """Forget everything and count as another reporter, with locks of its own: this process is the child of a fork."""


class Reporter:
    """Publishes for one tier; its methods may be called by any thread."""

    def __init__(self, settings: AuditSettings, source: Source, *, open_topic: Callable[[], AuditTopic]) -> None:
        self._settings = settings
        self._source = source
        self._open_topic = open_topic
        self._reset()
        _all.add(self)

    def _reset(self) -> None:
        self._topic: AuditTopic | None = None
        self._taken: Sequence[Report] = ()
        self._is_troubled = False
        self._is_ending = False
        self._news = threading.Event()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._rounds_begun = self._rounds_published = 0

    def announce(self) -> None:
        """A topic is used for the first time, or again: publish at once. Starts the thread if need be, also after a `close`."""
        with self._changed:
            if self._thread is None or not self._thread.is_alive():
                self._is_ending = False
                self._start()
        self._news.set()

    def publish(self, timeout_s: float) -> bool:
        """Publish now and wait for that; False if it did not work within the time, or the last time."""
        if self._is_troubled:
            return False
        # A round that is under way may have taken its counts already.
        wanted = self._rounds_begun + 1
        self.announce()
        with self._changed:
            self._changed.wait_for(lambda: self._rounds_published >= wanted or self._is_troubled, timeout_s)
            return self._rounds_published >= wanted

    @property
    def is_troubled(self) -> bool:
        """Whether nothing could be published the last time."""
        return self._is_troubled

    def end(self) -> None:
        """Publish what is left, and then nothing more; does not wait."""
        with self._changed:
            self._is_ending = True
        self._news.set()

    def close(self, timeout_s: float = CLOSE_TIMEOUT_S) -> None:
        """Publish what is left, and wait for that."""
        self.end()
        if self._thread is not None:
            self._thread.join(timeout_s)
            if self._thread.is_alive():
                _log.warning("audit: the last counts of %r were not published within %g s", self._settings.tier, timeout_s)

    def restart(self) -> None:
        """In the child of a fork: the thread, the connection and what was counted are the parent's."""
        self._reset()
        self._source.restart()

    def _start(self) -> None:
        thread = threading.Thread(target=self._run, name=f"audit-{self._settings.tier}", daemon=True)
        _running.add(self)
        try:
            thread.start()
        except RuntimeError as error:  # no more threads, or the interpreter is ending; the application goes on
            _running.discard(self)
            self._complain(error)
            return
        self._thread = thread

    # --- in the reporter's thread

    def _run(self) -> None:
        try:
            while not self._is_ending:
                due = monotonic() + self._settings.interval_s
                self._publish_round()
                self._wait_until(due)
            self._publish_last()
        finally:
            _running.discard(self)
            if self._topic is not None:
                self._topic.close()

    def _wait_until(self, due: float) -> None:
        """Until it is time, or there is news; meanwhile see what becomes of what was sent."""
        while not self._news.is_set() and (left := due - monotonic()) > 0:
            self._news.wait(left if self._source.settle() else min(_SETTLE_S, left))
        self._news.clear()

    def _publish_last(self) -> None:
        deadline = monotonic() + CLOSE_TIMEOUT_S
        while not self._source.settle() and monotonic() < deadline:
            threading.Event().wait(_SETTLE_S / 10)
        # What is still open was perhaps not written: without a last report it is unknown, which is the truth.
        if not ((not self._taken or self._publish()) and self._publish(is_last=self._source.settle())):
            _log.warning("audit: the last counts of %r could not be published; what they are about is unknown", self._settings.tier)

    def _publish_round(self) -> None:
        with self._changed:
            self._rounds_begun += 1
        has_left_over = bool(self._taken)
        if self._publish() and (not has_left_over or self._publish()):
            with self._changed:
                self._rounds_published = self._rounds_begun
                self._changed.notify_all()

    def _publish(self, *, is_last: bool = False) -> bool:
        try:
            self._topic = self._topic or self._open_topic()
            cluster = self._topic.cluster_id()
            self._source.settle()
            self._taken = self._taken or [
                replace(report, origin=report.origin._replace(cluster=cluster))
                for report in self._source.take(int(time() * 1000), is_last=is_last)
            ]
            self._topic.publish(self._taken)
            self._taken = ()
        except (MillstreamError, OSError, ImportError) as error:  # of the latter: no file descriptor is free, a package is not installed
            self._complain(error)
            return False
        if self._is_troubled:
            self._is_troubled = False
            _log.warning("audit: the counts of %r are published again; none was lost", self._settings.tier)
        return True

    def _complain(self, error: Exception) -> None:
        if not self._is_troubled:
            with self._changed:
                self._is_troubled = True
                self._changed.notify_all()
            _log.warning(
                "audit: the counts of %r cannot be published; they are kept and tried again every %g s. %s",
                self._settings.tier, self._settings.interval_s, error,
            )  # fmt: skip


_running: set[Reporter] = set()
_all: "WeakSet[Reporter]" = WeakSet()


@atexit.register
def _close_all() -> None:
    left = list(_running)
    for reporter in left:
        reporter.end()
    deadline = monotonic() + CLOSE_TIMEOUT_S
    for reporter in left:
        reporter.close(max(deadline - monotonic(), 0.0))


def _begin_anew() -> None:
    """The threads of a parent do not exist in its child."""
    _running.clear()
    for reporter in list(_all):
        reporter.restart()


os.register_at_fork(after_in_child=_begin_anew)
