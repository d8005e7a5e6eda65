"""FindCoordinator (10): which broker looks after a group or a transactional id.

Versions 0-6. 1: kind of key. 4: several keys at once (KIP-699). 6: share groups (KIP-932), which this broker does not have.
With one broker the answer is always this one. Clients ask also when they only assign partitions, and librdkafka takes the API for a sign
that lz4 may be used.
"""

from collections.abc import Callable

from penstock.broker.api import Fields, Request, api
from penstock.broker.failures import error_fields
from penstock.coordination.cluster_view import ClusterView
from penstock.errors import CoordinatorNotAvailable, InvalidRequest, KafkaError
from penstock.wire.api import ApiKey

GROUP = 0
TRANSACTION = 1
_FIRST_WITH_SEVERAL_KEYS = 4


class CoordinatorsFamily:
    """Finds coordinators."""

    def __init__(self, view: Callable[[], ClusterView], *, node_id: int) -> None:
        self._view = view
        self._node_id = node_id

    @api(ApiKey.FIND_COORDINATOR, 0, 6)
    def find_coordinator(self, request: Request) -> Fields:
        """This broker."""
        message = request.decode()
        place = self._find(getattr(message, "key_type", GROUP))
        if request.api_version < _FIRST_WITH_SEVERAL_KEYS:
            return place
        return {"coordinators": [{"key": key, **place} for key in message.coordinator_keys]}

    def _find(self, key_type: int) -> dict[str, object]:
        if key_type not in (GROUP, TRANSACTION):
            return _nowhere(InvalidRequest(f"there are no coordinators of type {key_type} here"))
        broker = self._view().brokers.get(self._node_id)
        if broker is None:
            return _nowhere(CoordinatorNotAvailable("the broker is not registered yet"))
        return {"node_id": broker.node_id, "host": broker.host, "port": broker.port, **error_fields(None)}


def _nowhere(error: KafkaError) -> dict[str, object]:
    return {"node_id": -1, "host": "", "port": -1, **error_fields(error)}
