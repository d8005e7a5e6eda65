"""Whatever stands in the fields of a request about groups: it is answered, or the connection is closed; the broker never fails on it."""

import asyncio
import dataclasses
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millstream.broker.network.session import PLAINTEXT, Session
from millstream.broker.server import BrokerServer
from millstream.broker.server_options import ServerOptions
from millstream.errors import MalformedFrame
from millstream.wire.api import API_VERSIONS, ApiKey
from millstream.wire.frames import encode_request_header
from tests.framed_requests import framed_request
from tests.properties.kio_entities import entities, kio_bytes, kio_schema
from tests.waiting import eventually

APIS = (
    ApiKey.JOIN_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP,
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH,
    ApiKey.OFFSET_DELETE,
    ApiKey.DESCRIBE_GROUPS,
    ApiKey.LIST_GROUPS,
    ApiKey.DELETE_GROUPS,
    ApiKey.CONSUMER_GROUP_DESCRIBE,
)


class Peer:
    """A connection that remembers what it was answered."""

    peer = "127.0.0.1:1"
    lane = None
    is_closed = False

    def __init__(self) -> None:
        self.session = Session(PLAINTEXT, "127.0.0.1")
        self.failure: str | None = None

    def identify(self, session: Session) -> Session:
        self.session = session
        return session

    def open_lane(self, lane: object, *, admitted: Session) -> None:
        assert lane
        assert admitted is self.session

    def reply(self, chunks: object, _key: int, _count: int = 1) -> None:
        assert chunks

    def defer(self, _key: int, _count: int = 1) -> "Peer":
        return self

    def complete(self, chunks: object) -> None:
        assert chunks

    def close(self, reason: str | None = None) -> None:
        self.failure = reason


class Host:
    """A broker on a loop that only turns when it is told to."""

    def __init__(self, data: Path) -> None:
        self.loop = asyncio.new_event_loop()
        options = {"offsets.topic.num.partitions": "1", "group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "1"}
        self.server = BrokerServer(ServerOptions(listen_port=0, coordination_port=0, data=(data,), options=options))
        self.loop.run_until_complete(self.server.__aenter__())
        # The first one who looks for a coordinator makes the broker create the topic of offsets.
        self.ask(framed_request(ApiKey.FIND_COORDINATOR, 4, correlation_id=1, request={"key_type": 0, "coordinator_keys": ["group"]})[4:])
        self.loop.run_until_complete(eventually(lambda: self.server._groups.runtime.is_ready, "the topic of offsets"))

    def ask(self, frame: bytes) -> str | None:
        """What the broker closed the connection with, if it did."""
        peer = Peer()

        async def handle() -> None:
            self.server._router.handle(peer, memoryview(frame))  # type: ignore[arg-type]
            await asyncio.sleep(0)

        try:
            self.loop.run_until_complete(handle())
        except MalformedFrame:
            return None
        return peer.failure

    def stop(self) -> None:
        self.loop.run_until_complete(self.server.__aexit__(None, None, None))
        self.loop.close()


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    running = Host(tmp_path_factory.mktemp("groups"))
    yield running
    running.stop()


@pytest.mark.parametrize("key", APIS, ids=lambda key: key.name.lower())
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_request_about_groups_makes_the_broker_fail(
    host: Host, caplog: pytest.LogCaptureFixture, key: ApiKey, data: st.DataObject
) -> None:
    caplog.set_level(logging.ERROR)
    versions = API_VERSIONS[key]
    version = data.draw(st.integers(versions.lowest, versions.highest))
    entity = data.draw(entities(kio_schema(key, version, "request")))
    name = data.draw(st.none() | st.sampled_from(("one", "two", "x" * 40_000, "")))
    changed = _with_names(entity, name, data)
    header = encode_request_header(key, version, correlation_id=1, client_id="client")
    try:
        body = kio_bytes(changed)
    except Exception:  # noqa: BLE001 -- a text that this version cannot carry
        return
    assert host.ask(header + body) is None, caplog.text
    assert not caplog.records, caplog.text


def _with_names(entity: Any, name: str | None, data: st.DataObject) -> Any:
    """The entity with some of its texts replaced, so that the same groups, members and topics come up again and again, or giant ones."""
    if name is None:
        return entity
    texts = [field.name for field in dataclasses.fields(entity) if isinstance(getattr(entity, field.name), str)]
    chosen = data.draw(st.sets(st.sampled_from(texts))) if texts else set()
    return dataclasses.replace(entity, **dict.fromkeys(chosen, name))
