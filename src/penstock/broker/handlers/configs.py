"""DescribeConfigs (32), AlterConfigs (33), IncrementalAlterConfigs (44): options of topics and brokers.

DescribeConfigs 1-4. 3: type and documentation. AlterConfigs 0-2: replaces all. IncrementalAlterConfigs 0-1: SET, DELETE, APPEND, SUBTRACT
(KIP-339). Resources: topics (2) and brokers (4; the empty name means all brokers). Changes hold at once and survive a restart.
"""

from collections.abc import Callable, Mapping
from typing import Any

from penstock.broker.api import Fields, Request, api
from penstock.broker.failures import as_kafka_error, error_fields
from penstock.broker.live_settings import LiveSettings
from penstock.cluster.controller import Controller
from penstock.coordination.cluster_view import DEFAULT_BROKER
from penstock.errors import InvalidConfig, InvalidRequest, UnknownTopicOrPartition
from penstock.options.alteration import Alteration, apply_incremental
from penstock.options.broker import BROKER_OPTIONS
from penstock.options.description import DescribedOption, describe_broker, describe_topic
from penstock.options.settings import BrokerSettings, ConfigSource
from penstock.options.topic import TOPIC_OPTIONS
from penstock.options.validation import validate_dynamic_broker_values, validate_topic_overrides
from penstock.wire.api import ApiKey

TOPIC = 2
BROKER = 4
SETTLE_TIMEOUT_MS = 10_000

Change = Callable[[Mapping[str, str]], dict[str, str]]
"""From what is set to what is to be set; raises if that is not allowed."""


class ConfigsFamily:
    """Describes and changes options."""

    def __init__(self, controller: Controller, settings: LiveSettings, *, node_id: int) -> None:
        self._controller = controller
        self._settings = settings
        self._node_id = node_id

    @api(ApiKey.DESCRIBE_CONFIGS, 1, 4)
    def describe_configs(self, request: Request) -> Fields:
        """Every option with its value, where that comes from, and what else could give it."""
        message = request.decode()
        results = []
        # A resource that is named a thousand times is described once: a small request is not to keep the broker busy for minutes.
        for resource in dict.fromkeys(message.resources):
            place = {"resource_type": resource.resource_type, "resource_name": resource.resource_name}
            try:
                rows = self._describe(resource)
            except Exception as error:
                results.append({**place, **error_fields(as_kafka_error(error)), "configs": []})
                continue
            include_documentation = getattr(message, "include_documentation", False)
            configs = [_row_fields(row, synonyms=message.include_synonyms, documentation=include_documentation) for row in rows]
            results.append({**place, **error_fields(None), "configs": configs})
        return {"results": results}

    def _describe(self, resource: Any) -> list[DescribedOption]:
        names = resource.configuration_keys
        current = self._settings.current
        if resource.resource_type == TOPIC:
            return describe_topic(self._topic_configs(resource.resource_name), current, names=names)
        if resource.resource_type == BROKER:
            if self._broker_key(resource.resource_name) != DEFAULT_BROKER:
                return describe_broker(current, names=names)
            defaults = BrokerSettings(dynamic_default=current.dynamic_default)
            return [row for row in describe_broker(defaults, names=names) if row.source is ConfigSource.DYNAMIC_DEFAULT_BROKER]
        raise InvalidRequest(f"resources of type {resource.resource_type} have no options here; topics (2) and brokers (4) have")

    @api(ApiKey.ALTER_CONFIGS, 0, 2)
    def alter_configs(self, request: Request) -> Any:
        """Set exactly the given options; all others go back to their defaults."""
        message = request.decode()
        changes = [(resource, _replace_all(resource.configs)) for resource in message.resources]
        return self._alter_all(changes, validate_only=message.validate_only)

    @api(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1)
    def incremental_alter_configs(self, request: Request) -> Any:
        """Change the given options and leave the others alone."""
        message = request.decode()
        changes = [(resource, self._increment(resource)) for resource in message.resources]
        return self._alter_all(changes, validate_only=message.validate_only)

    def _increment(self, resource: Any) -> Change:
        alterations = [Alteration(one.name, one.config_operation, one.value) for one in resource.configs]
        options = TOPIC_OPTIONS if resource.resource_type == TOPIC else BROKER_OPTIONS

        def change(current: Mapping[str, str]) -> dict[str, str]:
            rows = describe_topic(current, self._settings.current) if options is TOPIC_OPTIONS else describe_broker(self._settings.current)
            inherited = {row.name: row.value for row in rows if row.value is not None}
            return apply_incremental(current, alterations, options=options, inherited=inherited)

        return change

    async def _alter_all(self, changes: list[tuple[Any, Change]], *, validate_only: bool) -> Fields:
        responses = []
        seen: set[tuple[int, str]] = set()
        for resource, change in changes:
            place = {"resource_type": resource.resource_type, "resource_name": resource.resource_name}
            key = (resource.resource_type, resource.resource_name)
            try:
                if key in seen:
                    raise InvalidRequest(f"{resource.resource_name!r} is named twice in the request")
                seen.add(key)
                await self._alter(resource, change, validate_only=validate_only)
                responses.append({**place, **error_fields(None)})
            except Exception as error:
                responses.append({**place, **error_fields(as_kafka_error(error))})
        return {"responses": responses}

    async def _alter(self, resource: Any, change: Change, *, validate_only: bool) -> None:
        if resource.resource_type == TOPIC:
            name = resource.resource_name

            def checked(current: Mapping[str, str]) -> dict[str, str]:
                changed = change(current)
                validate_topic_overrides(changed)
                return changed

            checked(self._topic_configs(name))
            if not validate_only:
                await self._controller.alter_topic_configs(name, checked, timeout_ms=SETTLE_TIMEOUT_MS)
        elif resource.resource_type == BROKER:
            broker = self._broker_key(resource.resource_name)

            def checked_broker(current: Mapping[str, str]) -> dict[str, str]:
                changed = change(current)
                validate_dynamic_broker_values(changed)
                return changed

            checked_broker(self._controller.view.broker_configs.get(broker, {}))
            if not validate_only:
                await self._controller.alter_broker_configs(broker, checked_broker, timeout_ms=SETTLE_TIMEOUT_MS)
        else:
            raise InvalidRequest(f"resources of type {resource.resource_type} have no options here; topics (2) and brokers (4) have")

    def _topic_configs(self, name: str) -> Mapping[str, str]:
        topic = self._controller.view.topics.get(name)
        if topic is None:
            raise UnknownTopicOrPartition(f"topic {name!r} does not exist")
        return topic.configs

    def _broker_key(self, name: str) -> str:
        if name in ("", str(self._node_id)):
            return name or DEFAULT_BROKER
        raise InvalidRequest(f"this is broker {self._node_id}; ask broker {name!r} itself for its options")


def _replace_all(configs: Any) -> Change:
    def change(_current: Mapping[str, str]) -> dict[str, str]:
        given: dict[str, str] = {}
        for config in configs:
            if config.value is None:
                raise InvalidConfig(f"option {config.name} has no value")
            given[config.name] = config.value
        return given

    return change


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
