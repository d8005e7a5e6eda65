"""Events for loads: plain values with keys, and times a minute apart from a certain noon on."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from tests.brokers import Broker
from tests.spark.topic_content import Message
from tests.spark.topic_content import write as write_messages

NOON_MS: Final = int(datetime(2026, 5, 4, 12, tzinfo=UTC).timestamp() * 1000)
MINUTE_MS: Final = 60_000


def write(broker: Broker, topic: str, values: Sequence[bytes | None], *, times_ms: Sequence[int] | None = None, partition: int = 0) -> None:
    """Write values to one partition of a topic."""
    times = times_ms or [NOON_MS + number * MINUTE_MS for number in range(len(values))]
    messages = [
        Message(value, b"key-%d" % number, partition, timestamp_ms=time_ms)
        for number, (value, time_ms) in enumerate(zip(values, times, strict=True))
    ]
    write_messages(broker, topic, messages)
