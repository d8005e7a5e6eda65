"""confluent-kafka's AdminClient: topics, partitions, configs, records, offsets, the cluster."""

from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

import confluent_kafka.admin
import pytest
from confluent_kafka import ElectionType, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.batches import encode_batch
from tests.brokers import Broker
from tests.topics import create_topic, fresh_name, produce, produce_values, topic_id
from tests.waiting import DEADLINE_S, wait_until

api: Any = confluent_kafka.admin  # declares no types for the names it offers
AlterConfigOpType, ConfigEntry, ConfigResource, ConfigSource = api.AlterConfigOpType, api.ConfigEntry, api.ConfigResource, api.ConfigSource
NewPartitions, NewTopic, OffsetSpec, ResourceType = api.NewPartitions, api.NewTopic, api.OffsetSpec, api.ResourceType

SECURITY_DISABLED, ELECTION_NOT_NEEDED, RESOURCE_NOT_FOUND = 54, 84, 91


@pytest.fixture
def admin(broker: Broker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap_servers})


def result(futures: Mapping[Any, Future[Any]]) -> Any:
    """The result of the only future."""
    (future,) = futures.values()
    return future.result(timeout=DEADLINE_S)


def error_code(futures: Mapping[Any, Future[Any]]) -> int:
    """Kafka's code with which the only future failed."""
    with pytest.raises(KafkaException) as failed:
        result(futures)
    code: int = failed.value.args[0].code()
    return code


def node_id(admin: AdminClient) -> int:
    found: int = admin.describe_cluster().result(timeout=DEADLINE_S).nodes[0].id
    return found


def partitions_of(admin: AdminClient, topic: str) -> list[int]:
    return sorted(admin.list_topics(topic, timeout=DEADLINE_S).topics[topic].partitions)


def topic_configs(admin: AdminClient, topic: str) -> dict[str, Any]:
    found: dict[str, Any] = result(admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]))
    return found


def alter(admin: AdminClient, topic: str, name: str, operation: Any, value: str | None) -> dict[Any, Any]:
    entry = ConfigEntry(name, value, incremental_operation=operation)
    futures: dict[Any, Any] = admin.incremental_alter_configs([ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])])
    return futures


def test_created_topic_has_its_partitions_and_configs(admin: AdminClient) -> None:
    topic = fresh_name()
    result(admin.create_topics([NewTopic(topic, num_partitions=3, replication_factor=1, config={"retention.ms": "12345"})]))
    wait_until(lambda: partitions_of(admin, topic) == [0, 1, 2], "three partitions")
    entry = topic_configs(admin, topic)["retention.ms"]
    assert (entry.value, entry.source) == ("12345", ConfigSource.DYNAMIC_TOPIC_CONFIG.value)


def test_topic_is_created_with_an_assignment(admin: AdminClient) -> None:
    topic = fresh_name()
    result(admin.create_topics([NewTopic(topic, num_partitions=2, replica_assignment=[[node_id(admin)]] * 2)]))
    wait_until(lambda: partitions_of(admin, topic) == [0, 1], "two partitions")


def test_topic_is_created_with_the_brokers_defaults(admin: AdminClient) -> None:
    topic = fresh_name()
    result(admin.create_topics([NewTopic(topic, num_partitions=-1, replication_factor=-1)]))
    wait_until(lambda: partitions_of(admin, topic) == [0], "one partition")


def test_validation_only_creates_nothing(admin: AdminClient) -> None:
    topic = fresh_name()
    result(admin.create_topics([NewTopic(topic, num_partitions=1, replication_factor=1)], validate_only=True))
    assert topic not in admin.list_topics(timeout=DEADLINE_S).topics


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"num_partitions": 0, "replication_factor": 1}, 37),
        ({"num_partitions": 1, "replication_factor": 7}, 38),
        ({"num_partitions": 1, "replica_assignment": [[4711]]}, 39),
        ({"num_partitions": 1, "replication_factor": 1, "config": {"retention.ms": "soon"}}, 40),
        ({"num_partitions": 1, "replication_factor": 1, "config": {"no.such.option": "1"}}, 40),
    ],
)
def test_topic_that_cannot_be_is_refused_with_the_right_code(admin: AdminClient, wrong: dict[str, Any], code: int) -> None:
    assert error_code(admin.create_topics([NewTopic(fresh_name(), **wrong)])) == code


