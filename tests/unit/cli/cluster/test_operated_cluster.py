from collections.abc import Mapping
from typing import Any, cast

from millstream.cli.cluster.operated_cluster import OperatedCluster
from millstream.cli.cluster.throttle import BROKER_OPTIONS, TOPIC_OPTIONS
from millstream.client.admin.config_admin import BROKER, TOPIC, ConfigAdmin, Options, Resource
from millstream.client.errors import BrokerUnavailable
from millstream.errors import InvalidRequest

TOPICS = [Resource(TOPIC, f"t{number}") for number in range(3)]
BROKERS = [Resource(BROKER, "1"), Resource(BROKER, "2")]


class PlayedConfigs:
    """Refuses what concerns some resources."""

    def __init__(self, refused: Mapping[Resource, Exception]) -> None:
        self._refused = refused
        self.asked: list[list[Resource]] = []

    def alter(self, changes: Mapping[Resource, Options]) -> None:
        self.asked.append(list(changes))
        for resource in changes:
            if resource in self._refused:
                raise self._refused[resource]


def removed(refused: Mapping[Resource, Exception]) -> tuple[dict[Resource, Any], list[list[Resource]]]:
    operated = OperatedCluster("here", cast("Any", None))
    configs = PlayedConfigs(refused)
    operated.configs = cast("ConfigAdmin", configs)
    return dict(
        operated.remove_throttles({**dict.fromkeys(TOPICS, TOPIC_OPTIONS), **dict.fromkeys(BROKERS, BROKER_OPTIONS)})
    ), configs.asked


def test_throttles_of_all_topics_are_removed_together() -> None:
    assert removed({}) == ({}, [TOPICS, *([one] for one in BROKERS)])


def test_what_is_refused_or_gone_keeps_its_throttle_and_no_other_does() -> None:
    refused = {TOPICS[1]: InvalidRequest("not this one"), BROKERS[0]: BrokerUnavailable("dead")}
    left, asked = removed(refused)
    assert left == refused
    assert asked == [TOPICS, *([one] for one in (*TOPICS, *BROKERS))]
