"""Topics for tests, made and used over raw requests, so that a test of one client rests on no other."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.batches import Record, decode_records, encode_batch
from tests.brokers import Broker
from tests.connection import CREATE_TOPICS, DELETE_TOPICS, FETCH, INCREMENTAL_ALTER_CONFIGS, LIST_OFFSETS, METADATA, PRODUCE, Connection
from tests.waiting import wait_until

EARLIEST, LATEST, MAX_TIMESTAMP = -2, -1, -3


@pytest.fixture
def topic(broker: Broker) -> str:
    """A fresh topic with one partition on the shared broker."""
    return create_topic(broker)


def fresh_name(stem: str = "topic") -> str:
    """A topic name that no other test uses."""
    return f"{stem}-{uuid4().hex[:12]}"


def create_topic(broker: Broker, *, name: str | None = None, partitions: int = 1, configs: Mapping[str, object] | None = None) -> str:
    """Create a topic and wait until its partitions can be used."""
    name = name or fresh_name()
    with broker.connect() as connection:
        entry = {
            "name": name,
            "num_partitions": partitions,
            "replication_factor": 1,
            "configs": [{"name": key, "value": str(value)} for key, value in (configs or {}).items()],
        }
        answer = connection.ask(CREATE_TOPICS, 7, {"topics": [entry], "timeout_ms": 30000})
        assert answer.topics[0].error_code == 0, answer.topics[0]
        wait_until(lambda: _is_ready(connection, name, partitions), f"leaders of {name}")
    return name


def create_assigned_topic(connection: Connection, *assignment: Sequence[int], name: str | None = None, **configs: str) -> str:
    """Create a topic whose partitions are kept by these brokers, the first of each being the leader; options with underscores."""
    name = name or fresh_name()
    entry = {
        "name": name,
        "num_partitions": -1,
        "replication_factor": -1,
        "assignments": [{"partition_index": number, "broker_ids": list(replicas)} for number, replicas in enumerate(assignment)],
        "configs": [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()],
    }
    created = connection.ask(CREATE_TOPICS, 7, {"topics": [entry], "timeout_ms": 30_000}).topics[0]
    assert created.error_code == 0, created
    return name


def set_option(broker: Broker, topic: str, name: str, value: str | None) -> None:
    """Set an option of a topic, or reset it with None."""
    change = {"name": name, "config_operation": 1 if value is None else 0, "value": value}
    resource = {"resource_type": 2, "resource_name": topic, "configs": [change]}
    with broker.connect() as connection:
        answer = connection.ask(INCREMENTAL_ALTER_CONFIGS, 1, {"resources": [resource], "validate_only": False})
    assert answer.responses[0].error_code == 0, answer


def delete_topic(broker: Broker, name: str) -> None:
    """Delete a topic by name."""
    with broker.connect() as connection:
        answer = connection.ask(DELETE_TOPICS, 6, {"topics": [{"name": name, "topic_id": None}], "timeout_ms": 30000})
        assert answer.responses[0].error_code == 0, answer.responses[0]


def topic_id(broker: Broker, name: str) -> UUID:
    """The id of a topic, as Metadata tells it."""
    with broker.connect() as connection:
        answer = connection.ask(METADATA, 12, {"topics": [{"name": name, "topic_id": None}], "allow_auto_topic_creation": False})
        found = answer.topics[0].topic_id
        assert isinstance(found, UUID)
        return found


def produce(connection: Connection, topic: str, batch: bytes | None, *, partition: int = 0, acks: int = -1, version: int = 9) -> Any:
    """Send one batch; returns the partition's answer."""
    answer = connection.ask(PRODUCE, version, produce_fields(topic, batch, partition=partition, acks=acks))
    return answer.responses[0].partition_responses[0]


def produce_fields(topic: str, batch: bytes | None, *, partition: int = 0, acks: int = -1) -> dict[str, object]:
    """The request of `produce`, by topic name."""
    return {
        "transactional_id": None,
        "acks": acks,
        "timeout_ms": 30000,
        "topic_data": [{"name": topic, "partition_data": [{"index": partition, "records": batch}]}],
    }


def produce_values(broker: Broker, topic: str, values: Sequence[bytes | None], *, partition: int = 0, batch_size: int = 1000) -> None:
    """Produce the values in order, `batch_size` in a batch."""
    with broker.connect() as connection:
        for start in range(0, len(values), batch_size):
            answer = produce(connection, topic, encode_batch(list(values[start : start + batch_size])), partition=partition)
            assert answer.error_code == 0, answer


def produce_to_leader(broker: Broker, topic: str, values: Sequence[bytes | None], *, batch_size: int) -> None:
    """The same on a broker of a cluster, which refuses it for a while when it has not heard from ZooKeeper: then nothing is written."""
    with broker.connect() as connection:
        for start in range(0, len(values), batch_size):
            wait_until(
                partial(_is_written, connection, topic, encode_batch(list(values[start : start + batch_size]))), f"{topic} is written"
            )


def _is_written(connection: Connection, topic: str, batch: bytes) -> bool:
    return bool(produce(connection, topic, batch).error_code == 0)


def fetch_fields(
    topic: str, offset: int, *, partition: int = 0, max_bytes: int = 1 << 20, max_wait_ms: int = 500, min_bytes: int = 1
) -> dict[str, object]:
    """A fetch of one partition by topic name (up to version 12), without a session."""
    wanted = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": max_bytes}
    return {
        "replica_id": -1,
        "max_wait_ms": max_wait_ms,
        "min_bytes": min_bytes,
        "max_bytes": 1 << 26,
        "topics": [{"topic": topic, "partitions": [wanted]}],
    }


def fetch(connection: Connection, topic: str, offset: int, *, partition: int = 0, version: int = 12, **limits: int) -> Any:
    """Fetch once; returns the partition's answer."""
    answer = connection.ask(FETCH, version, fetch_fields(topic, offset, partition=partition, **limits))
    return answer.responses[0].partitions[0]


def read_all(broker: Broker, topic: str, *, partition: int = 0, offset: int = 0) -> list[Record]:
    """Every record from `offset` to the end of the partition."""
    records: list[Record] = []
    with broker.connect() as connection:
        end = list_offset(connection, topic, LATEST, partition=partition).offset
        while offset < end:
            answer = fetch(connection, topic, offset, partition=partition)
            assert answer.error_code == 0, answer
            new = [record for record in decode_records(answer.records) if record.offset >= offset]
            records += new
            offset = new[-1].offset + 1
    return records


def list_offset(connection: Connection, topic: str, timestamp: int, *, partition: int = 0, version: int = 7) -> Any:
    """ListOffsets for one partition; returns the partition's answer."""
    wanted = {"partition_index": partition, "timestamp": timestamp}
    fields = {"replica_id": -1, "isolation_level": 0, "topics": [{"name": topic, "partitions": [wanted]}]}
    return connection.ask(LIST_OFFSETS, version, fields).topics[0].partitions[0]


def _is_ready(connection: Connection, name: str, partitions: int) -> bool:
    """Whether each partition answers; Kafka tells of a leader a moment before the leader has its log."""
    return all(list_offset(connection, name, LATEST, partition=partition).error_code == 0 for partition in range(partitions))