@pytest.mark.parametrize("name", ["with space", "ü", ".", "..", "x" * 250, "a/b"])
def test_topic_name_that_is_not_allowed_is_refused(admin: AdminClient, name: str) -> None:
    assert error_code(admin.create_topics([NewTopic(name, num_partitions=1, replication_factor=1)])) == 17


def test_existing_topic_is_not_created_again(admin: AdminClient, topic: str) -> None:
    assert error_code(admin.create_topics([NewTopic(topic, num_partitions=1, replication_factor=1)])) == 36


def test_topic_whose_name_collides_in_metrics_is_refused(admin: AdminClient) -> None:
    name = fresh_name("with.dot")
    result(admin.create_topics([NewTopic(name, num_partitions=1, replication_factor=1)]))
    assert error_code(admin.create_topics([NewTopic(name.replace("with.dot", "with_dot"), num_partitions=1, replication_factor=1)])) == 17


def test_deleted_topic_is_gone_and_its_files_follow(broker: Broker, admin: AdminClient) -> None:
    topic = create_topic(broker)
    produce_values(broker, topic, [b"x"])
    result(admin.delete_topics([topic]))
    wait_until(lambda: topic not in admin.list_topics(timeout=DEADLINE_S).topics, "topic gone")
    wait_until(lambda: not broker.partition_directory(topic).exists(), "directory renamed or gone")


def test_topic_created_again_under_its_name_is_empty_and_has_another_id(broker: Broker, admin: AdminClient) -> None:
    topic = create_topic(broker)
    produce_values(broker, topic, [b"x"])
    before = topic_id(broker, topic)
    result(admin.delete_topics([topic]))
    wait_until(lambda: topic not in admin.list_topics(timeout=DEADLINE_S).topics, "topic gone")
    create_topic(broker, name=topic)
    assert topic_id(broker, topic) != before
    found = result(admin.list_offsets({TopicPartition(topic, 0): OffsetSpec.latest()}))
    assert found.offset == 0


def test_deleting_an_unknown_topic_is_refused(admin: AdminClient) -> None:
    assert error_code(admin.delete_topics([fresh_name()])) == 3


def test_partitions_are_added_but_never_taken_away(broker: Broker, admin: AdminClient) -> None:
    topic = create_topic(broker)
    produce_values(broker, topic, [b"kept"])
    result(admin.create_partitions([NewPartitions(topic, 4)]))
    wait_until(lambda: partitions_of(admin, topic) == [0, 1, 2, 3], "four partitions")
    assert error_code(admin.create_partitions([NewPartitions(topic, 2)])) == 37
    assert error_code(admin.create_partitions([NewPartitions(topic, 4)])) == 37
    assert error_code(admin.create_partitions([NewPartitions(fresh_name(), 4)])) == 3
    produce_values(broker, topic, [b"new"], partition=3)


def test_validation_only_adds_no_partitions(admin: AdminClient, topic: str) -> None:
    result(admin.create_partitions([NewPartitions(topic, 4)], validate_only=True))
    assert partitions_of(admin, topic) == [0]


def test_configs_have_value_source_and_synonyms(broker: Broker, admin: AdminClient) -> None:
    topic = create_topic(broker, configs={"max.message.bytes": 4242})
    configs = topic_configs(admin, topic)
    entry = configs["max.message.bytes"]
    assert (entry.value, entry.source, entry.is_default) == ("4242", ConfigSource.DYNAMIC_TOPIC_CONFIG.value, False)
    assert {"max.message.bytes", "message.max.bytes"} <= set(entry.synonyms)
    default = configs["retention.ms"]
    assert (default.value, default.source, default.is_default) == ("604800000", ConfigSource.DEFAULT_CONFIG.value, True)
    assert not default.is_sensitive
    assert not default.is_read_only


