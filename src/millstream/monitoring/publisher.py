"""The last sample as the pages that show it; whoever asks, and however often, the broker is not asked.

A page is written when it is first asked for, and kept until the next sample. Probes need the sample alone; what `/metrics` shows of it also
needs lags, for which other brokers are asked, and one of them may hang. So a sample is noted first (`note`), and shown when its lags are
known (`show`), by two threads; pages are asked for by others.
"""

import json
import os
import threading
import time
import zlib
from collections.abc import Callable
from functools import cached_property
from typing import Final, NamedTuple

from millstream.broker.metrics.sample import Sample
from millstream.monitoring.broker_process import process_families
from millstream.monitoring.exposition import CONTENT_TYPE, family, labels
from millstream.monitoring.families import FAMILIES, Snapshot, broker_label, write
from millstream.monitoring.lag import Lags
from millstream.monitoring.lines import Lines
from millstream.monitoring.request_times import RecentTimes

FIRST_SAMPLE_S: Final = 10.0
"""How long the first page may wait for the first sample."""
LATE_SAMPLES: Final = 3
"""After so many intervals without a sample the broker is not well: its loop does not get round."""


_GZIP: Final = 31
"""zlib's number for gzip with the largest window."""


class Page(NamedTuple):
    """An answer."""

    status: int
    content_type: str
    body: bytes
    is_compressed: bool = False


class Arrived(NamedTuple):
    """A sample, and when it came."""

    sample: Sample
    at: float


class Publisher:
    """Takes samples and shows the last one."""

    def __init__(
        self,
        lags: Lags,
        *,
        interval_s: float,
        version: str,
        pid: int | None = None,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`pid` is the broker's process: that of the parent unless something else is said."""
        self._lags = lags
        self._interval_s = interval_s
        self._version = version
        self._pid = os.getppid() if pid is None else pid
        self._clock = clock
        self._monotonic = monotonic
        self._times = RecentTimes()
        self._lines = Lines()
        self._has_come, self._is_shown = threading.Event(), threading.Event()
        self._lock = threading.Lock()
        self._last: Arrived | None = None
        """The last sample, for probes."""
        self._snapshot: Snapshot | None = None
        """What is shown, and when its sample came."""
        self._taken = 0.0
        self._written: tuple[Snapshot, _Text] | None = None
        """What was last written, and of which snapshot."""

    def note(self, sample: Sample) -> "Arrived":
        """A sample has come: probes answer by it from now on."""
        self._last = arrived = Arrived(sample, self._monotonic())
        self._has_come.set()
        return arrived

    def show(self, arrived: "Arrived") -> None:
        """Show this from now on, with lags, for which other brokers may have to be asked."""
        lags = self._lags.of(arrived.sample, now=self._clock())
        with self._lock:
            self._times.note(arrived.at, arrived.sample.broker.requests)
            self._snapshot, self._taken = Snapshot(arrived.sample, lags, self._times), arrived.at
        self._is_shown.set()

    def metrics(self, *, compressed: bool) -> Page:
        """`/metrics`."""
        if not self._is_shown.wait(FIRST_SAMPLE_S):
            missing = "the lags of its groups are not known" if self._last else "the broker has not given a sample"
            return _plain(503, f"{missing} after {FIRST_SAMPLE_S:g} s\n")
        with self._lock:
            text = self._text()
            age_s = self._monotonic() - self._taken
            parts = () if self._snapshot is None else self._snapshot.sample.parts
        own = family("millstream_sample_age_seconds", *FAMILIES["millstream_sample_age_seconds"], [("", round(age_s, 3))])
        own += family("millstream_build_info", *FAMILIES["millstream_build_info"], [(labels(version=self._version), 1)])
        own += process_families({broker_label(part.broker.node_id): part.broker.process_id for part in parts} or {"": self._pid})
        return Page(200, CONTENT_TYPE, text.followed_by(own.encode(), compressed=compressed), compressed)

    def health(self) -> Page:
        """`/health`: 200 while the broker's loop gets round."""
        self._has_come.wait(FIRST_SAMPLE_S)
        reason = self._why_unwell()
        return _json(503 if reason else 200, {"status": "down" if reason else "up"} | ({"reason": reason} if reason else {}))

    def ready(self) -> Page:
        """`/ready`: 200 while clients are served as they should be."""
        self._has_come.wait(FIRST_SAMPLE_S)
        last = self._last
        reason = self._why_unwell() or (last.sample.broker.not_ready if last is not None else "")
        return _json(503 if reason else 200, {"status": "not ready" if reason else "ready"} | ({"reason": reason} if reason else {}))

    def _why_unwell(self) -> str:
        if self._last is None:
            return "the broker has not given a sample yet"
        age_s = self._monotonic() - self._last.at
        if age_s > LATE_SAMPLES * self._interval_s:
            return f"the last sample of the broker is {age_s:.0f} s old, and one is due every {self._interval_s:g} s"
        return ""

    def _text(self) -> "_Text":
        snapshot = self._snapshot
        assert snapshot is not None
        if self._written is None or self._written[0] is not snapshot:
            self._written = snapshot, _Text(write(snapshot, self._lines).encode())
        return self._written[1]


class _Text:
    """A long text that is sent with different ends; compressed once, whatever follows it, if anybody asks for that."""

    def __init__(self, plain: bytes) -> None:
        self._plain = plain

    def followed_by(self, end: bytes, *, compressed: bool) -> bytes:
        """The text and its end."""
        if not compressed:
            return self._plain + end
        begun, compressor = self._compressed
        compressor = compressor.copy()
        return begun + compressor.compress(end) + compressor.flush()

    @cached_property
    def _compressed(self) -> "tuple[bytes, zlib._Compress]":
        compressor = zlib.compressobj(1, wbits=_GZIP)
        return compressor.compress(self._plain) + compressor.flush(zlib.Z_SYNC_FLUSH), compressor


def _plain(status: int, text: str) -> Page:
    return Page(status, "text/plain; charset=utf-8", text.encode())


def _json(status: int, fields: dict[str, str]) -> Page:
    return Page(status, "application/json", json.dumps(fields).encode() + b"\n")
