"""The topic that loads are measured with: page views in Avro of about 200 bytes, ten fields with two UUIDs, six hours of event time.

Messages are made once and written as often as need be, in batches that differ in their times: making four million of them one by one would
take longer than loading them. There are enough different ones that no compressor and no dictionary meets one twice.
"""

import io
import json
from collections.abc import Iterator, Sequence
from functools import cache
from random import Random
from time import time
from typing import Any, Final
from uuid import UUID

import fastavro

from bench.load import pump_all
from bench.peers.broker import Broker
from bench.raw import produce_request
from bench.topics import create_topic
from millstream.wire.batch import HEADER_SIZE, read_header, seal
from millstream.wire.records import Record, encode_batch

RECORDS_PER_BATCH: Final = 500
HOURS: Final = 6
_DISTINCT_BATCHES: Final = 200
_HOUR_MS: Final = 3_600_000
_STRINGS: Final = ("page", "referrer", "country", "agent")
VIEW: Final[dict[str, Any]] = {
    "type": "record",
    "name": "page_view",
    "fields": [
        {"name": "view_id", "type": "string"},
        {"name": "session_id", "type": "string"},
        {"name": "user", "type": "long"},
        *({"name": name, "type": "string"} for name in _STRINGS),
        {"name": "seconds", "type": "double"},
        {"name": "status", "type": "int"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}


def register_views(registry_url: str, topic: str, *, versions: int = 1) -> list[int]:
    """The ids of the schemas of a topic's messages, registered for it. Each after the first has another field at its end."""
    from millstream.registry.client import RegistryClient  # only cases with Avro need it

    with RegistryClient(registry_url) as registry:
        return [registry.register(f"{topic}-value", json.dumps(_version(number))).schema_id for number in range(versions)]


def fill_with_views(broker: Broker, topic: str, count: int, schema_ids: Sequence[int], *, partitions: int) -> int:
    """Create the topic and write about `count` messages; how many that were. Batch by batch they are of one schema after the other."""
    create_topic(broker, topic, partitions=partitions)
    return add_views(broker, topic, count, schema_ids, partitions=partitions)


def add_views(broker: Broker, topic: str, count: int, schema_ids: Sequence[int], *, partitions: int) -> int:
    """Write about `count` more messages, as many to each partition."""
    batches = max(count // RECORDS_PER_BATCH // partitions, 1)
    pump_all(broker, _requests(topic, batches, schema_ids, partitions))
    return batches * partitions * RECORDS_PER_BATCH


def view_batch(number: int, schema_id: int, *, records: int, is_first: bool = True) -> bytes:
    """A batch of so many messages of now."""
    now_ms = int(time() * 1000)
    values = (framed(payload, schema_id, is_first=is_first) for payload in _payloads()[number % _DISTINCT_BATCHES][:records])
    return encode_batch([Record(place, now_ms, None, value) for place, value in enumerate(values)])


def framed(payload: bytes, schema_id: int, *, is_first: bool) -> bytes:
    """A message with the id of its schema in front; those after the first version have one more field, which is null."""
    return b"\x00" + schema_id.to_bytes(4) + payload + (b"" if is_first else b"\x00")


def _requests(topic: str, batches: int, schema_ids: Sequence[int], partitions: int) -> Iterator[bytes]:
    start_ms = int(time() * 1000) - HOURS * _HOUR_MS
    made: dict[tuple[int, int], bytes] = {}
    for number in range(batches):
        now_ms = start_ms + HOURS * _HOUR_MS * number // batches
        for partition in range(partitions):
            place = number * partitions + partition
            distinct, version = place % _DISTINCT_BATCHES, place % len(schema_ids)
            if (distinct, version) not in made:
                made[distinct, version] = view_batch(distinct, schema_ids[version], records=RECORDS_PER_BATCH, is_first=version == 0)
            yield produce_request(topic, partition, batch=_at(made[distinct, version], now_ms))


def _at(batch: bytes, now_ms: int) -> bytes:
    """The same batch at another time."""
    header = read_header(batch)
    return seal(header._replace(base_timestamp=now_ms, max_timestamp=now_ms), memoryview(batch)[HEADER_SIZE:])


def _version(number: int) -> dict[str, Any]:
    added = [{"name": f"note_{number}", "type": ["null", "string"], "default": None}] if number else []
    return {**VIEW, "fields": [*VIEW["fields"], *added]}


@cache
def _payloads() -> list[list[bytes]]:
    random = Random(1)
    schema = fastavro.parse_schema(VIEW)
    numbers = iter(range(_DISTINCT_BATCHES * RECORDS_PER_BATCH))
    return [[_payload(random, schema, next(numbers)) for _ in range(RECORDS_PER_BATCH)] for _ in range(_DISTINCT_BATCHES)]


def _payload(random: Random, schema: Any, number: int) -> bytes:
    output = io.BytesIO()
    value = {
        "view_id": str(UUID(int=random.getrandbits(128))), "session_id": str(UUID(int=random.getrandbits(128))),
        "user": random.getrandbits(40), "page": f"/products/{int(random.paretovariate(1)) % 10_000}", "referrer": "https://example.com/",
        "country": "DE", "status": 200,
        "agent": "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36", "seconds": random.random(), "at": 1_700_000_000_000 + number,
    }  # fmt: skip
    fastavro.schemaless_writer(output, schema, value)
    return output.getvalue()
