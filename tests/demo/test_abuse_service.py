"""The abuse service, without a broker: what it makes of messages that come."""

import json
from datetime import UTC, datetime
from typing import Any

from demo.abuse import ALERTS, METRICS, MOST_VIEWS
from demo.abuse_service import AbuseService
from millstream import ConsumedMessage

AT = datetime(2026, 5, 4, 12, 1, tzinfo=UTC)


class Record:
    """A message of librdkafka's, as far as it is asked."""

    def __init__(self, offset: int, key: str) -> None:
        self._offset, self._key = offset, key

    def topic(self) -> str:
        return "page-views"

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self._offset

    def key(self) -> bytes:
        return self._key.encode()


class Sent:
    """A producer that keeps what is sent."""

    def __init__(self) -> None:
        self.messages: dict[str, list[Any]] = {ALERTS: [], METRICS: []}

    def send(self, topic: str, message: Any) -> None:
        self.messages[topic].append(json.loads(message.payload))


def message(offset: int, key: str) -> ConsumedMessage:
    return ConsumedMessage(b"crawler", Record(offset, key))


def service() -> tuple[AbuseService, Sent]:
    sent = Sent()
    return AbuseService(sent, lambda payload: {"user": (payload or b"").decode(), "at": AT}), sent  # type: ignore[arg-type]


def test_a_robot_is_an_alert_once() -> None:
    one, sent = service()
    for offset in range(MOST_VIEWS + 10):
        one.handle(message(offset, f"view-{offset}"))
    assert sent.messages[ALERTS] == [{"user": "crawler", "window_ms": round(datetime(2026, 5, 4, 12, tzinfo=UTC).timestamp() * 1000)}]


def test_views_that_were_sent_twice_or_come_again_count_once() -> None:
    one, sent = service()
    for offset in range(MOST_VIEWS):
        one.handle(message(offset, f"view-{offset}"))
        one.handle(message(offset, f"view-{offset}"))
    one.handle(message(MOST_VIEWS, "view-0"))
    one.publish_metrics()
    assert sent.messages[ALERTS] == []
    [metrics] = sent.messages[METRICS]
    assert (metrics["messages"], metrics["views"], metrics["alerts"]) == (MOST_VIEWS + 1, MOST_VIEWS, 0)
