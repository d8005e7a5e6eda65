"""Clients of one Produce handler, over pairs of sockets."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

from millstream.broker.network.connection import Connection
from millstream.broker.network.frame_reader import ReceiveBuffers
from millstream.broker.network.request_times import RequestTimes
from millstream.broker.network.router import Router
from millstream.clock import Clock, SystemClock
from millstream.cluster.replicas import Replicas
from millstream.coordination.cluster_view import TopicState
from millstream.coordination.partition_state import PartitionState
from millstream.log.config import LogConfig
from millstream.log.directories.manager import LogManager
from millstream.wire import messages
from millstream.wire.api import ApiKey
from tests.batches import encode_batch
from tests.framed_requests import framed_request
from tests.unit.broker.conftest import Ends
from tests.unit.broker.produce_family import produce_family
from tests.unit.cluster.hosting import replicas_on, view_of

TOPIC = TopicState(name="orders", topic_id=uuid4(), partitions=(PartitionState.first((1,)),) * 3)


def request(
    correlation_id: int,
    *,
    version: int = 9,
    partition: int = 0,
    others: Sequence[int] = (),
    batch: bytes | None = None,
    acks: int = 1,
    client_id: str | None = "me",
) -> bytes:
    """One batch for a partition, and for the others that are named."""
    records = encode_batch([str(correlation_id).encode()]) if batch is None else batch
    partitions = [{"index": index, "records": records} for index in (partition, *others)]
    return framed_request(
        ApiKey.PRODUCE,
        version,
        correlation_id=correlation_id,
        client_id=client_id,
        request={
            "transactional_id": None,
            "acks": acks,
            "timeout_ms": 30_000,
            "topic_data": [
                {"name": "orders", "topic_id": TOPIC.topic_id, "partition_data": partitions},
            ],
        },
    )


@asynccontextmanager
async def served(
    directory: Path,
    ends: Ends,
    config: LogConfig | None = None,
    *,
    clock: Clock | None = None,
    buffers: ReceiveBuffers | None = None,
) -> AsyncIterator[tuple[Connection, Replicas]]:
    """One client of a broker."""
    async with served_crowd(directory, [ends], config, clock=clock, buffers=buffers) as ([connection], replicas):
        yield connection, replicas


@asynccontextmanager
async def served_crowd(
    directory: Path,
    crowd: Sequence[Ends],
    config: LogConfig | None = None,
    *,
    clock: Clock | None = None,
    buffers: ReceiveBuffers | None = None,
) -> AsyncIterator[tuple[list[Connection], Replicas]]:
    """Several clients of a broker."""
    logs = LogManager([directory], clock=SystemClock())
    logs.start(node_id=1, cluster_id="here")
    replicas = replicas_on(logs, log_config=lambda _topic: config or LogConfig())
    await replicas.apply(view_of(TOPIC))
    family = produce_family(replicas, clock or SystemClock())
    router, times = Router([family.produce], spawn=lambda _work: None), RequestTimes()
    buffers = buffers or ReceiveBuffers(max_held_bytes=1 << 26)
    connections = [
        Connection(
            ends.broker, peer=f"x:{number}", handler=router, buffers=buffers, max_frame_size=1 << 20, times=times, on_close=lambda _: None
        )
        for number, ends in enumerate(crowd)
    ]
    try:
        yield connections, replicas
    finally:
        for connection in connections:
            connection.close()
        logs.close()


async def answers(ends: Ends, version: int, count: int) -> list[tuple[int, int, int, int]]:
    """Correlation id, partition, error and offset of each answer, in the order in which they came."""
    found: list[tuple[int, int, int, int]] = []
    reader = asyncio.get_running_loop()
    ends.client.setblocking(False)
    data = b""
    while len(found) < count:
        data += await asyncio.wait_for(reader.sock_recv(ends.client, 1 << 20), 10)
        while len(data) >= 4 and len(data) >= 4 + int.from_bytes(data[:4], "big"):
            size = int.from_bytes(data[:4], "big")
            frame, data = data[4 : 4 + size], data[4 + size :]
            start = 5 if version >= 9 else 4
            answer = messages.decode_response(ApiKey.PRODUCE, version, body=frame, start=start)
            [topic] = answer.responses
            [partition] = topic.partition_responses
            found.append((int.from_bytes(frame[:4], "big"), partition.index, int(partition.error_code), partition.base_offset))
    return found
