import importlib
import inspect
import pkgutil

import pytest

from millstream.broker import handlers
from millstream.broker.network.api import api_of
from millstream.broker.routes import ROUTES, apis, bind
from millstream.wire.api import API_VERSIONS, NEVER, ApiKey, ApiVersions

KAFKA_4_2 = {
    ApiKey.PRODUCE: (0, 13),
    ApiKey.FETCH: (4, 18),
    ApiKey.LIST_OFFSETS: (1, 11),
    ApiKey.METADATA: (0, 13),
    ApiKey.OFFSET_COMMIT: (2, 10),
    ApiKey.OFFSET_FETCH: (1, 10),
    ApiKey.FIND_COORDINATOR: (0, 6),
    ApiKey.JOIN_GROUP: (0, 9),
    ApiKey.HEARTBEAT: (0, 4),
    ApiKey.LEAVE_GROUP: (0, 5),
    ApiKey.SYNC_GROUP: (0, 5),
    ApiKey.DESCRIBE_GROUPS: (0, 6),
    ApiKey.LIST_GROUPS: (0, 5),
    ApiKey.API_VERSIONS: (0, 4),
    ApiKey.CREATE_TOPICS: (2, 7),
    ApiKey.DELETE_TOPICS: (1, 6),
    ApiKey.DELETE_RECORDS: (0, 2),
    ApiKey.INIT_PRODUCER_ID: (0, 5),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (2, 4),
    ApiKey.ADD_PARTITIONS_TO_TXN: (0, 5),
    ApiKey.ADD_OFFSETS_TO_TXN: (0, 4),
    ApiKey.END_TXN: (0, 5),
    ApiKey.WRITE_TXN_MARKERS: (1, 2),
    ApiKey.TXN_OFFSET_COMMIT: (0, 5),
    ApiKey.DESCRIBE_ACLS: (1, 3),
    ApiKey.CREATE_ACLS: (1, 3),
    ApiKey.DELETE_ACLS: (1, 3),
    ApiKey.DESCRIBE_CONFIGS: (1, 4),
    ApiKey.ALTER_CONFIGS: (0, 2),
    ApiKey.ALTER_REPLICA_LOG_DIRS: (1, 2),
    ApiKey.DESCRIBE_LOG_DIRS: (1, 4),
    ApiKey.CREATE_PARTITIONS: (0, 3),
    ApiKey.DELETE_GROUPS: (0, 2),
    ApiKey.ELECT_LEADERS: (0, 2),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (0, 1),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (0, 1),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: (0, 0),
    ApiKey.OFFSET_DELETE: (0, 0),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: (0, 1),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (0, 0),
    ApiKey.DESCRIBE_QUORUM: (0, 2),
    ApiKey.DESCRIBE_CLUSTER: (0, 2),
    ApiKey.DESCRIBE_PRODUCERS: (0, 0),
    ApiKey.DESCRIBE_TRANSACTIONS: (0, 0),
    ApiKey.LIST_TRANSACTIONS: (0, 2),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (0, 1),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (0, 1),
    ApiKey.LIST_CONFIG_RESOURCES: (0, 1),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (0, 0),
}
"""What Apache Kafka answers to ApiVersions, for the APIs that this broker has."""
BETWEEN_BROKERS = {
    ApiKey.ALTER_PARTITION: (2, 3),
    ApiKey.ENVELOPE: (0, 0),
    ApiKey.BROKER_HEARTBEAT: (0, 2),
}
"""What only brokers ask each other for: Kafka offers it on the listener of its controllers."""
OWN = {ApiKey.MIRROR_APPEND: (0, 0)}
"""What Kafka does not have, for clients of our own; these have codecs of their own."""
OFFERED = KAFKA_4_2 | BETWEEN_BROKERS | OWN

ROUTED = [function for functions in ROUTES.values() for function in functions]


@pytest.mark.parametrize("function", ROUTED, ids=lambda function: function.__name__)
def test_every_api_is_offered_in_the_versions_that_kafka_offers(function: object) -> None:
    answered = api_of(function)  # type: ignore[arg-type]
    assert (answered.advertised_lowest, answered.highest) == OFFERED[answered.key]


@pytest.mark.parametrize("function", ROUTED, ids=lambda function: function.__name__)
def test_every_version_that_is_answered_has_a_codec(function: object) -> None:
    answered = api_of(function)  # type: ignore[arg-type]
    known = API_VERSIONS.get(answered.key, ApiVersions(*OWN.get(answered.key, (1, 0)), NEVER))
    assert known.lowest <= answered.lowest <= answered.highest <= known.highest


def test_every_key_is_answered_by_one_function() -> None:
    assert [answered.key for answered in apis()] == sorted(OFFERED)


def test_every_handler_that_is_written_is_routed() -> None:
    marked = set()
    for module in pkgutil.walk_packages(handlers.__path__, f"{handlers.__name__}."):
        for _, family in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            marked |= {function for _, function in inspect.getmembers(family, inspect.isfunction) if hasattr(function, "api")}
    assert marked == set(ROUTED)


def test_every_family_has_to_be_there() -> None:
    families: list[object] = [object.__new__(family) for family in ROUTES]
    bound = bind(families)
    assert [api_of(handler).key for handler in bound] == [api_of(function).key for function in ROUTED]
    with pytest.raises(KeyError):
        bind(families[1:])
