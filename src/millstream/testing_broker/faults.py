"""Requests that fail because a test wants it: the next ones for an API are answered with an error code, and nothing of them is done.

    Produce, Fetch, OffsetCommit                  the code stands beside every partition of the request
    FindCoordinator, InitProducerId, JoinGroup,
    SyncGroup, Heartbeat, ConsumerGroupHeartbeat  the code is the answer

A lane would take requests that the router does not see: when a fault is set, every session is renewed, which closes them, and none is
opened for an API whose requests are not handled. A Fetch of a session that names no partitions is answered with
FETCH_SESSION_ID_NOT_FOUND: the client then names them all, and that request fails as wanted.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from millstream.broker.network.api import Fields, Handler, Request
from millstream.broker.network.connection import Connection
from millstream.broker.network.router import Forward, Router
from millstream.broker.tasks import Spawn
from millstream.errors import FetchSessionIdNotFound, UsageError
from millstream.testing_broker.error_codes import ERROR_CODES
from millstream.wire.api import ApiKey
from millstream.wire.frames import read_request_header

_NO_ACKS: Final = 0
_FIRST_WITH_SEVERAL_KEYS: Final = 4


class Faults:
    """The codes that the next requests are answered with, per API."""

    def __init__(self) -> None:
        self._codes: dict[int, deque[int]] = {}
        self.answered: Counter[str] = Counter()
        """How many requests have failed so, by the names of their APIs."""

    def add(self, api: str, error: str, times: int) -> None:
        """Answer the next requests for an API with an error, both by Kafka's names; UsageError for names that cannot be."""
        key, code = _api_of(api), _code_of(error)
        if times < 1:
            raise UsageError(f"a request fails once or more often, not {times} times")
        self._codes.setdefault(key, deque()).extend([code] * times)

    def waiting(self, api_key: int) -> bool:
        """Whether the next request for the API is to fail."""
        return bool(self._codes.get(api_key))

    def take(self, api_key: int) -> int:
        """The code for a request that fails now."""
        self.answered[_name(ApiKey(api_key))] += 1
        return self._codes[api_key].popleft()


class FailingRouter(Router):
    """A router that lets requests fail before a handler sees them."""

    def __init__(self, handlers: Iterable[Handler], *, spawn: Spawn, forward: Forward | None, faults: Faults) -> None:
        super().__init__(handlers, spawn=spawn, forward=forward)
        self._faults = faults

    def handle(self, connection: Connection, frame: memoryview) -> None:
        header = read_request_header(frame)
        if not self._faults.waiting(header.api_key):
            super().handle(connection, frame)
            return
        request = Request(connection, header, frame)
        message = request.decode()
        if header.api_key == ApiKey.FETCH and not message.topics:
            _reply(request, {"error_code": FetchSessionIdNotFound.code, "responses": ()})
            return
        code = self._faults.take(header.api_key)
        if header.api_key == ApiKey.PRODUCE and message.acks == _NO_ACKS:
            connection.close("a test lets this request fail, and it wants no answer")
            return
        _reply(request, ANSWERS[ApiKey(header.api_key)](message, code, header.api_version))


def _reply(request: Request, fields: Fields) -> None:
    request.connection.reply((request.encode(fields),), request.timed_as)


def _produce(message: Any, code: int, _version: int) -> Fields:
    partition = {"error_code": code, "base_offset": -1, "record_errors": ()}
    return {
        "responses": [
            {
                "name": topic.name,
                "topic_id": topic.topic_id,
                "partition_responses": [{"index": one.index, **partition} for one in topic.partition_data],
            }
            for topic in message.topic_data
        ]
    }


def _fetch(message: Any, code: int, _version: int) -> Fields:
    partition = {"error_code": code, "high_watermark": -1, "aborted_transactions": None, "records": b""}
    return {
        "responses": [
            {
                "topic": topic.topic,
                "topic_id": topic.topic_id,
                "partitions": [{"partition_index": one.partition, **partition} for one in topic.partitions],
            }
            for topic in message.topics
        ]
    }


def _offset_commit(message: Any, code: int, _version: int) -> Fields:
    return {
        "topics": [
            {
                "name": topic.name,
                "topic_id": topic.topic_id,
                "partitions": [{"partition_index": one.partition_index, "error_code": code} for one in topic.partitions],
            }
            for topic in message.topics
        ]
    }


def _find_coordinator(message: Any, code: int, version: int) -> Fields:
    nowhere = {"error_code": code, "error_message": None, "node_id": -1, "host": "", "port": -1}
    if version < _FIRST_WITH_SEVERAL_KEYS:
        return nowhere
    return {"coordinators": [{"key": key, **nowhere} for key in message.coordinator_keys]}


def _whole(**fields: object) -> Callable[[Any, int, int], Fields]:
    return lambda _message, code, _version: {"error_code": code, **fields}


ANSWERS: Final[Mapping[ApiKey, Callable[[Any, int, int], Fields]]] = {
    ApiKey.PRODUCE: _produce,
    ApiKey.FETCH: _fetch,
    ApiKey.OFFSET_COMMIT: _offset_commit,
    ApiKey.FIND_COORDINATOR: _find_coordinator,
    ApiKey.INIT_PRODUCER_ID: _whole(producer_epoch=-1),
    ApiKey.JOIN_GROUP: _whole(protocol_name="", leader="", member_id="", members=()),
    ApiKey.SYNC_GROUP: _whole(assignment=b""),
    ApiKey.HEARTBEAT: _whole(),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _whole(member_epoch=-1, heartbeat_interval_ms=0),
}


def _api_of(name: str) -> ApiKey:
    names = {key.name.replace("_", ""): key for key in ANSWERS}
    key = names.get(name.replace("_", "").upper())
    if key is None:
        raise UsageError(f"requests for {name!r} cannot be made to fail: choose one of {', '.join(map(_name, ANSWERS))}")
    return key


def _name(key: ApiKey) -> str:
    """`OFFSET_COMMIT` -> `OffsetCommit`."""
    return key.name.title().replace("_", "")


def _code_of(name: str) -> int:
    if name not in ERROR_CODES:
        raise UsageError(f"requests cannot be made to fail with {name!r}: choose one of {', '.join(ERROR_CODES)}")
    return ERROR_CODES[name]