def test_a_topic_has_every_config_that_kafka_has(admin: AdminClient, topic: str) -> None:
    expected = {
        "cleanup.policy", "compression.type", "delete.retention.ms", "file.delete.delay.ms", "flush.messages", "flush.ms",
        "index.interval.bytes", "max.compaction.lag.ms", "max.message.bytes", "message.timestamp.after.max.ms",
        "message.timestamp.before.max.ms", "message.timestamp.type", "min.cleanable.dirty.ratio", "min.compaction.lag.ms",
        "min.insync.replicas", "preallocate", "retention.bytes", "retention.ms", "segment.bytes", "segment.index.bytes",
        "segment.jitter.ms", "segment.ms", "unclean.leader.election.enable",
    }  # fmt: skip
    configs = topic_configs(admin, topic)
    assert expected <= set(configs)
    assert configs["cleanup.policy"].value == "delete"
    assert configs["segment.bytes"].value == "1073741824"
    assert configs["max.message.bytes"].value == "1048588"
    assert configs["compression.type"].value == "producer"


def test_configs_are_set_and_taken_back_one_by_one(admin: AdminClient, topic: str) -> None:
    result(alter(admin, topic, "retention.ms", AlterConfigOpType.SET, "1000"))
    result(alter(admin, topic, "max.message.bytes", AlterConfigOpType.SET, "2000"))
    wait_until(lambda: topic_configs(admin, topic)["max.message.bytes"].value == "2000", "both set")
    assert topic_configs(admin, topic)["retention.ms"].value == "1000"
    result(alter(admin, topic, "retention.ms", AlterConfigOpType.DELETE, None))
    wait_until(lambda: topic_configs(admin, topic)["retention.ms"].value == "604800000", "default again")
    assert topic_configs(admin, topic)["max.message.bytes"].value == "2000"


def test_lists_are_appended_to_and_subtracted_from(admin: AdminClient, topic: str) -> None:
    result(alter(admin, topic, "cleanup.policy", AlterConfigOpType.APPEND, "compact"))
    wait_until(lambda: topic_configs(admin, topic)["cleanup.policy"].value == "delete,compact", "appended")
    result(alter(admin, topic, "cleanup.policy", AlterConfigOpType.SUBTRACT, "delete"))
    wait_until(lambda: topic_configs(admin, topic)["cleanup.policy"].value == "compact", "subtracted")


def test_alter_configs_replaces_them_all(broker: Broker, admin: AdminClient) -> None:
    topic = create_topic(broker, configs={"retention.ms": 1000})
    with pytest.warns(DeprecationWarning, match="incremental_alter_configs"):
        futures = admin.alter_configs([ConfigResource(ResourceType.TOPIC, topic, set_config={"max.message.bytes": "2000"})])
    result(futures)
    wait_until(lambda: topic_configs(admin, topic)["max.message.bytes"].value == "2000", "set")
    assert topic_configs(admin, topic)["retention.ms"].value == "604800000"


def test_config_that_cannot_be_is_refused(admin: AdminClient, topic: str) -> None:
    assert error_code(alter(admin, topic, "retention.ms", AlterConfigOpType.SET, "soon")) == 40
    assert error_code(alter(admin, topic, "no.such.option", AlterConfigOpType.SET, "1")) == 40
    assert error_code(alter(admin, topic, "retention.ms", AlterConfigOpType.APPEND, "1")) == 40
    assert error_code(alter(admin, fresh_name(), "retention.ms", AlterConfigOpType.SET, "1")) == 3


def test_topic_takes_the_options_that_set_ups_carry_and_shows_them(broker: Broker, admin: AdminClient) -> None:
    carried = {
        "compression.zstd.level": "6",
        "follower.replication.throttled.replicas": "*",
        "leader.replication.throttled.replicas": "0:1",
        "local.retention.bytes": "-2",
        "local.retention.ms": "1000",
        "preallocate": "true",
        "remote.storage.enable": "false",
        "unclean.leader.election.enable": "true",
    }
    configs = topic_configs(admin, create_topic(broker, configs=carried))
    assert {name: configs[name].value for name in carried} == carried


def test_broker_configs_are_described(admin: AdminClient) -> None:
    configs = result(admin.describe_configs([ConfigResource(ResourceType.BROKER, str(node_id(admin)))]))
    assert {"message.max.bytes", "log.retention.hours", "auto.create.topics.enable", "num.partitions"} <= set(configs)
    assert configs["message.max.bytes"].value == "1048588"


