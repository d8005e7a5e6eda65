"""DescribeConfigs (32), AlterConfigs (33), IncrementalAlterConfigs (44), ListConfigResources (74): options.

DescribeConfigs 1-4. 3: type and documentation. AlterConfigs 0-2: replaces all. IncrementalAlterConfigs 0-1: SET, DELETE, APPEND, SUBTRACT
(KIP-339). Resources: topics (2), brokers (4; the empty name means all brokers), the levels of a broker's loggers (8) and groups (32).
Changes hold at once. Those of topics and brokers survive a restart and are written by the controller: the broker that is asked checks that
its own options are meant, sees to its loggers itself, and passes the rest on. ListConfigResources 0-1. 0: only client metrics (KIP-1000),
of which there are none. 1: all kinds (KIP-1142).
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from millstream.broker.cluster.config_resources import ConfigResource
from millstream.broker.cluster.forwarding import DEFAULT_TIMEOUT_MS, RequestForwarding
from millstream.broker.failures import as_kafka_error, error_fields
from millstream.broker.network.api import Fields, Forwarding, Later, Request, api
from millstream.client.portions import portions
from millstream.coordination.cluster_view import DEFAULT_BROKER
from millstream.coordination.cluster_watcher import Stale
from millstream.errors import InvalidRequest, KafkaError, UnsupportedVersion
from millstream.options.alteration import Alteration, AlterOperation
from millstream.options.description import DescribedOption
from millstream.wire.api import ApiKey

if TYPE_CHECKING:
    from millstream.wire.requests.alter_configs import AlterConfigsRequest
    from millstream.wire.requests.describe_configs import DescribeConfigsRequest
    from millstream.wire.requests.incremental_alter_configs import IncrementalAlterConfigsRequest
    from millstream.wire.requests.list_config_resources import ListConfigResourcesRequest
    from millstream.wire.responses.alter_configs import AlterConfigsResponse
    from millstream.wire.responses.incremental_alter_configs import IncrementalAlterConfigsResponse

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
ALTERED_AT_ONCE: Final = 50

Alter = Callable[[ConfigResource, "AlteredResource", bool], Awaitable[None]]


class AlteredResource(NamedTuple):
    """A resource, and what is to become of its options."""

    type: int
    name: str
    alterations: list[Alteration]


class ConfigsFamily:
    """Describes and changes options."""

    def __init__(
        self,
        forwarding: RequestForwarding,
        *,
        topics: ConfigResource,
        brokers: ConfigResource,
        loggers: ConfigResource,
        groups: ConfigResource,
    ) -> None:
        self._forwarding = forwarding
        self._kinds: Mapping[int, ConfigResource] = {TOPIC: topics, BROKER: brokers, BROKER_LOGGER: loggers, GROUP: groups}

    @api(ApiKey.DESCRIBE_CONFIGS, 1, 4)
    def describe_configs(self, request: Request) -> Fields:
        """Every option with its value, where that comes from, and what else could give it."""
        message: DescribeConfigsRequest = request.decode()
        results = []
        # A resource that is named a thousand times is described once: a small request is not to keep the broker busy for minutes.
        for resource in dict.fromkeys(message.resources):
            place = {"resource_type": resource.resource_type, "resource_name": resource.resource_name}
            try:
                rows = self._kind(resource.resource_type).describe(resource.resource_name, resource.configuration_keys)
            except Exception as error:
                results.append({**place, **error_fields(as_kafka_error(error)), "configs": []})
                continue
            include_documentation = message.include_documentation
            configs = [_row_fields(row, synonyms=message.include_synonyms, documentation=include_documentation) for row in rows]
            results.append({**place, **error_fields(None), "configs": configs})
        return {"results": results}

    @api(ApiKey.ALTER_CONFIGS, 0, 2, forwarding=Forwarding.PARTS)
    def alter_configs(self, request: Request) -> Later:
        """Set exactly the given options; all others go back to their defaults."""
        message: AlterConfigsRequest = request.decode()
        resources = [
            AlteredResource(
                one.resource_type, one.resource_name, [Alteration(set_.name, AlterOperation.SET, set_.value) for set_ in one.configs]
            )
            for one in message.resources
        ]

        async def replace(kind: ConfigResource, resource: AlteredResource, validate_only: bool) -> None:
            values = {one.name: one.value for one in resource.alterations if one.value is not None}
            await kind.replace(resource.name, values, validate_only=validate_only)

        return self._alter_all(request, resources, replace, validate_only=message.validate_only)

    @api(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1, forwarding=Forwarding.PARTS)
    def incremental_alter_configs(self, request: Request) -> Later:
        """Change the given options and leave the others alone."""
        message: IncrementalAlterConfigsRequest = request.decode()
        resources = [
            AlteredResource(one.resource_type, one.resource_name, [Alteration(*altered) for altered in one.configs])
            for one in message.resources
        ]

        async def increment(kind: ConfigResource, resource: AlteredResource, validate_only: bool) -> None:
            await kind.increment(resource.name, resource.alterations, validate_only=validate_only)

        return self._alter_all(request, resources, increment, validate_only=message.validate_only)

    @api(ApiKey.LIST_CONFIG_RESOURCES, 0, 1)
    def list_config_resources(self, request: Request) -> Fields:
        """What there are options of, by kind."""
        # Version 0 only knew of metrics (KIP-714), and had no field to say so.
        message: ListConfigResourcesRequest = request.decode()
        asked = message.resource_types if request.api_version else (CLIENT_METRICS,)
        kinds = set(asked) or {*self._kinds, CLIENT_METRICS}
        if not kinds <= {*self._kinds, CLIENT_METRICS}:
            return {"error_code": UnsupportedVersion.code, "config_resources": []}
        resources = [
            {"resource_name": name, "resource_type": number}
            for number, kind in self._kinds.items()
            if number in kinds
            for name in kind.names()
        ]
        return {"error_code": 0, "config_resources": resources}

    async def _alter_all(self, request: Request, resources: Sequence[AlteredResource], alter: Alter, *, validate_only: bool) -> Fields:
        named = Counter((resource.type, resource.name) for resource in resources)
        responses: dict[int, Fields] = {}
        for_controller: dict[int, AlteredResource] = {}

        async def alter_one(number: int, resource: AlteredResource) -> None:
            try:
                times = named[resource.type, resource.name]
                if times > 1:
                    raise InvalidRequest(f"{resource.name!r} is named {times} times in the request")
                _check_alterations(resource.alterations)
                kind = self._kind(resource.type)
                if kind.needs_controller and not request.is_forwarded:
                    kind.check_asked_here(resource.name)
                    for_controller[number] = resource
                    return
                await alter(kind, resource, validate_only)
                responses[number] = _outcome(resource, None)
            except Exception as error:
                responses[number] = _outcome(resource, as_kafka_error(error))

        # Each write is waited for until the brokers' view shows it: one after the other, that would be seconds for a hundred topics.
        for some in portions(enumerate(resources), ALTERED_AT_ONCE):
            await asyncio.gather(*(alter_one(number, resource) for number, resource in some))
        if for_controller:
            outcomes = await self._pass_on(request, list(for_controller.values()), validate_only=validate_only)
            responses |= zip(for_controller, outcomes, strict=True)
        return {"responses": [responses[number] for number in range(len(resources))]}

    async def _pass_on(self, request: Request, resources: Sequence[AlteredResource], *, validate_only: bool) -> list[Fields]:
        """What the controller makes of resources whose options it keeps."""
        api_key = ApiKey(request.api_key)
        fields = {"resources": [_asked(resource, api_key) for resource in resources], "validate_only": validate_only}
        touched: list[Stale] = [("config", resource.name or DEFAULT_BROKER) for resource in resources if resource.type == BROKER]
        try:
            answer: AlterConfigsResponse | IncrementalAlterConfigsResponse = await self._forwarding.ask(
                request, api_key, request.api_version, fields=fields, timeout_ms=DEFAULT_TIMEOUT_MS, touched=touched
            )
        except Exception as error:
            return [_outcome(resource, as_kafka_error(error)) for resource in resources]
        return [one._asdict() for one in answer.responses]

    def _kind(self, resource_type: int) -> ConfigResource:
        kind = self._kinds.get(resource_type)
        if kind is None:
            known = "topics (2), brokers (4), loggers of brokers (8) and groups (32) have"
            raise InvalidRequest(f"resources of type {resource_type} have no options here; {known}")
        return kind


def _outcome(resource: AlteredResource, error: KafkaError | None) -> Fields:
    return {"resource_type": resource.type, "resource_name": resource.name, **error_fields(error)}


def _asked(resource: AlteredResource, api_key: ApiKey) -> Fields:
    """The resource as it is asked for."""
    configs: list[Fields] = [{"name": one.name, "value": one.value} for one in resource.alterations]
    if api_key == ApiKey.INCREMENTAL_ALTER_CONFIGS:
        configs = [{**config, "config_operation": one.operation} for config, one in zip(configs, resource.alterations, strict=True)]
    return {"resource_type": resource.type, "resource_name": resource.name, "configs": configs}


def _check_alterations(alterations: Sequence[Alteration]) -> None:
    """What Kafka looks at before everything else: no value where one is needed, and options that are named twice."""
    named = Counter(one.name for one in alterations)
    for one in alterations:
        if one.value is None and one.operation != AlterOperation.DELETE:
            raise InvalidRequest(f"option {one.name} has no value")
        if named[one.name] > 1:
            raise InvalidRequest(f"option {one.name} is named twice")


def _row_fields(row: DescribedOption, *, synonyms: bool, documentation: bool) -> dict[str, object]:
    listed = [{"name": one.name, "value": one.value, "source": one.source} for one in row.synonyms] if synonyms else []
    return {
        "name": row.name,
        "value": row.value,
        "read_only": row.is_read_only,
        "config_source": row.source,
        "is_sensitive": row.is_sensitive,
        "synonyms": listed,
        "config_type": row.type,
        "documentation": row.documentation if documentation else None,
    }
