"""MirrorAppend without a socket: requests that take several turns of the loop, and the last one of a mirroring."""

import asyncio
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from millstream.broker.handlers.mirror import MANY_BATCHES, MirrorFamily
from millstream.broker.network.api import Request
from millstream.broker.network.connection import Connection
from millstream.cluster.partition import Partition
from millstream.cluster.replicas import Replicas
from millstream.coordination.embedded import EmbeddedCoordination
from millstream.errors import CoordinatorLoadInProgress, OffsetOutOfRange
from millstream.files import Files
from millstream.transactions.producer_ids import ProducerIds
from millstream.wire.api import ApiKey
from millstream.wire.batch import PIECE_BATCHES
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
from tests.batches import encode_batch
from tests.manual_clock import ManualClock
from tests.unit.broker.handlers.desk import Desk, joined
from tests.unit.cluster.hosting import TOPIC_ID, follow, topic_state, view_of
from tests.waiting import eventually

SOURCE = "live/1/orders"
LARGE = b"x" * 70
_spawned: list[asyncio.Task[None]] = []


@pytest.fixture
async def partition(replicas: Replicas) -> Partition:
    await follow(replicas, view_of(topic_state(mirror_source=SOURCE)))
    return replicas.partition("orders", 0)


@pytest.fixture
async def family(replicas: Replicas, tmp_path: Path, clock: ManualClock) -> MirrorFamily:
    coordination = await EmbeddedCoordination.open(tmp_path / "tree", files=Files(), clock=clock, broker_session_name="b", is_synced=False)
    return MirrorFamily(replicas, ProducerIds(coordination), clock, spawn=_spawn)


def _spawn(work: Coroutine[Any, Any, None]) -> None:
    _spawned.append(asyncio.get_running_loop().create_task(work))


def copied(*offsets: int, **fields: int) -> bytes:
    """Batches of one record each, of the source."""
    return b"".join(encode_batch([LARGE], keys=None, timestamp=None, base_offset=offset, leader_epoch=91, **fields) for offset in offsets)


async def ask(family: MirrorFamily, desk: Desk, records: bytes, *, expected_end: int, is_last: bool = False) -> PartitionMirrored | None:
    """The answer, if it is there at once."""
    topic = MirrorTopic(TOPIC_ID.bytes, SOURCE, [MirrorPartition(0, expected_end, memoryview(records))])
    header = encode_request_header(ApiKey.MIRROR_APPEND, 0, correlation_id=1, client_id="mirror")
    frame = memoryview(header + b"".join(encode_request(MirrorAppendRequest(20_000, is_last, [topic]))))
    reply = family.mirror_append(Request(cast(Connection, desk), read_request_header(frame), frame))
    if isinstance(reply, Coroutine):
        reply = await reply
    return None if reply is None else answer_in(reply)


def answer_in(chunks: Sequence[Any]) -> PartitionMirrored:
    body = memoryview(joined(chunks))[4:]
    _, start = read_response_header(body, api_key=ApiKey.MIRROR_APPEND, version=0)
    [topic] = decode_response(body[start:])
    [answer] = topic.partitions
    return answer


async def test_very_many_batches_are_appended_in_several_turns(family: MirrorFamily, desk: Desk, partition: Partition) -> None:
    count = MANY_BATCHES + 1
    assert await ask(family, desk, copied(*range(count)), expected_end=0) is None
    ends = []
    while desk.pending[0].chunks is None:
        assert desk.holds == 1, "what comes behind it expects it to be appended"
        await asyncio.sleep(0)
        ends.append(partition.log.log_end_offset)
    assert ends[:3] == [PIECE_BATCHES, 2 * PIECE_BATCHES, count]
    assert (answer_in(desk.pending[0].chunks)[:3], desk.holds) == ((0, 0, count), 0)


async def test_what_another_mirror_appends_between_two_turns_ends_the_request(
    family: MirrorFamily, desk: Desk, partition: Partition
) -> None:
    assert await ask(family, desk, copied(*range(MANY_BATCHES + 1)), expected_end=0) is None
    await asyncio.sleep(0)
    assert await ask(family, Desk(), copied(PIECE_BATCHES), expected_end=PIECE_BATCHES) is not None
    await eventually(lambda: desk.pending[0].chunks is not None, "it is answered")
    answer = answer_in(desk.pending[0].chunks or ())
    assert (answer.error_code, answer.log_end_offset, desk.holds) == (OffsetOutOfRange.code, PIECE_BATCHES + 1, 0)


@pytest.mark.usefixtures("partition")
async def test_the_last_request_fails_if_the_ids_of_producers_cannot_be_set_aside(
    family: MirrorFamily, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lost(*_: object, **__: object) -> object:
        raise ConnectionLost("the tree is away")

    records = copied(0, producer_id=5_000, producer_epoch=0, base_sequence=0)
    with monkeypatch.context() as away:
        away.setattr(EmbeddedCoordination, "get", lost)
        answer = await ask(family, desk, records, expected_end=0, is_last=True)
    assert answer is not None
    assert (answer.error_code, answer.log_end_offset) == (CoordinatorLoadInProgress.code, 1)
    again = await ask(family, desk, b"", expected_end=-1, is_last=True)
    assert again is not None
    assert again[:5] == (0, 0, 1, 0, 5_000)
