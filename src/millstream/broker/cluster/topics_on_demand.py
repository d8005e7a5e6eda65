"""Topics that are created because a client asks for them, or because the broker needs them.

A broker that is not the controller cannot create a topic: the controller is asked with CreateTopics, as if the client had sent it
(KIP-590). Whoever asked is answered when this broker has taken the topic up, so that clients need not ask again.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from millstream.broker.cluster.forwarding import RequestForwarding
from millstream.broker.cluster.live_settings import LiveSettings
from millstream.broker.network.api import Request
from millstream.client.errors import kafka_error
from millstream.coordination.cluster_watcher import ClusterWatcher
from millstream.errors import KafkaError, RequestTimedOut, TopicAlreadyExists
from millstream.wire.api import ApiKey

if TYPE_CHECKING:
    from millstream.wire.responses.create_topics import CreateTopicsResponse

_CREATE_TOPICS_VERSION = 7


class WantedTopic(NamedTuple):
    """A topic to be created; -1 for the controller's defaults."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = {}


class TopicsOnDemand:
    """Has topics created."""

    def __init__(self, forwarding: RequestForwarding, watcher: ClusterWatcher, *, settings: LiveSettings) -> None:
        self._forwarding = forwarding
        self._watcher = watcher
        self._settings = settings

    @property
    def is_automatic(self) -> bool:
        """Whether a topic may be created because it was asked for."""
        return self._settings.current.boolean("auto.create.topics.enable")

    async def create(self, request: Request, topics: Sequence[WantedTopic], *, timeout_ms: int) -> dict[str, KafkaError]:
        """Create topics for the client of a request; why some of them are not there. One that was created meanwhile is as good."""
        fields = {"topics": [_described(topic) for topic in topics], "timeout_ms": timeout_ms, "validate_only": False}
        answer: CreateTopicsResponse = await self._forwarding.ask(
            request, ApiKey.CREATE_TOPICS, _CREATE_TOPICS_VERSION, fields=fields, timeout_ms=timeout_ms
        )
        errors = {
            topic.name: kafka_error(topic.error_code, topic.error_message or "")
            for topic in answer.topics
            if topic.error_code not in (0, TopicAlreadyExists.code)
        }
        created = [topic.name for topic in topics if topic.name not in errors]
        if not await self._watcher.until(lambda view: all(name in view.topics for name in created), timeout_ms=max(timeout_ms, 1)):
            known = self._watcher.view.topics
            timed_out = RequestTimedOut(f"the topic was created, but this broker had not taken it up within {timeout_ms} ms")
            errors |= {name: timed_out for name in created if name not in known}
        return errors


def _described(topic: WantedTopic) -> dict[str, object]:
    return {
        "name": topic.name,
        "num_partitions": topic.partitions,
        "replication_factor": topic.replication_factor,
        "assignments": [],
        "configs": [{"name": name, "value": value} for name, value in topic.configs.items()],
    }
