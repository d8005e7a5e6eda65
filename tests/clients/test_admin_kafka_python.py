"""kafka-python's admin client, which uses the newest versions of the admin APIs, and some that librdkafka does not have."""

from collections.abc import Iterator
from typing import Any

import pytest
from kafka import KafkaAdminClient, OffsetSpec, TopicPartition
from kafka import errors as kafka_errors
from kafka.admin import (
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    AlterConfigOp,
    ConfigResource,
    ResourcePatternFilter,
    ResourceType,
)

from tests.batches import encode_batch
from tests.brokers import IS_KAFKA, Broker
from tests.clients.client import Message
from tests.clients.kafka_python_client import KafkaPythonClient
from tests.topics import create_topic, fresh_name, produce, produce_values, topic_id
from tests.waiting import wait_until


@pytest.fixture
def admin(broker: Broker) -> Iterator[Any]:
    client = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    yield client
    client.close()


def describe(admin: Any, topic: str) -> Any:
    (found,) = admin.describe_topics([topic])
    return found


def topic_configs(admin: Any, topic: str, *, config_filter: str = "all") -> Any:
    return admin.describe_configs([ConfigResource("TOPIC", topic)], include_synonyms=True, config_filter=config_filter)["topic"][topic]


def test_broker_looks_like_a_kafka_of_today(admin: Any) -> None:
    versions = admin.api_versions()
    assert versions
    node = admin.describe_cluster()["brokers"][0]["broker_id"]
    assert admin.get_broker_version_data(node).broker_version >= (4, 0)


def test_created_topic_has_its_partitions_and_configs(admin: Any) -> None:
    topic = fresh_name()
    answer = admin.create_topics({topic: {"num_partitions": 2, "replication_factor": 1, "configs": {"retention.ms": "1000"}}})
    assert answer["topics"][0]["num_partitions"] == 2
    admin.wait_for_topics([topic])
    assert sorted(partition["partition_index"] for partition in describe(admin, topic)["partitions"]) == [0, 1]
    assert topic_configs(admin, topic, config_filter="modified")["retention.ms"]["value"] == "1000"


def test_topic_is_created_with_an_assignment(admin: Any) -> None:
    topic, node = fresh_name(), admin.describe_cluster()["brokers"][0]["broker_id"]
    admin.create_topics({topic: {"assignments": {0: [node], 1: [node]}}}, wait_for_metadata=True)
    assert [partition["replica_nodes"] for partition in describe(admin, topic)["partitions"]] == [[node], [node]]


def test_validation_only_creates_nothing(admin: Any) -> None:
    topic = fresh_name()
    admin.create_topics([topic], validate_only=True)
    assert topic not in admin.list_topics()


def test_wrong_topics_are_refused_by_name(admin: Any, topic: str) -> None:
    with pytest.raises(kafka_errors.TopicAlreadyExistsError):
        admin.create_topics([topic])
    with pytest.raises(kafka_errors.InvalidReplicationFactorError):
        admin.create_topics({fresh_name(): {"num_partitions": 1, "replication_factor": 9}})
    with pytest.raises(kafka_errors.UnknownTopicOrPartitionError):
        admin.delete_topics([fresh_name()])


def test_each_topic_of_a_request_has_an_answer_of_its_own(admin: Any, topic: str) -> None:
    good = fresh_name()
    answer = admin.create_topics([good, topic], raise_errors=False)
    assert {one["name"]: one["error_code"] for one in answer["topics"]} == {good: 0, topic: 36}


def test_topic_is_described_and_deleted_by_id(broker: Broker, admin: Any) -> None:
    topic = create_topic(broker)
    identity = topic_id(broker, topic)
    assert admin.describe_topics([identity])[0]["name"] == topic
    admin.delete_topics([identity])
    wait_until(lambda: topic not in admin.list_topics(), "topic gone")


def test_partitions_are_added(admin: Any, topic: str) -> None:
    node = admin.describe_cluster()["brokers"][0]["broker_id"]
    admin.create_partitions({topic: 2})
    wait_until(lambda: len(describe(admin, topic)["partitions"]) == 2, "two partitions")
    admin.create_partitions({topic: {"count": 4, "assignments": [[node], [node]]}})
    wait_until(lambda: len(describe(admin, topic)["partitions"]) == 4, "four partitions")
    with pytest.raises(kafka_errors.InvalidPartitionsError):
        admin.create_partitions({topic: 1})


def test_configs_are_altered_and_reset(admin: Any, topic: str) -> None:
    admin.alter_configs([ConfigResource("TOPIC", topic, {"retention.ms": "1000", "cleanup.policy": (AlterConfigOp.APPEND, "compact")})])
    wait_until(lambda: topic_configs(admin, topic)["retention.ms"]["value"] == "1000", "altered")
    assert topic_configs(admin, topic)["cleanup.policy"]["value"] == "delete,compact"
    admin.reset_configs([ConfigResource("TOPIC", topic, ["retention.ms"])])
    wait_until(lambda: topic_configs(admin, topic)["retention.ms"]["value"] == "604800000", "reset")
    admin.alter_configs([ConfigResource("TOPIC", topic, {"retention.ms": "5"})], validate_only=True)
    assert topic_configs(admin, topic)["retention.ms"]["value"] == "604800000"


def test_configs_have_types_and_synonyms(broker: Broker, admin: Any) -> None:
    topic = create_topic(broker, configs={"segment.bytes": 1 << 20})
    entry = topic_configs(admin, topic)["segment.bytes"]
    assert entry["config_type"] in ("INT", 3)
    assert [synonym["name"] for synonym in entry["synonyms"]] == ["segment.bytes", "log.segment.bytes"]


