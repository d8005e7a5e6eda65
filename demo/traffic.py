"""The website: sends what happens on it, at a steady pace, in Avro and through the audit."""

import time
from collections.abc import Callable, Sequence
from typing import Final, Self

from demo.events import CLICK_SCHEMA, CLICKS, FIRST_VIEW_SCHEMA, SEARCH_SCHEMA, SEARCHES, SECOND_VIEW_SCHEMA, Event, PageView, fields_of
from demo.site_activity import Sending
from millstream import AuditSettings, Message, Producer
from millstream.registry.avro_serializer import AvroSerializer
from millstream.registry.client import RegistryClient

TIER: Final = "website"
_AUDIT_EVERY_S: Final = 2.0
_PAUSE_S: Final = 0.02
_AT_MOST: Final = 500
"""Messages between two looks at the clock."""


class Traffic:
    """A producer of the paper; leaving it waits until everything was written, unless something went wrong."""

    def __init__(self, brokers: str, registry: str, *, per_second: float, on_progress: Callable[[int], None]) -> None:
        self.sent = 0
        self._per_second = per_second
        self._on_progress = on_progress
        self._registry = RegistryClient(registry)
        self._encoder = _Encoder(self._registry)
        self._producer = Producer(brokers, audit=AuditSettings(TIER, interval_s=_AUDIT_EVERY_S), options={"log_level": 0})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._producer.close()
        self._registry.close()

    def send(self, sendings: Sequence[Sending]) -> None:
        """Send these at the pace that was asked for; it may be slower, where the machine is."""
        began, done = time.monotonic(), 0
        while done < len(sendings):
            due = min(int((time.monotonic() - began) * self._per_second) + 1, len(sendings), done + _AT_MOST)
            for sending in sendings[done:due]:
                self._send(sending.event)
            self.sent += due - done
            done = due
            self._on_progress(self.sent)
            time.sleep(_PAUSE_S)

    def _send(self, event: Event) -> None:
        payload = self._encoder.encode(event, sent_at=int(time.time() * 1000))
        self._producer.send(event.topic, Message(payload, key=event[0], timestamp=event.at))


class _Encoder:
    """Events as Avro, views in the version of the schema that they are of."""

    def __init__(self, registry: RegistryClient) -> None:
        self._first = AvroSerializer(registry, FIRST_VIEW_SCHEMA)
        self._second = AvroSerializer(registry, SECOND_VIEW_SCHEMA)
        self._others = {CLICKS: AvroSerializer(registry, CLICK_SCHEMA), SEARCHES: AvroSerializer(registry, SEARCH_SCHEMA)}

    def encode(self, event: Event, *, sent_at: int) -> bytes | None:
        """The message for an event."""
        views = self._first if isinstance(event, PageView) and event.device is None else self._second
        serialize = self._others.get(event.topic, views)
        return serialize(fields_of(event, sent_at=sent_at), event.topic)
