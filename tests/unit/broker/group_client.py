"""A broker in this loop and the requests of groups to it, for the tests of the coordinator's shell."""

import asyncio
import struct
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from millstream.broker.server import BrokerServer
from millstream.broker.server_options import ServerOptions
from millstream.files import Files
from tests.connection import CREATE_TOPICS, FIND_COORDINATOR, decode_response, encode_request

OFFSET_COMMIT, OFFSET_FETCH, JOIN_GROUP, HEARTBEAT, SYNC_GROUP, DESCRIBE_GROUPS, LIST_GROUPS = 8, 9, 11, 12, 14, 15, 16

OPTIONS = {"offsets.topic.num.partitions": "2", "group.initial.rebalance.delay.ms": "0"}


@asynccontextmanager
async def group_server(*data: Path, options: Mapping[str, str] | None = None, files: Files | None = None) -> AsyncIterator[BrokerServer]:
    """A broker with few shards."""
    server_options = ServerOptions(listen_port=0, coordination_port=0, data=data, options={**OPTIONS, **(options or {})})
    async with BrokerServer(server_options, files=files) as server:
        yield server


async def ask(server: BrokerServer, key: int, version: int, fields: Mapping[str, object]) -> Any:
    """One request on a connection of its own."""
    async with asyncio.timeout(20):
        reader, writer = await asyncio.open_connection(*server.address)
        writer.write(encode_request(key, version, fields))
        (size,) = struct.unpack(">i", await reader.readexactly(4))
        frame = await reader.readexactly(size)
        writer.close()
        await writer.wait_closed()
    return decode_response(key, version, frame)[1]


async def find(server: BrokerServer, group: str = "group") -> int:
    """Look for the coordinator; its error."""
    answer = await ask(server, FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": [group]})
    return int(answer.coordinators[0].error_code)


async def create(server: BrokerServer, name: str = "orders", partitions: int = 1) -> None:
    """A topic to read."""
    entry = {"name": name, "num_partitions": partitions, "replication_factor": 1, "configs": []}
    answer = await ask(server, CREATE_TOPICS, 7, {"topics": [entry], "timeout_ms": 20_000})
    assert answer.topics[0].error_code == 0


async def commit(server: BrokerServer, offset: int, *, group: str = "group", topic: str = "orders", metadata: str = "") -> int:
    """Commit as a consumer without membership; the error of the partition."""
    entry = {"partition_index": 0, "committed_offset": offset, "committed_leader_epoch": 0, "committed_metadata": metadata}
    fields = {
        "group_id": group,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "group_instance_id": None,
        "topics": [{"name": topic, "partitions": [entry]}],
    }
    answer = await ask(server, OFFSET_COMMIT, 9, fields)
    return int(answer.topics[0].partitions[0].error_code)


async def fetch(server: BrokerServer, *, group: str = "group", topic: str = "orders") -> tuple[int, int]:
    """The error of the group, and its committed offset."""
    group_fields = {"group_id": group, "member_id": None, "member_epoch": -1, "topics": [{"name": topic, "partition_indexes": [0]}]}
    answer = (await ask(server, OFFSET_FETCH, 9, {"groups": [group_fields], "require_stable": False})).groups[0]
    return int(answer.error_code), answer.topics[0].partitions[0].committed_offset if answer.topics else -1
