"""Messages: bytes, about which nothing is assumed.

`Message` is what a producer sends, `MessageSet` several of them that travel together, `ConsumedMessage` what a stream or a simple consumer
hands out: the payload and where it was found. `as_messages` is what makes `Producer.send` easy to call.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, cast

from millstream.errors import UsageError

Payload = bytes | bytearray | memoryview | str | None
Headers = Sequence[tuple[str, bytes | None]]

_MILLISECONDS = 1000


class Message:
    """One message to send. A key decides the partition; without one the message goes to any.

    `payload` and `key` may be `str`, which is sent as UTF-8. A payload of None is a tombstone: on a compacted topic it deletes its key.
    `timestamp` is a `datetime` with a time zone, or milliseconds since 1970; without one it is the time of sending.
    """

    __slots__ = ("extras", "key", "payload")

    def __init__(
        self,
        payload: Payload,
        key: Payload = None,
        *,
        headers: Mapping[str, bytes | None] | Headers | None = None,
        timestamp: int | datetime | None = None,
    ) -> None:
        self.payload = payload if type(payload) is bytes else _as_bytes(payload, "a payload")
        self.key = key if key is None else _as_bytes(key, "a key")
        self.extras: dict[str, Any] | None = None
        """Headers and timestamp, which most messages do not have, as librdkafka takes them."""
        if headers is not None or timestamp is not None:
            self.extras = _extras(headers, timestamp)

    @property
    def headers(self) -> Headers:
        """The headers, in their order."""
        headers: Headers = (self.extras or {}).get("headers", ())
        return headers

    @property
    def timestamp_ms(self) -> int | None:
        """The time that was given, in milliseconds since 1970."""
        return (self.extras or {}).get("timestamp")

    def __repr__(self) -> str:
        return f"Message({self.payload!r}, key={self.key!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Message) and (self.payload, self.key, self.extras) == (other.payload, other.key, other.extras)

    def __hash__(self) -> int:
        return hash((self.payload, self.key))


class MessageSet:
    """Messages, or payloads, that are sent with one call: in as few requests as possible, in this order within each partition."""

    __slots__ = ("messages",)

    def __init__(self, messages: "Iterable[Message | Payload]" = ()) -> None:
        if isinstance(messages, _SINGLE):
            raise UsageError(f"a MessageSet is made of several messages: write MessageSet([{messages!r}])")
        self.messages = list(messages)

    def __iter__(self) -> Iterator[Message]:
        return (message if isinstance(message, Message) else Message(message) for message in self.messages)

    def __len__(self) -> int:
        return len(self.messages)

    def __repr__(self) -> str:
        return f"MessageSet({self.messages!r})"


Sendable = Message | MessageSet | bytes | str | Iterable[Message | Payload]
"""What a producer sends: a message, a set or list of them; a payload stands for a message that is nothing else."""


_SINGLE = (bytes, Message, str, bytearray, memoryview)


class ConsumedMessage(NamedTuple):
    """One message of a partition. Only the payload is at hand; the rest is read from the `record`, librdkafka's or ours, when asked for."""

    payload: bytes | None
    record: Any

    @property
    def topic(self) -> str:
        """The topic it was read from."""
        return str(self.record.topic())

    @property
    def partition(self) -> int:
        """The partition it was read from."""
        return int(self.record.partition())

    @property
    def offset(self) -> int:
        """Its place in the partition."""
        return int(self.record.offset())

    @property
    def key(self) -> bytes | None:
        """The key, if it was sent with one."""
        key: bytes | None = self.record.key()
        return key

    @property
    def timestamp_ms(self) -> int:
        """When it was sent (or appended, if the topic says so), in milliseconds since 1970; -1 if that is not known."""
        return int(self.record.timestamp()[1])

    @property
    def headers(self) -> Headers:
        """The headers, in their order; a name may come more than once."""
        return list(self.record.headers() or ())

    def __repr__(self) -> str:
        return f"ConsumedMessage({self.topic}-{self.partition}@{self.offset}, key={self.key!r}, payload={self.payload!r})"


def as_messages(messages: Sendable) -> Iterable[Message | Payload]:
    """Whatever may be sent, as messages and payloads; the commonest kinds first."""
    kind = type(messages)
    if kind is list:
        return cast("list[Message | Payload]", messages)
    if kind is MessageSet:
        return cast("MessageSet", messages).messages
    if kind in _SINGLE or isinstance(messages, _SINGLE):
        return [cast("Message | Payload", messages)]
    if isinstance(messages, Mapping) or not hasattr(messages, "__iter__"):
        raise UsageError(f"{kind.__name__} cannot be sent: give bytes, a Message, a MessageSet or a list of them")
    return messages


def milliseconds_of(moment: int | datetime) -> int:
    """Milliseconds since 1970; a `datetime` must know its time zone."""
    if isinstance(moment, datetime):
        if moment.tzinfo is None:
            raise UsageError(f"{moment} has no time zone: write datetime(..., tzinfo=UTC), or .astimezone() for local time")
        return round(moment.timestamp() * _MILLISECONDS)
    return moment


def _as_bytes(value: Payload, what: str) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    raise UsageError(f"{what} is bytes or str, not {type(value).__name__}: encode it first, for example with json.dumps(...).encode()")


def _extras(headers: Mapping[str, bytes | None] | Headers | None, timestamp: int | datetime | None) -> dict[str, Any]:
    extras: dict[str, Any] = {}
    if headers is not None:
        extras["headers"] = list(headers.items()) if isinstance(headers, Mapping) else list(headers)
    if timestamp is not None:
        extras["timestamp"] = milliseconds_of(timestamp)
    return extras
