"""AlterPartition (56), BrokerHeartbeat (63): what brokers ask of the controller.

AlterPartition 2-3. 2: topics by id. 3: the lives in which the leader saw the replicas (KIP-903). BrokerHeartbeat 0-2: only the wish to stop
counts (`want_shut_down`); that a broker lives is known from its session.
"""

from millstream.broker.cluster.controller_requests import ControllerRequests
from millstream.broker.network.api import Later, Request, api
from millstream.wire.api import ApiKey


class ControllerFamily:
    """Hands the requests to the controller of this broker, which refuses them while another is elected."""

    def __init__(self, requests: ControllerRequests) -> None:
        self._requests = requests

    @api(ApiKey.ALTER_PARTITION, 2, 3)
    def alter_partition(self, request: Request) -> Later:
        """Change in-sync sets, as their leader asks for it."""
        return self._requests.alter_partitions(request.decode())

    @api(ApiKey.BROKER_HEARTBEAT, 0, 2)
    def broker_heartbeat(self, request: Request) -> Later:
        """Relieve a broker that wants to stop of what it leads."""
        return self._requests.heartbeat(request.decode())