def test_records_are_deleted_up_to_an_offset(broker: Broker, admin: AdminClient, topic: str) -> None:
    produce_values(broker, topic, [b"x"] * 10, batch_size=4)
    assert result(admin.delete_records([TopicPartition(topic, 0, 6)])).low_watermark == 6
    assert result(admin.list_offsets({TopicPartition(topic, 0): OffsetSpec.earliest()})).offset == 6
    assert error_code(admin.delete_records([TopicPartition(topic, 0, 11)])) == 1
    assert result(admin.delete_records([TopicPartition(topic, 0, 3)])).low_watermark == 6
    assert result(admin.delete_records([TopicPartition(topic, 0, -1)])).low_watermark == 10


def test_offsets_are_listed_by_every_specification(broker: Broker, admin: AdminClient, topic: str) -> None:
    with broker.connect() as connection:
        for timestamp in (1_700_000_001_000, 1_700_000_009_000, 1_700_000_005_000):
            assert produce(connection, topic, encode_batch([b"x"] * 5, timestamp=timestamp)).error_code == 0
    expected = {
        OffsetSpec.earliest(): (0, -1),
        OffsetSpec.latest(): (15, -1),
        OffsetSpec.max_timestamp(): (5, 1_700_000_009_000),
        OffsetSpec.for_timestamp(1_700_000_001_000): (0, 1_700_000_001_000),
        OffsetSpec.for_timestamp(1_700_000_002_000): (5, 1_700_000_009_000),
        OffsetSpec.for_timestamp(1_700_000_009_001): (-1, -1),
    }
    for specification, answer in expected.items():
        found = result(admin.list_offsets({TopicPartition(topic, 0): specification}))
        assert (found.offset, found.timestamp) == answer


def test_cluster_has_one_node_that_controls(broker: Broker, admin: AdminClient) -> None:
    cluster = admin.describe_cluster(include_authorized_operations=True).result(timeout=DEADLINE_S)
    assert [(node.host, node.port) for node in cluster.nodes] == [broker.address]
    assert cluster.controller.id == cluster.nodes[0].id
    assert cluster.cluster_id


def test_described_topics_have_leaders_replicas_and_ids(broker: Broker, admin: AdminClient) -> None:
    topic = create_topic(broker, partitions=2)
    found = result(admin.describe_topics(TopicCollection([topic])))
    assert (found.name, found.is_internal, len(found.partitions)) == (topic, False, 2)
    for partition in found.partitions:
        assert [partition.leader.id] == [node.id for node in partition.replicas] == [node.id for node in partition.isr]
    assert error_code(admin.describe_topics(TopicCollection([fresh_name()]))) == 3


def test_all_topics_are_listed(broker: Broker, admin: AdminClient, topic: str) -> None:
    cluster = admin.list_topics(timeout=DEADLINE_S)
    assert topic in cluster.topics
    assert [node.port for node in cluster.brokers.values()] == [broker.port]


def test_access_rules_are_refused_because_there_are_none(admin: AdminClient) -> None:
    anything = api.AclBindingFilter(
        ResourceType.ANY, None, api.ResourcePatternType.ANY, None, None, api.AclOperation.ANY, api.AclPermissionType.ANY
    )
    rule = api.AclBinding(
        ResourceType.TOPIC, "t", api.ResourcePatternType.LITERAL, "User:a", "*", api.AclOperation.READ, api.AclPermissionType.ALLOW
    )
    # librdkafka does not hand on the error of a description.
    assert admin.describe_acls(anything).result(timeout=DEADLINE_S) == []
    assert error_code(admin.create_acls([rule])) == SECURITY_DISABLED
    assert error_code(admin.delete_acls([anything])) == SECURITY_DISABLED


def test_users_have_no_passwords(admin: AdminClient) -> None:
    everybody: Any = admin.describe_user_scram_credentials()
    assert everybody.result(timeout=DEADLINE_S) == {}
    named: Any = admin.describe_user_scram_credentials(["alice"])
    assert error_code(named) == RESOURCE_NOT_FOUND


def test_election_is_not_needed(admin: AdminClient, topic: str) -> None:
    elected = admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(topic, 0)]).result(timeout=DEADLINE_S)
    assert elected[TopicPartition(topic, 0)].code() == ELECTION_NOT_NEEDED
    assert admin.elect_leaders(ElectionType.UNCLEAN).result(timeout=DEADLINE_S) == {}
