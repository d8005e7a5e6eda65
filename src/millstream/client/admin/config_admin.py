"""Options of topics and brokers, set and looked up one by one, at any Kafka from 2.3 on (IncrementalAlterConfigs, KIP-339).

What is about a broker is asked of that broker, as Kafka's own client does it; the rest of any.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, NamedTuple

from millstream.client.cluster import Cluster
from millstream.client.codecs.request import MessageRequest
from millstream.client.errors import kafka_error
from millstream.client.portions import portions
from millstream.errors import UnknownTopicOrPartition
from millstream.wire.api import ApiKey

TOPIC: Final = 2
BROKER: Final = 4
_SET: Final = 0
_DELETE: Final = 1
_DESCRIBED_AT_ONCE: Final = 500
_ALTERED_AT_ONCE: Final = 100
"""Each is written and waited for: what takes longer than a request may is taken for a broker that hangs."""
_KINDS: Final = {TOPIC: "topic", BROKER: "broker"}
_SET_BY_SOMEBODY: Final = frozenset({1, 2})
"""ConfigSource of a value that was set for this topic, or for this broker while it ran; all others are defaults of some sort."""


class Resource(NamedTuple):
    """What has options: a topic, or a broker by its id."""

    kind: int
    name: str

    def __str__(self) -> str:
        return f"{_KINDS[self.kind]} {self.name}"


Options = Mapping[str, str | None]


class ConfigAdmin:
    """Asks the brokers of a cluster; for one thread."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def alter(self, changes: Mapping[Resource, Options]) -> None:
        """Set these options, or (None) let the default hold again; raises at the first that is refused. A topic may be gone."""
        for some in self._requests(changes, _ALTERED_AT_ONCE):
            resources = [
                {
                    "resource_type": resource.kind,
                    "resource_name": resource.name,
                    "configs": [
                        {"name": name, "config_operation": _DELETE if value is None else _SET, "value": value}
                        for name, value in changes[resource].items()
                    ],
                }
                for resource in some
            ]
            request: MessageRequest[Any] = MessageRequest(
                ApiKey.INCREMENTAL_ALTER_CONFIGS, {"resources": resources, "validate_only": False}, highest=1
            )
            for result in self._call(some[0], request).responses:
                _check(result, "its options were not changed")

    def set_values(self, resources: Collection[Resource], names: Collection[str]) -> dict[Resource, dict[str, str]]:
        """Which of these options are set for each resource itself; one without any, or a topic that is gone, is left out."""
        found: dict[Resource, dict[str, str]] = {}
        for some in self._requests(resources, _DESCRIBED_AT_ONCE):
            asked = [{"resource_type": one.kind, "resource_name": one.name, "configuration_keys": list(names)} for one in some]
            request: MessageRequest[Any] = MessageRequest(
                ApiKey.DESCRIBE_CONFIGS, {"resources": asked, "include_synonyms": False}, highest=4
            )
            for result in self._call(some[0], request).results:
                _check(result, "its options were not described")
                values = {one.name: one.value for one in result.configs if one.config_source in _SET_BY_SOMEBODY and one.value}
                if values:
                    found[Resource(result.resource_type, result.resource_name)] = values
        return found

    def _requests(self, resources: Collection[Resource], at_once: int) -> Iterator[list[Resource]]:
        """What may be asked of one broker in one request."""
        yield from portions((one for one in resources if one.kind == TOPIC), at_once)
        yield from ([one] for one in resources if one.kind == BROKER)

    def _call(self, resource: Resource, request: MessageRequest[Any]) -> Any:
        if resource.kind == BROKER:
            return self._cluster.connection(int(resource.name)).call(request)
        return self._cluster.call(request)


def _check(result: Any, what: str) -> None:
    if result.error_code and result.error_code != UnknownTopicOrPartition.code:
        resource = Resource(result.resource_type, result.resource_name)
        raise kafka_error(int(result.error_code), f"{resource}: {what}: {result.error_message or result.error_code}")
