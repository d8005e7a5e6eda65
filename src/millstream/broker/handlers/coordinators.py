"""FindCoordinator (10): which broker looks after a group or a transactional id.

Versions 0-6. 1: kind of key. 4: several keys at once (KIP-699). 6: share groups (KIP-932), which this broker does not have.
There are no transactions yet, and a search for their coordinator is refused. Which error ends a client's search, with the sentence in what
it reports, was tried: librdkafka (which speaks 0-2) gives up at once only at TRANSACTIONAL_ID_AUTHORIZATION_FAILED and asks again after
any other; Java (4 and up) shows the sentence at any error but that one.
The coordinator of a group is the leader of its partition of the topic of committed offsets. The first one who looks for one makes the
controller create that topic, and is answered when it is there (Kafka lets clients ask again).
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from millstream.broker.coordinators.group_coordinator import GroupCoordinator
from millstream.broker.failures import as_kafka_error, error_fields
from millstream.broker.network.api import Fields, Later, Request, api
from millstream.coordination.cluster_view import ClusterView
from millstream.errors import InvalidRequest, KafkaError, TransactionalIdAuthorizationFailed, UnsupportedVersion
from millstream.wire.api import ApiKey

if TYPE_CHECKING:
    from millstream.wire.requests.find_coordinator import FindCoordinatorRequest

GROUP = 0
TRANSACTION = 1
_FIRST_WITH_SEVERAL_KEYS = 4
_NO_TRANSACTIONS = "this broker has no transactions yet: use a producer without transactional.id"


class CoordinatorsFamily:
    """Finds coordinators."""

    def __init__(self, view: Callable[[], ClusterView], groups: GroupCoordinator, *, node_id: int) -> None:
        self._view = view
        self._groups = groups
        self._node_id = node_id

    @api(ApiKey.FIND_COORDINATOR, 0, 6)
    def find_coordinator(self, request: Request) -> Fields | Later:
        """The leader of the partition where the key is kept."""
        message: FindCoordinatorRequest = request.decode()
        key_type = message.key_type
        has_several = request.api_version >= _FIRST_WITH_SEVERAL_KEYS
        keys = message.coordinator_keys if has_several else (message.key,)
        if key_type == GROUP and not self._groups.runtime.is_ready:
            return self._create_and_find(request, keys, has_several=has_several)
        if key_type == TRANSACTION:
            refuse = UnsupportedVersion if has_several else TransactionalIdAuthorizationFailed
            return self._answer(keys, key_type, has_several=has_several, failure=refuse(_NO_TRANSACTIONS))
        return self._answer(keys, key_type, has_several=has_several)

    async def _create_and_find(self, request: Request, keys: Sequence[str], *, has_several: bool) -> Fields:
        failure = None
        try:
            await self._groups.create_topic(request)
        except Exception as error:
            failure = as_kafka_error(error)
        return self._answer(keys, GROUP, has_several=has_several, failure=failure)

    def _answer(self, keys: Sequence[str], key_type: int, *, has_several: bool, failure: KafkaError | None = None) -> Fields:
        places = [{"key": key, **self._find(key, key_type, failure)} for key in keys]
        return {"coordinators": places} if has_several else places[0]

    def _find(self, key: str, key_type: int, failure: KafkaError | None) -> dict[str, object]:
        if failure is not None:
            return _nowhere(failure)
        if key_type != GROUP:
            return _nowhere(InvalidRequest(f"there are no coordinators of type {key_type} here"))
        try:
            broker = self._groups.coordinator_of(key, self._view())
            if broker.node_id == self._node_id:
                self._groups.runtime.check_available(key)
        except KafkaError as error:
            return _nowhere(error)
        return {"node_id": broker.node_id, "host": broker.host, "port": broker.port, **error_fields(None)}


def _nowhere(error: KafkaError) -> dict[str, object]:
    return {"node_id": -1, "host": "", "port": -1, **error_fields(error)}
