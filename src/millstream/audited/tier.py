"""A tier of one process: what it counts, from any thread, and the reporter that publishes it. For our consumer, and for other clients.

tier = Tier("search", Kind.CONSUMER, lambda: "127.0.0.1:9092")
tier.handled("clicks", [Handled(partition, offset, timestamp_ms, size)])
tier.close()

token = tier.sending("clicks")                # before a message goes out, so that a producer that is killed is known to have been there
tier.sent(token, "clicks", timestamp_ms, size, partition=3)    # or `tier.failed(token)`, when it is known what has become of it
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from time import time
from typing import NamedTuple

from millstream.audit.reports.report import Kind, Report, bucket_of
from millstream.audited.audit_topic import open_audit_topic
from millstream.audited.reporter import Reporter
from millstream.audited.settings import Audit, audit_settings
from millstream.topic_partition import TopicPartition


class Handled(NamedTuple):
    """A message that a consumer has handled; a negative time is none."""

    partition: int
    offset: int
    timestamp_ms: int
    size: int


class Tier:
    """What one process counts under the name of a tier; safe for many threads."""

    def __init__(self, audit: Audit, kind: Kind, brokers: Callable[[], str], *, options: Mapping[str, object] | None = None) -> None:
        """`brokers` is asked in the reporter's thread, when there is something to report; `options` are those of the client, which has
        TLS and passwords among them."""
        self.settings = audit_settings(audit)
        self._kind = kind
        self.restart()
        self.reporter = Reporter(self.settings, self, open_topic=lambda: open_audit_topic(brokers(), self.settings, options or {}))

    def restart(self) -> None:
        """Begin anew, as another reporter, with nothing counted."""
        self._counter = self.settings.counter(self._kind)
        self._lock = threading.Lock()
        self._unanswered: dict[int, int] = {}
        """How many messages are under way, by the report before which they were sent: its time in milliseconds."""
        self._taken_ms = int(time() * 1000)

    # --- for producers

    def sending(self, topic: str) -> int:
        """A message is about to be sent; returns what to say when its fate is known."""
        with self._lock:
            self._counter.touch(topic)
            is_new = self._counter.says_hello
            token = self._taken_ms
            self._unanswered[token] = self._unanswered.get(token, 0) + 1
        if is_new:
            self.reporter.announce()
        return token

    def sent(self, token: int, topic: str, timestamp_ms: int, size: int, *, partition: int, count: int = 1) -> None:
        """A message, or several of one time, were written to a partition."""
        with self._lock:
            self._counter.add_batch(topic, timestamp_ms, count, size, partition=partition)
            self._answer(token)

    def failed(self, token: int) -> None:
        """A message was not written."""
        with self._lock:
            self._answer(token)

    # --- for consumers

    def is_one_bucket(self, first_ms: int, last_ms: int) -> bool:
        """Whether two times are in the same bucket."""
        return bucket_of(first_ms, self.settings.bucket_ms) == bucket_of(last_ms, self.settings.bucket_ms)

    def handled(self, topic: str, messages: Iterable[Handled]) -> None:
        """Messages were handled, in their order."""
        for run in _runs(messages, self.settings.bucket_ms):
            first = run[0]
            offsets, size = range(first.offset, first.offset + len(run)), sum(message.size for message in run)
            self.handled_run(topic, first.partition, offsets, timestamp_ms=first.timestamp_ms, size=size)

    def handled_run(self, topic: str, partition: int, offsets: range, *, timestamp_ms: int, size: int) -> None:
        """Messages of one bucket, whose offsets follow each other, were handled."""
        delay_ms = int(time() * 1000) - timestamp_ms if timestamp_ms >= 0 else None
        with self._lock:
            self._counter.add_batch(
                topic, timestamp_ms, len(offsets), size, partition=partition, first_offset=offsets.start, delay_ms=delay_ms
            )
            is_new = self._counter.says_hello
        if is_new:
            self.reporter.announce()

    def touch(self, topics: Iterable[str]) -> None:
        """The topics are being read, whether there is something in them or not."""
        with self._lock:
            for topic in topics:
                self._counter.touch(topic)
            is_new = self._counter.says_hello
        if is_new:
            self.reporter.announce()

    def passed(self, place: TopicPartition, start: int, end: int) -> None:
        """Everything from `start` up to but not including `end` was handled, whatever times it has; the auditor finds the buckets."""
        with self._lock:
            self._counter.add_range(place.topic, place.partition, start, end)

    def close(self) -> None:
        """Publish what is left, as the last report."""
        self.reporter.close()

    # --- for the reporter

    def settle(self) -> bool:
        """Whether it is known what has become of all messages."""
        return not self._unanswered

    def take(self, now_ms: int, *, is_last: bool) -> Sequence[Report]:
        """The reports of what was counted since the last call."""
        with self._lock:
            self._taken_ms = now_ms
            return self._counter.take(now_ms, progress_ms=min(self._unanswered, default=now_ms), is_last=is_last)

    def _answer(self, token: int) -> None:
        left = self._unanswered.get(token, 0) - 1
        if left > 0:
            self._unanswered[token] = left
        else:
            # In the child of a fork, what its parent sent is not known.
            self._unanswered.pop(token, None)


def _runs(messages: Iterable[Handled], bucket_ms: int) -> Iterator[list[Handled]]:
    """The messages cut where partition or bucket change, or where offsets do not follow each other."""
    run: list[Handled] = []
    for message in messages:
        if run and (
            message.offset != run[-1].offset + 1
            or message.partition != run[-1].partition
            or bucket_of(message.timestamp_ms, bucket_ms) != bucket_of(run[-1].timestamp_ms, bucket_ms)
        ):
            yield run
            run = []
        run.append(message)
    if run:
        yield run
