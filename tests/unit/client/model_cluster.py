"""A cluster without sockets: every request is answered by a function of the test."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from millstream.client.cluster import Cluster
from millstream.client.codecs.request import MessageRequest
from millstream.client.errors import BrokerUnavailable
from millstream.wire.api import ApiKey

Answer = Callable[[int, MessageRequest[Any]], Any]


class ModelConnection:
    """A connection to one broker, which may be gone."""

    def __init__(self, cluster: "ModelCluster", broker: int) -> None:
        self._cluster = cluster
        self._broker = broker

    def send(self, request: MessageRequest[Any]) -> MessageRequest[Any]:
        self._cluster.sent.append((self._broker, request))
        return request

    def receive(self, request: MessageRequest[Any]) -> Any:
        if self._broker in self._cluster.gone:
            raise BrokerUnavailable(f"broker {self._broker} is gone")
        return self._cluster.answer(self._broker, request)


class ModelCluster:
    """Each key has its coordinator; any other request goes to `answer`."""

    def __init__(self, coordinators: dict[str, int], answer: Answer) -> None:
        self.coordinators = coordinators
        self.answer = answer
        self.sent: list[tuple[int, MessageRequest[Any]]] = []
        self.gone: set[int] = set()
        self.finds = 0

    @property
    def as_cluster(self) -> Cluster:
        """This, for who wants a cluster."""
        return cast("Cluster", self)

    def connection(self, broker: int) -> ModelConnection:
        return ModelConnection(self, broker)

    def call(self, request: MessageRequest[Any]) -> Any:
        if request.api_key != ApiKey.FIND_COORDINATOR:
            return self.answer(-1, request)
        self.finds += 1
        keys = cast("list[str]", request.fields["coordinator_keys"])
        found = [SimpleNamespace(key=key, node_id=self.coordinators[key], error_code=0) for key in keys]
        return SimpleNamespace(coordinators=found)
