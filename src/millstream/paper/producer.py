"""The paper's producer: `send(topic, set of messages)`. Sending does not wait; librdkafka gathers messages into batches and delivers them.

    with Producer("localhost:9092") as producer:
        producer.send("clicks", MessageSet([Message(b"test message str")]))
        producer.send("clicks", Message(b"/index.html", key="ann"))
        producer.send("clicks", [b"one", b"two"])

What cannot be delivered is raised by the next `send`, by `flush` or by leaving the `with` block, whichever comes first: `DeliveryFailed`.
When more waits than librdkafka keeps (`queue.buffering.max.messages`), `send` waits for room, so a producer that is faster than its brokers
is slowed down and loses nothing. A producer may be used by many threads.
"""

from time import monotonic
from typing import Any, Final, Self

from millstream.address import parse_bootstrap_servers
from millstream.client.errors import DeliveryFailed
from millstream.paper.librdkafka import Settings, await_answer, delivery_failure, open_producer
from millstream.paper.message import Message, Payload, Sendable, as_messages

_POLL_EVERY_S: Final = 0.1
_ROOM_S: Final = 0.1
CONNECT_TIMEOUT_S: Final = 10.0
FLUSH_TIMEOUT_S: Final = 60.0


class Producer:
    """Sends messages to the brokers of a cluster; `options` are librdkafka's own, by their names."""

    def __init__(self, brokers: str, *, connect_timeout_s: float = CONNECT_TIMEOUT_S, options: Settings | None = None) -> None:
        parse_bootstrap_servers(brokers)
        self._first_failure: DeliveryFailed | None = None
        self._failures = 0
        self._polled_at = monotonic()
        self._client = open_producer(brokers, options or {}, on_failure=self._note_failure)
        await_answer(self._client, brokers, timeout_s=connect_timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            # What was sent still goes out, but an error of the block is more than one of the delivery.
            self._client.flush(FLUSH_TIMEOUT_S)

    def send(self, topic: str, messages: Sendable) -> None:
        """Send one message, a payload, or several of either."""
        if self._failures or monotonic() - self._polled_at > _POLL_EVERY_S:
            self._poll()
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
        """Flush; a producer needs no other end."""
        self.flush()

    def _produce(self, topic: str, message: Message | Payload) -> None:
        if not isinstance(message, Message):
            message = Message(message)
        self._client.produce(topic, message.payload, message.key, **(message.extras or {}))

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

    def _note_failure(self, error: Any, message: Any) -> None:
        if error is not None:
            self._failures += 1
            self._first_failure = self._first_failure or delivery_failure(error, message)