def test_broker_configs_are_described(admin: Any) -> None:
    node = str(admin.describe_cluster()["brokers"][0]["broker_id"])
    configs = admin.describe_configs([ConfigResource("BROKER", node)], config_filter="all")["broker"][node]
    assert configs["num.partitions"]["value"] == "1"
    assert {"listeners", "advertised.listeners", "node.id", "log.dirs"} <= configs.keys()


@pytest.mark.skipif(IS_KAFKA, reason="Kafka tells what stands in its file")
def test_broker_describes_who_it_is_and_where_it_listens(broker: Broker, admin: Any) -> None:
    configs = admin.describe_configs([ConfigResource("BROKER", "1")], config_filter="all")["broker"]["1"]
    told = {name: configs[name]["value"] for name in ("listeners", "advertised.listeners", "node.id", "broker.id", "log.dirs")}
    place = f"PLAINTEXT://{broker.bootstrap_servers}"
    assert told == {"listeners": place, "advertised.listeners": place, "node.id": "1", "broker.id": "1", "log.dirs": str(broker.data)}


def test_records_are_deleted_up_to_an_offset(broker: Broker, admin: Any, topic: str) -> None:
    produce_values(broker, topic, [b"x"] * 10)
    partition = TopicPartition(topic, 0)
    assert admin.delete_records({partition: 4})[partition]["low_watermark"] == 4
    with pytest.raises(kafka_errors.OffsetOutOfRangeError):
        admin.delete_records({partition: 11})


def test_offsets_are_listed_by_every_specification(broker: Broker, admin: Any, topic: str) -> None:
    partition = TopicPartition(topic, 0)
    with broker.connect() as connection:
        for timestamp in (1_700_000_001_000, 1_700_000_009_000, 1_700_000_005_000):
            assert produce(connection, topic, encode_batch([b"x"] * 5, timestamp=timestamp)).error_code == 0
    expected = {OffsetSpec.EARLIEST: 0, OffsetSpec.LATEST: 15, OffsetSpec.MAX_TIMESTAMP: 5, 1_700_000_002_000: 5}
    for specification, offset in expected.items():
        assert admin.list_partition_offsets({partition: specification})[partition].offset == offset


def test_cluster_is_described(broker: Broker, admin: Any) -> None:
    cluster = admin.describe_cluster()
    assert [(node["host"], node["port"]) for node in cluster["brokers"]] == [broker.address]
    assert cluster["controller_id"] == cluster["brokers"][0]["broker_id"]
    assert cluster["cluster_id"]


def test_topic_partitions_are_described_page_by_page(broker: Broker, admin: Any) -> None:
    topic = create_topic(broker, partitions=5)
    seen: list[int] = []
    cursor = None
    while True:
        page = admin.describe_topic_partitions([topic], response_partition_limit=2, cursor=cursor)
        seen += [partition["partition_index"] for found in page["topics"] for partition in found["partitions"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == [0, 1, 2, 3, 4]


def test_log_directories_have_the_size_of_each_partition(broker: Broker, admin: Any, topic: str) -> None:
    produce_values(broker, topic, [b"x" * 1000])
    (answer,) = admin.describe_log_dirs({topic: [0]})
    (directory,) = [one for one in answer["log_dirs"] if one["topics"]]
    assert directory["log_dir"] == str(broker.data)
    assert directory["topics"][0]["partitions"][0]["partition_size"] == sum(
        file.stat().st_size for file in broker.partition_directory(topic).glob("*.log")
    )


def test_active_producers_are_described(broker: Broker, admin: Any, topic: str) -> None:
    with KafkaPythonClient().writer(broker, idempotent=True) as writer:
        writer.write(topic, [Message(b"a"), Message(b"b")])
    state = admin.describe_producers([TopicPartition(topic, 0)])[TopicPartition(topic, 0)]
    assert [producer.last_sequence for producer in state.active_producers] == [1]


def test_access_rules_are_refused_because_there_are_none(admin: Any) -> None:
    anything = ACLFilter(principal=None, host=None, operation=ACLOperation.ANY, permission_type=ACLPermissionType.ANY,
                         resource_pattern=ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY))  # fmt: skip
    with pytest.raises(kafka_errors.SecurityDisabledError):
        admin.describe_acls(anything)


def test_features_are_those_that_work(admin: Any) -> None:
    features = admin.describe_features()
    assert "group.version" in str(features)
    assert "transaction.version" in str(features)


def test_nothing_moves_and_nothing_has_to_be_elected(admin: Any, topic: str) -> None:
    assert not admin.list_partition_reassignments()
    elected = admin.elect_leaders(0, {topic: [0]}, raise_errors=False)
    assert elected.replica_election_results[0].partition_result[0].error_code == kafka_errors.ElectionNotNeededError.errno
    moved = admin.alter_partition_reassignments({TopicPartition(topic, 0): [1]})
    assert "Error" not in str(moved)


def test_quorum_transactions_users_and_resources_are_listed(admin: Any, topic: str) -> None:
    assert "'leader_id': 1" in str(admin.describe_metadata_quorum())
    assert not any(admin.list_transactions().values())
    assert not admin.describe_user_scram_credentials()
    assert topic in str(admin.list_config_resources())


def test_groups_have_options(admin: Any) -> None:
    described = admin.describe_configs([ConfigResource("GROUP", "some-group")], config_filter="all")
    assert "consumer.session.timeout.ms" in str(described)
