"""MirrorAppend without a socket: the last request of a mirroring while the tree is away."""

from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import cast

import pytest

from millstream.broker.handlers.mirror import MirrorFamily
from millstream.broker.network.api import Request
from millstream.broker.network.connection import Connection
from millstream.cluster.partition import Partition
from millstream.cluster.replicas import Replicas
from millstream.coordination.embedded import EmbeddedCoordination
from millstream.errors import CoordinatorLoadInProgress
from millstream.files import Files
from millstream.transactions.producer_ids import ProducerIds
from millstream.wire.api import ApiKey
from millstream.wire.frames import encode_request_header, read_request_header, read_response_header
from millstream.wire.mirror_append import (
    MirrorAppendRequest,
    MirrorPartition,
    MirrorTopic,
    PartitionMirrored,
    decode_response,
    encode_request,
)
from millstream.zookeeper.errors import ConnectionLost
from tests.manual_clock import ManualClock
from tests.mirror.appending import SOURCE, mirrored_batch
from tests.unit.broker.handlers.desk import Desk, joined
from tests.unit.cluster.hosting import TOPIC_ID, follow, topic_state, view_of


@pytest.fixture
async def partition(replicas: Replicas) -> Partition:
    await follow(replicas, view_of(topic_state(mirror_source=SOURCE)))
    return replicas.partition("orders", 0)


@pytest.fixture
async def producer_ids(tmp_path: Path, clock: ManualClock) -> AsyncIterator[ProducerIds]:
    coordination = await EmbeddedCoordination.open(tmp_path / "tree", files=Files(), clock=clock, broker_session_name="b", is_synced=False)
    yield ProducerIds(coordination)
    await coordination.close()


@pytest.fixture
def family(replicas: Replicas, producer_ids: ProducerIds, clock: ManualClock) -> MirrorFamily:
    return MirrorFamily(replicas, producer_ids, clock, spawn=lambda work: work.close())


async def end(family: MirrorFamily, desk: Desk, records: bytes, *, expected_end: int) -> PartitionMirrored:
    """The answer to the last request of a mirroring."""
    topic = MirrorTopic(TOPIC_ID.bytes, SOURCE, [MirrorPartition(0, expected_end, memoryview(records))])
    header = encode_request_header(ApiKey.MIRROR_APPEND, 0, correlation_id=1, client_id="mirror")
    frame = memoryview(header + b"".join(encode_request(MirrorAppendRequest(20_000, True, [topic]))))
    reply = family.mirror_append(Request(cast(Connection, desk), read_request_header(frame), frame))
    assert isinstance(reply, Coroutine)
    body = memoryview(joined(await reply))[4:]
    _, start = read_response_header(body, api_key=ApiKey.MIRROR_APPEND, version=0)
    [answered] = decode_response(body[start:])
    [answer] = answered.partitions
    return answer


@pytest.mark.usefixtures("partition")
async def test_the_last_request_fails_if_the_ids_of_producers_cannot_be_set_aside(
    family: MirrorFamily, producer_ids: ProducerIds, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lost(*_: object, **__: object) -> object:
        raise ConnectionLost("the tree is away")

    records = mirrored_batch(b"a", at=0, producer_id=5_000, producer_epoch=0, base_sequence=0)
    with monkeypatch.context() as away:
        away.setattr(EmbeddedCoordination, "get", lost)
        answer = await end(family, desk, records, expected_end=0)
    assert (answer.error_code, answer.log_end_offset) == (CoordinatorLoadInProgress.code, 2)
    again = await end(family, desk, b"", expected_end=-1)
    assert again[:4] == (0, 0, 2, 0)
    assert await producer_ids.take() > 5_000
