"""The paper's producer: `send(topic, set of messages)`. Sending does not wait; librdkafka gathers messages into batches and delivers them.

    with Producer("localhost:9092") as producer:
        producer.send("clicks", MessageSet([Message(b"test message str")]))
        producer.send("clicks", Message(b"/index.html", key="ann"))
        producer.send("clicks", [b"one", b"two"])

What cannot be delivered is raised by the next `send`, by `flush` or by leaving the `with` block, whichever comes first: `DeliveryFailed`.
When more waits than librdkafka keeps (`queue.buffering.max.messages`), `send` waits for room, so a producer that is faster than its brokers
is slowed down and loses nothing. A producer may be used by many threads.

With `audit="name"` it counts what it sends, for the audit (docs/audit.md): close it, or use `with`, so that its last counts are published.
"""

from collections.abc import Iterable
from functools import partial
from operator import length_hint
from time import monotonic, time
from typing import Any, Final, Self

from millstream.address import parse_bootstrap_servers
from millstream.audited.settings import Audit
from millstream.client.errors import DeliveryFailed
from millstream.paper.librdkafka import Settings, await_answer, delivery_failure, open_producer
from millstream.paper.message import Message, Payload, Sendable, as_messages
from millstream.paper.producer_audit import ProducerAudit, size_of

_POLL_EVERY_S: Final = 0.1
_ROOM_S: Final = 0.1
CONNECT_TIMEOUT_S: Final = 10.0
FLUSH_TIMEOUT_S: Final = 60.0
_MOST_COUNTED: Final = 1_000
"""So many messages are counted at a time."""
_NOTHING: Final[list[Message | Payload]] = []


class Producer:
    """Sends messages to the brokers of a cluster; `options` are librdkafka's own, by their names."""

    def __init__(
        self,
        brokers: str,
        *,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        audit: Audit | None = None,
        options: Settings | None = None,
    ) -> None:
        parse_bootstrap_servers(brokers)
        options = options or {}
        self._first_failure: DeliveryFailed | None = None
        self._failures = 0
        self._polled_at = monotonic()
        self._audit = None if audit is None else ProducerAudit(audit, brokers, options)
        on_statistics = None if self._audit is None else self._audit.note_statistics
        self._client = open_producer(brokers, options, on_failure=self._note_failure, on_statistics=on_statistics)
        if self._audit is not None:
            self._audit.follow(self._client)
        await_answer(self._client, brokers, timeout_s=connect_timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            # What was sent still goes out, but an error of the block is more than one of the delivery.
            self._client.flush(FLUSH_TIMEOUT_S)
            self._close_audit()

    def send(self, topic: str, messages: Sendable) -> None:
        """Send one message, a payload, or several of either."""
        if self._failures or monotonic() - self._polled_at > _POLL_EVERY_S:
            self._poll()
        if (audit := self._audit) is not None:
            left = as_messages(messages)
            if type(left) is list:
                left = self._send_simple(audit, topic, left)
            if left is not _NOTHING:
                self._send_counted(audit, topic, left)
            return
        produce = self._client.produce
        for message in as_messages(messages):
            try:
                if type(message) is bytes:
                    produce(topic, message)
                elif type(message) is Message and message.extras is None:
                    produce(topic, message.payload, message.key)
                else:
                    self._produce(topic, message)
            except BufferError:
                self._wait_for_room(topic, message)

    def flush(self, timeout_s: float = FLUSH_TIMEOUT_S) -> None:
        """Wait until everything sent has been written; `DeliveryFailed` for what was not, or not within the time."""
        left = self._client.flush(timeout_s)
        self._raise_failure()
        if left:
            raise DeliveryFailed(
                f"{left} messages were not written within {timeout_s:g} s; they are still being tried: are the brokers up?"
            )

    def close(self) -> None:
        """Flush, and publish the last counts of the audit; a producer needs no other end."""
        try:
            self.flush()
        finally:
            self._close_audit()

    def _close_audit(self) -> None:
        if self._audit is not None:
            self._audit.close()

    def _produce(self, topic: str, message: Message | Payload) -> None:
        if not isinstance(message, Message):
            message = Message(message)
        self._client.produce(topic, message.payload, message.key, **(message.extras or {}))

    def _send_counted(self, audit: ProducerAudit, topic: str, messages: Iterable[Message | Payload]) -> None:
        """Stamp, send and count messages one by one."""
        for message in messages:
            audit.begin(topic)
            one = message if isinstance(message, Message) else Message(message)
            timestamp_ms = one.timestamp_ms if one.timestamp_ms is not None else int(time() * 1000)
            one = Message(one.payload, one.key, headers=one.headers or None, timestamp=timestamp_ms)
            assert one.extras is not None
            one.extras["on_delivery"] = partial(self._note_failure, timestamp_ms=timestamp_ms)
            try:
                self._produce(topic, one)
            except BufferError:
                self._wait_for_room(topic, one)
            audit.add(topic, timestamp_ms, one)

    def _send_simple(self, audit: ProducerAudit, topic: str, messages: "list[Message | Payload]") -> "list[Message | Payload]":
        """Send and count what librdkafka may stamp; returns what is left, from the first on that is not simple or does not fit."""
        produce = self._client.produce
        while (window := audit.begin(topic)) is not None:
            part = messages if len(messages) <= _MOST_COUNTED else messages[:_MOST_COUNTED]
            left = iter(part)
            is_whole, is_plain = False, True
            try:
                for message in left:
                    if type(message) is bytes:
                        produce(topic, message)
                    elif type(message) is Message and message.extras is None:
                        produce(topic, message.payload, message.key)
                        is_plain = False
                    else:
                        break
                else:
                    is_whole = True
            except BufferError:
                pass
            finally:
                # The one that was taken last was not sent.
                sent = part if is_whole else part[: len(part) - length_hint(left) - 1]
                audit.add_unstamped(topic, window, len(sent), sum(map(len, sent)) if is_plain else size_of(sent))  # type: ignore[arg-type]
            if not is_whole:
                return messages[len(sent) :]
            if part is messages:
                return _NOTHING
            messages = messages[_MOST_COUNTED:]
        return messages

    def _wait_for_room(self, topic: str, message: Message | Payload) -> None:
        while True:
            self._client.poll(_ROOM_S)
            self._raise_failure()
            try:
                self._produce(topic, message)
            except BufferError:
                continue
            return

    def _poll(self) -> None:
        self._polled_at = monotonic()
        self._client.poll(0)
        self._raise_failure()

    def _raise_failure(self) -> None:
        failure, count = self._first_failure, self._failures
        self._first_failure, self._failures = None, 0
        if failure is not None:
            raise failure if count == 1 else DeliveryFailed(f"{count} messages were not written, the first because: {failure}")

    def _note_failure(self, error: Any, message: Any, timestamp_ms: int | None = None) -> None:
        if error is not None:
            self._failures += 1
            self._first_failure = self._first_failure or delivery_failure(error, message)
            if self._audit is not None:
                self._audit.note_failure(message, timestamp_ms)
