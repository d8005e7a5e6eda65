"""Topics and their options as the mirror asks for and changes them.

An option that the target refuses is said once and left out: it keeps nothing else from being copied.
"""

import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final

from millstream.client.admin.topic_creation import creation_request
from millstream.client.codecs.request import MessageRequest
from millstream.client.errors import kafka_error
from millstream.client.retry import may_pass
from millstream.errors import KafkaError, NotController
from millstream.mirror.clusters.side import Side
from millstream.wire.api import ApiKey

logger = logging.getLogger(__name__)

_TOPIC: Final = 2
_SET_ON_TOPIC: Final = 1
_SET, _DELETE = 0, 1
_TIMEOUT_MS: Final = 30_000
_TOPICS_PER_REQUEST: Final = 100


async def options_of(side: Side, topics: Iterable[str]) -> dict[str, dict[str, str]]:
    """The options that are set on each of the topics; one that is gone meanwhile is left out."""
    names = list(topics)
    found: dict[str, dict[str, str]] = {}
    for start in range(0, len(names), _TOPICS_PER_REQUEST):
        resources = [
            {"resource_type": _TOPIC, "resource_name": name, "configuration_keys": None}
            for name in names[start : start + _TOPICS_PER_REQUEST]
        ]
        request: MessageRequest[Any] = MessageRequest(
            ApiKey.DESCRIBE_CONFIGS, {"resources": resources, "include_synonyms": False, "include_documentation": False}
        )
        for result in (await side.ask(request)).results:
            if not result.error_code:
                own = (config for config in result.configs if config.config_source == _SET_ON_TOPIC)
                found[result.resource_name] = {config.name: config.value or "" for config in own}
    return found


async def create_topic(side: Side, topic: str, *, partitions: int, replicas: int, options: Mapping[str, str]) -> None:
    """Create a topic; raises what keeps the cluster from it."""
    request = creation_request(topic, partitions=partitions, replicas=replicas, configs=options, timeout_ms=_TIMEOUT_MS)
    for result in (await side.ask(request)).topics:
        if result.error_code:
            raise kafka_error(result.error_code, f"the topic {topic} cannot be created at {side}: {result.error_message or ''}")


async def grow_topic(side: Side, topic: str, *, partitions: int) -> None:
    """Let a topic have so many partitions."""
    entry = {"name": topic, "count": partitions, "assignments": None}
    request: MessageRequest[Any] = MessageRequest(
        ApiKey.CREATE_PARTITIONS, {"topics": [entry], "timeout_ms": _TIMEOUT_MS, "validate_only": False}
    )
    for result in (await side.ask(request)).results:
        if result.error_code:
            raise kafka_error(result.error_code, f"{topic} cannot have {partitions} partitions at {side}: {result.error_message or ''}")


async def set_options(side: Side, topic: str, changes: Mapping[str, str | None]) -> dict[str, str]:
    """Set options of a topic, or reset those that are None; which were refused, and why. Raises what may pass."""
    try:
        await _alter(side, topic, changes)
    except KafkaError as failure:
        if _may_pass(failure):
            raise
        refused: dict[str, str] = {}
        for name, value in changes.items():
            try:
                await _alter(side, topic, {name: value})
            except KafkaError as error:
                if _may_pass(error):
                    raise
                refused[name] = str(error)
        return refused
    return {}


def _may_pass(error: KafkaError) -> bool:
    """Whether it says nothing of the option: a topic that this broker has not heard of yet, a controller that changes."""
    return may_pass(error) or isinstance(error, NotController)


async def _alter(side: Side, topic: str, changes: Mapping[str, str | None]) -> None:
    configs = [{"name": name, "config_operation": _DELETE if value is None else _SET, "value": value} for name, value in changes.items()]
    resource = {"resource_type": _TOPIC, "resource_name": topic, "configs": configs}
    request: MessageRequest[Any] = MessageRequest(ApiKey.INCREMENTAL_ALTER_CONFIGS, {"resources": [resource], "validate_only": False})
    for result in (await side.ask(request)).responses:
        if result.error_code:
            raise kafka_error(result.error_code, result.error_message or "")
