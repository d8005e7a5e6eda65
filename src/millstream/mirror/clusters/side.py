"""One of the two clusters of a mirror: its metadata, and connections to its brokers.

Connections are opened when they are needed, by `open_connection` (which is where TLS and SASL come in), and kept: one to each broker for
each purpose, because the answers of a connection come in order, and one that waits for records would hold up the others. One that broke is
opened anew by the next request; whoever asked gets the error and tries again by its own rules.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from millstream.address import Address, parse_bootstrap_servers
from millstream.client.async_connection import AsyncConnection
from millstream.client.errors import BrokerUnavailable, kafka_error
from millstream.client.list_offsets import OffsetAndTime, list_offsets_request, read_list_offsets
from millstream.client.metadata import NO_LEADER, ClusterMetadata, metadata_request, read_metadata
from millstream.client.request import MessageRequest, Request
from millstream.errors import LeaderNotAvailable
from millstream.topic_partition import TopicPartition
from millstream.wire.api import ApiKey

T = TypeVar("T")

OpenConnection = Callable[[Address], Awaitable[AsyncConnection]]

CLIENT_ID: Final = "millstream-mirror"
TIMEOUT_S: Final = 10.0
_LAST_COORDINATOR_OF_ONE: Final = 3
"""The last version of FindCoordinator that asks for a single group."""


async def open_plain(address: Address) -> AsyncConnection:
    """A connection without TLS and SASL."""
    return await AsyncConnection.open(address, client_id=CLIENT_ID, timeout_s=TIMEOUT_S)


class Side:
    """A cluster."""

    def __init__(self, bootstrap_servers: str | Iterable[str], *, open_connection: OpenConnection = open_plain) -> None:
        self._bootstrap = parse_bootstrap_servers(bootstrap_servers)
        self._open_connection = open_connection
        self._connections: dict[tuple[Address, str], AsyncConnection] = {}
        self._opening: dict[tuple[Address, str], asyncio.Lock] = {}
        self._coordinators: dict[str, Address] = {}
        self.metadata = ClusterMetadata()
        """As it was asked for last."""

    def __str__(self) -> str:
        return ",".join(map(str, self._bootstrap))

    @property
    def cluster_id(self) -> str:
        """The id of the cluster, once it has been asked."""
        return self.metadata.cluster_id or ""

    def close(self) -> None:
        """Close all connections."""
        while self._connections:
            self._connections.popitem()[1].close()

    async def refresh(self) -> ClusterMetadata:
        """Ask about all topics."""
        self.metadata = read_metadata(await self.ask(metadata_request(None)))
        return self.metadata

    def leader(self, partition: TopicPartition) -> int:
        """The broker that leads the partition, as far as is known; `NO_LEADER` if none does."""
        topic = self.metadata.topics.get(partition.topic)
        found = None if topic is None else topic.partitions.get(partition.partition)
        return NO_LEADER if found is None or found.leader not in self.metadata.brokers else found.leader

    async def connection(self, broker_id: int, purpose: str = "") -> AsyncConnection:
        """The connection to a broker for a purpose; BrokerUnavailable if there is none."""
        address = self.metadata.brokers.get(broker_id)
        if address is None:
            raise BrokerUnavailable(f"broker {broker_id} of the cluster at {self} is not up")
        return await self._connection(address, purpose)

    async def ask(self, request: Request[T]) -> T:
        """Ask any broker, the known ones first."""
        reasons = []
        for address in dict.fromkeys([*self.metadata.brokers.values(), *self._bootstrap]):
            try:
                return await self._ask_at(address, request)
            except BrokerUnavailable as error:
                reasons.append(str(error))
        raise BrokerUnavailable("; ".join(reasons))

    async def ask_leader(self, partition: TopicPartition, request: Request[T]) -> T:
        """Ask the leader of a partition."""
        leader = self.leader(partition)
        if leader == NO_LEADER:
            raise LeaderNotAvailable(f"{partition} has no leader at {self}")
        connection = await self.connection(leader)
        return await asyncio.shield(connection.send(request))

    async def ask_coordinator(self, group: str, request: Request[T]) -> T:
        """Ask the coordinator of a group; it is looked for anew after any error that the caller reports with `forget_coordinator`."""
        address = self._coordinators.get(group)
        if address is None:
            found: MessageRequest[Any] = MessageRequest(
                ApiKey.FIND_COORDINATOR, {"key": group, "key_type": 0}, highest=_LAST_COORDINATOR_OF_ONE
            )
            answer = await self.ask(found)
            if answer.error_code:
                raise kafka_error(answer.error_code, f"the group {group} has no coordinator at {self} for now")
            address = self._coordinators[group] = Address(answer.host, answer.port)
        return await self._ask_at(address, request)

    def forget_coordinator(self, group: str) -> None:
        """It did not answer, or is another broker now."""
        self._coordinators.pop(group, None)

    async def offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAndTime]:
        """Offsets of partitions with one leader, for times of `millstream.offset`."""
        answer = await self.ask_leader(next(iter(wanted)), list_offsets_request(wanted, isolation_level=0))
        found = {}
        for partition, error_code, offset in read_list_offsets(answer):
            if error_code:
                raise kafka_error(error_code, f"{self} does not say where {partition} begins and ends")
            found[partition] = offset
        return found

    async def _ask_at(self, address: Address, request: Request[T]) -> T:
        connection = await self._connection(address, "")
        # Shielded: whoever is cancelled must not end the connection that others use; the answer is dropped when it comes.
        return await asyncio.shield(connection.send(request))

    async def _connection(self, address: Address, purpose: str) -> AsyncConnection:
        key = (address, purpose)
        async with self._opening.setdefault(key, asyncio.Lock()):
            connection = self._connections.get(key)
            if connection is None or connection.is_closed:
                connection = self._connections[key] = await self._open_connection(address)
            return connection
