"""Alarms to a webhook: POST requests with JSON, one after the other, from a thread of their own.

Whoever raises alarms never waits: what does not fit into the queue because the endpoint is slow or down is dropped, counted and said. An
alarm is tried a few times, with growing pauses, after an error that may pass (no connection, no answer in time, 408, 429, 5xx); an endpoint
that refuses it otherwise is not asked again. The address may hold a token: messages name its host only.
"""

import json
import logging
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping
from queue import Empty, Full, Queue
from time import monotonic
from typing import Final
from urllib.parse import urlsplit

from millstream.errors import UsageError

logger = logging.getLogger(__name__)

TIMEOUT_S: Final = 10.0
PAUSES_S: Final = (1.0, 5.0, 30.0)
"""Between two attempts; there is one attempt more than pauses."""
MAX_WAITING: Final = 1_000
CLOSE_S: Final = 5.0
_MAY_PASS: Final = frozenset({408, 429, 500, 502, 503, 504})

Document = Mapping[str, object]


def check_webhook(url: str) -> str:
    """The address of a webhook, if it is one."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise UsageError(f"--webhook {url}: expected http://HOST/... or https://HOST/...")
    return url


class Webhook:
    """Posts documents in the order in which they were given."""

    def __init__(self, url: str, *, timeout_s: float = TIMEOUT_S, pauses_s: tuple[float, ...] = PAUSES_S, most: int = MAX_WAITING) -> None:
        self._url = check_webhook(url)
        self._host = urlsplit(url).hostname or ""
        self._timeout_s = timeout_s
        self._pauses_s = pauses_s
        self._waiting: Queue[Document] = Queue(most)
        self._closing = threading.Event()
        self._is_dropping = False
        self.failed = 0
        """Documents that the endpoint did not take."""
        self._thread = threading.Thread(target=self._run, name="webhook", daemon=True)
        self._thread.start()

    def post(self, document: Document) -> None:
        """Have the document sent; returns at once."""
        try:
            self._waiting.put_nowait(document)
            self._is_dropping = False
        except Full:
            self.failed += 1
            if not self._is_dropping:
                waiting = self._waiting.qsize()
                logger.error("%d alarms wait for the webhook at %s: more are not sent to it until it takes some", waiting, self._host)
            self._is_dropping = True

    def close(self, timeout_s: float = CLOSE_S) -> None:
        """Send what is left, for a moment at most, without pauses between attempts."""
        self._closing.set()
        self._thread.join(timeout_s)
        if left := self._waiting.qsize():
            logger.error("%d alarms were not sent to the webhook at %s", left, self._host)

    def _run(self) -> None:
        while True:
            try:
                document = self._waiting.get(timeout=0.1)
            except Empty:
                if self._closing.is_set():
                    return
                continue
            self._deliver(document)

    def _deliver(self, document: Document) -> None:
        for pause_s in (*self._pauses_s, None):
            problem, may_pass = self._attempt(document)
            if not problem:
                return
            if not may_pass or pause_s is None or self._closing.wait(pause_s):
                break
        self.failed += 1
        logger.error("the webhook at %s did not take an alarm: %s", self._host, problem)

    def _attempt(self, document: Document) -> tuple[str, bool]:
        """What went wrong, and whether it may pass; an empty text if nothing did."""
        body = json.dumps(document).encode()
        request = urllib.request.Request(self._url, body, {"Content-Type": "application/json"}, method="POST")  # noqa: S310 -- checked
        began = monotonic()
        try:
            urllib.request.urlopen(request, timeout=self._timeout_s).close()  # noqa: S310 -- by check_webhook
        except urllib.error.HTTPError as error:
            error.close()
            return f"it answered {error.code} {error.reason}", error.code in _MAY_PASS
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            return f"{reason} after {monotonic() - began:.1f} s", True
        return "", False
