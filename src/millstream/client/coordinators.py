"""Which brokers coordinate groups or transactional ids: found once, remembered, and found again when they have moved.

    coordinators = Coordinators(cluster, TRANSACTION, timeout_s=30)
    coordinators.ask("copier", request, read)
    coordinators.ask_all({"copier-0": first, "copier-1": second}, read)      # many at once, each to its own coordinator

`read` makes something of an answer, or raises what it complains of. What may pass (a coordinator that moves or loads) is asked again.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from millstream.client.cluster import Cluster
from millstream.client.codecs.request import MessageRequest
from millstream.client.connection import Connection
from millstream.client.errors import kafka_error
from millstream.client.retry import may_pass, retry
from millstream.errors import MillstreamError
from millstream.wire.api import ApiKey

T = TypeVar("T")

GROUP: Final = 0
TRANSACTION: Final = 1
_WHAT: Final = {GROUP: "the group", TRANSACTION: "the transactional id"}
_FIRST_WITH_MANY_KEYS: Final = 4


class Coordinators:
    """The coordinators of groups, or of transactional ids."""

    def __init__(self, cluster: Cluster, key_type: int, *, timeout_s: float) -> None:
        self._cluster = cluster
        self._key_type = key_type
        self._timeout_s = timeout_s
        self._known: dict[str, int] = {}

    def ask(self, key: str, request: MessageRequest[Any], read: Callable[[Any], T]) -> T:
        """Ask the coordinator of one key; `read` makes the result of an answer, or raises the error that it holds."""
        return self.ask_all({key: request}, lambda _, answer: read(answer))[key]

    def ask_all(
        self, requests: Mapping[str, MessageRequest[Any]], read: Callable[[str, Any], T], *, timeout_s: float | None = None
    ) -> dict[str, T]:
        """Ask the coordinator of each key, all at once; what may pass is asked again, any other error is raised."""
        results: dict[str, T] = {}

        def attempt() -> None:
            missing = [key for key in requests if key not in results]
            places = self.find(missing)
            # Unless it answers, a coordinator is looked for again.
            self.forget(missing)
            pending = [(key, connection, connection.send(requests[key])) for key, connection in self._connections(places)]
            trouble: MillstreamError | None = None
            for key, connection, asked in pending:
                try:
                    results[key] = read(key, connection.receive(asked))
                    self.remember([key], places[key])
                except MillstreamError as error:
                    if not may_pass(error):
                        raise
                    trouble = error
            if trouble is not None:
                raise trouble

        retry(attempt, timeout_s=self._timeout_s if timeout_s is None else timeout_s)
        return results

    def find(self, keys: Iterable[str]) -> dict[str, int]:
        """The broker that coordinates each key."""
        wanted = list(keys)
        unknown = [key for key in wanted if key not in self._known]
        if len(unknown) == 1:
            self._find_one(unknown[0])
        elif unknown:
            self._find_many(unknown)
        return {key: self._known[key] for key in wanted}

    def forget(self, keys: Iterable[str]) -> None:
        """Find these anew when they are asked next."""
        for key in keys:
            self._known.pop(key, None)

    def remember(self, keys: Iterable[str], broker: int) -> None:
        """These were answered by this broker."""
        self._known.update(dict.fromkeys(keys, broker))

    def _connections(self, places: Mapping[str, int]) -> list[tuple[str, Connection]]:
        return [(key, self._cluster.connection(broker)) for key, broker in places.items()]

    def _find_one(self, key: str) -> None:
        fields = {"key": key, "key_type": self._key_type, "coordinator_keys": [key]}
        answer: Any = self._cluster.call(MessageRequest(ApiKey.FIND_COORDINATOR, fields, lowest=1))
        self._learn(key, answer.coordinators[0] if answer.coordinators else answer)

    def _find_many(self, keys: list[str]) -> None:
        fields = {"key_type": self._key_type, "coordinator_keys": keys}
        answer: Any = self._cluster.call(MessageRequest(ApiKey.FIND_COORDINATOR, fields, lowest=_FIRST_WITH_MANY_KEYS))
        for found in answer.coordinators:
            self._learn(found.key, found)

    def _learn(self, key: str, found: Any) -> None:
        if found.error_code:
            raise kafka_error(int(found.error_code), f"the coordinator of {_WHAT[self._key_type]} {key!r} was not found")
        self._known[key] = int(found.node_id)
