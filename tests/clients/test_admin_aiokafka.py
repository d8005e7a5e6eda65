"""aiokafka's admin client, which speaks old versions of the admin APIs."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import InvalidPartitionsError, OffsetOutOfRangeError

from tests.brokers import Broker
from tests.topics import fresh_name, produce_values
from tests.waiting import wait_until

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture
async def admin(broker: Broker) -> AsyncIterator[Any]:
    client = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    await client.start()
    yield client
    await client.close()


async def config(admin: Any, topic: str, name: str) -> str | None:
    (answer,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs={name: None})])
    (resource,) = answer.resources
    code, _, _, _, entries = resource[:5]
    assert code == 0
    value: str | None = entries[0][1]
    return value


async def test_topic_is_created_described_and_deleted(broker: Broker, admin: Any) -> None:
    topic = fresh_name()
    answer = await admin.create_topics([NewTopic(topic, 2, 1, topic_configs={"retention.ms": "1000"})])
    assert [error[1] for error in answer.topic_errors] == [0]
    (described,) = await admin.describe_topics([topic])
    assert (described["error_code"], len(described["partitions"])) == (0, 2)
    assert await config(admin, topic, "retention.ms") == "1000"
    assert topic in await admin.list_topics()
    answer = await admin.delete_topics([topic])
    assert [code for _, code in answer.topic_error_codes] == [0]
    wait_until(lambda: not broker.partition_directory(topic).exists(), "directory gone")
    assert topic not in await admin.list_topics()


async def test_validation_only_creates_nothing(admin: Any) -> None:
    topic = fresh_name()
    await admin.create_topics([NewTopic(topic, 1, 1)], validate_only=True)
    assert topic not in await admin.list_topics()


async def test_existing_topic_is_not_created_again(admin: Any, topic: str) -> None:
    answer = await admin.create_topics([NewTopic(topic, 1, 1)])
    assert [error[1] for error in answer.topic_errors] == [36]


async def test_partitions_are_added_but_never_taken_away(admin: Any, topic: str) -> None:
    await admin.create_partitions({topic: NewPartitions(3)})
    with pytest.raises(InvalidPartitionsError):
        await admin.create_partitions({topic: NewPartitions(2)})


async def test_alter_configs_replaces_them_all(admin: Any) -> None:
    topic = fresh_name()
    await admin.create_topics([NewTopic(topic, 1, 1, topic_configs={"retention.ms": "1000"})])
    await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs={"max.message.bytes": "2000"})])
    assert await config(admin, topic, "max.message.bytes") == "2000"
    assert await config(admin, topic, "retention.ms") == "604800000"


async def test_records_are_deleted_up_to_an_offset(broker: Broker, admin: Any, topic: str) -> None:
    produce_values(broker, topic, [b"x"] * 10)
    partition = TopicPartition(topic, 0)
    assert await admin.delete_records({partition: RecordsToDelete(4)}) == {partition: 4}
    with pytest.raises(OffsetOutOfRangeError):
        await admin.delete_records({partition: RecordsToDelete(11)})


async def test_cluster_is_described(broker: Broker, admin: Any) -> None:
    cluster = await admin.describe_cluster()
    assert [(node["host"], node["port"]) for node in cluster["brokers"]] == [broker.address]
    assert cluster["controller_id"] == cluster["brokers"][0]["node_id"]
