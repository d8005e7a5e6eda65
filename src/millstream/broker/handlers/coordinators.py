"""FindCoordinator (10): which broker looks after a group or a transactional id.

Versions 0-6. 1: kind of key. 4: several keys at once (KIP-699). 6: share groups (KIP-932), which this broker does not have.
The coordinator of a key is the leader of its partition of an internal topic. The first one who looks for one makes the controller create
that topic, and is answered when it is there (Kafka lets clients ask again).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from millstream.broker.coordinators.coordinator_topic import CoordinatorTopic
from millstream.broker.failures import as_kafka_error, error_fields
from millstream.broker.network.api import Fields, Later, Request, api
from millstream.coordination.cluster_view import ClusterView
from millstream.errors import InvalidRequest, KafkaError
from millstream.wire.api import ApiKey

if TYPE_CHECKING:
    from millstream.wire.requests.find_coordinator import FindCoordinatorRequest

GROUP = 0
TRANSACTION = 1
_FIRST_WITH_SEVERAL_KEYS = 4


class CoordinatorsFamily:
    """Finds coordinators."""

    def __init__(self, view: Callable[[], ClusterView], topics: Mapping[int, CoordinatorTopic], *, node_id: int) -> None:
        """`topics` are those in which coordinators keep their keys, by the kind of key."""
        self._view = view
        self._topics = topics
        self._node_id = node_id

    @api(ApiKey.FIND_COORDINATOR, 0, 6)
    def find_coordinator(self, request: Request) -> Fields | Later:
        """The leader of the partition where the key is kept."""
        message: FindCoordinatorRequest = request.decode()
        key_type = message.key_type
        has_several = request.api_version >= _FIRST_WITH_SEVERAL_KEYS
        keys = message.coordinator_keys if has_several else (message.key,)
        topic = self._topics.get(key_type)
        if topic is None:
            return _answer(keys, lambda _key: _nowhere(InvalidRequest(f"there are no coordinators of type {key_type} here")), has_several)
        if not topic.is_ready:
            return self._create_and_find(request, topic, keys, has_several=has_several)
        return _answer(keys, lambda key: self._find(topic, key), has_several)

    async def _create_and_find(self, request: Request, topic: CoordinatorTopic, keys: Sequence[str], *, has_several: bool) -> Fields:
        try:
            await topic.create(request)
        except Exception as error:
            failure = as_kafka_error(error)
            return _answer(keys, lambda _key: _nowhere(failure), has_several)
        return _answer(keys, lambda key: self._find(topic, key), has_several)

    def _find(self, topic: CoordinatorTopic, key: str) -> Fields:
        try:
            broker = topic.coordinator_of(key, self._view(), node_id=self._node_id)
        except KafkaError as error:
            return _nowhere(error)
        return {"node_id": broker.node_id, "host": broker.host, "port": broker.port, **error_fields(None)}


def _answer(keys: Sequence[str], find: Callable[[str], Fields], has_several: bool) -> Fields:
    places = [{"key": key, **find(key)} for key in keys]
    return {"coordinators": places} if has_several else places[0]


def _nowhere(error: KafkaError) -> Fields:
    return {"node_id": -1, "host": "", "port": -1, **error_fields(error)}
