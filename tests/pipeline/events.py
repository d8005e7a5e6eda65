"""Events for loads: plain values with times of their own, written with confluent-kafka."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from confluent_kafka import Producer

from tests.brokers import Broker

NOON_MS: Final = int(datetime(2026, 5, 4, 12, tzinfo=UTC).timestamp() * 1000)
MINUTE_MS: Final = 60_000


def write(broker: Broker, topic: str, values: Sequence[bytes | None], *, times_ms: Sequence[int] | None = None, **place: Any) -> None:
    """Write values to a topic, partition 0 unless said otherwise, a minute apart from noon on."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 5})
    times = times_ms or [NOON_MS + number * MINUTE_MS for number in range(len(values))]
    for number, (value, time_ms) in enumerate(zip(values, times, strict=True)):
        producer.produce(topic, value, f"key-{number}", timestamp=time_ms, **({"partition": 0} | place))
    assert producer.flush(60) == 0
