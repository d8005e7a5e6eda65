"""One of the two clusters of a mirror: its metadata, and connections to its brokers.

Connections are opened when they are needed, by `open_connection` (which is where TLS and SASL come in), and kept: one to each broker for
each purpose, because the answers of a connection come in order, and one that waits for records would hold up the others. One that broke is
opened anew by the next request; whoever asked gets the error and tries again by its own rules.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from millstream.address import Address, parse_bootstrap_servers
from millstream.client.async_connection import AsyncConnection
from millstream.client.codecs.list_offsets import OffsetAndTime, list_offsets_request, read_list_offsets
from millstream.client.codecs.metadata import NO_LEADER, ClusterMetadata, metadata_request, read_metadata
from millstream.client.codecs.request import MessageRequest, Request
from millstream.client.errors import BrokerUnavailable, kafka_error
from millstream.client.security.client_security import NO_SECURITY, ClientSecurity
from millstream.errors import LeaderNotAvailable, MillstreamError
from millstream.offset import LATEST
from millstream.topic_partition import TopicPartition
from millstream.wire.api import ApiKey

logger = logging.getLogger(__name__)

T = TypeVar("T")

_Key = tuple[Address, str]
"""A broker and a purpose."""

OpenConnection = Callable[[Address], Awaitable[AsyncConnection]]

CLIENT_ID: Final = "millstream-mirror"
TIMEOUT_S: Final = 10.0
_LAST_COORDINATOR_OF_ONE: Final = 3
"""The last version of FindCoordinator that asks for a single group."""
_GROUPS_PER_REQUEST: Final = 500
_REMEMBERED_S: Final = 1.0
"""For so long at most, and no longer than it took, a connection that could not be opened is not tried again."""


def opener(security: ClientSecurity, *, timeout_s: float = TIMEOUT_S) -> OpenConnection:
    """What opens connections with this security, on which an answer takes at most so long."""

    async def open_connection(address: Address) -> AsyncConnection:
        return await AsyncConnection.open(address, client_id=CLIENT_ID, timeout_s=timeout_s, security=security)

    return open_connection


class Side:
    """A cluster."""

    def __init__(self, bootstrap_servers: str | Iterable[str], *, open_connection: OpenConnection | None = None) -> None:
        self._bootstrap = parse_bootstrap_servers(bootstrap_servers)
        self._open_connection = open_connection or opener(NO_SECURITY)
        self._connections: dict[_Key, AsyncConnection] = {}
        self._opening: dict[_Key, asyncio.Task[AsyncConnection]] = {}
        self._unreachable: dict[_Key, tuple[MillstreamError, float]] = {}
        """Why a connection was not opened, and until when nobody need try again."""
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
        for opening in self._opening.values():
            opening.cancel()
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
                return await self.ask_at(address, request)
            except BrokerUnavailable as error:
                reasons.append(str(error))
        raise BrokerUnavailable("; ".join(reasons))

    async def ask_every_broker(self, request: Request[T]) -> list[T]:
        """Ask each broker the same; those that do not answer are left out."""
        answers = []
        for address in self.metadata.brokers.values():
            try:
                answers.append(await self.ask_at(address, request))
            except BrokerUnavailable as error:
                logger.debug("one broker of %s is left out: %s", self, error)
        return answers

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
        return await self.ask_at(address, request)

    async def coordinators(self, groups: Iterable[str]) -> dict[str, Address]:
        """The coordinators of many groups; those that have none for now are left out."""
        names = list(groups)
        missing = [name for name in names if name not in self._coordinators]
        for start in range(0, len(missing), _GROUPS_PER_REQUEST):
            some = missing[start : start + _GROUPS_PER_REQUEST]
            request: MessageRequest[Any] = MessageRequest(
                ApiKey.FIND_COORDINATOR, {"key_type": 0, "coordinator_keys": some}, lowest=_LAST_COORDINATOR_OF_ONE + 1
            )
            for found in (await self.ask(request)).coordinators:
                if not found.error_code:
                    self._coordinators[found.key] = Address(found.host, found.port)
        return {name: self._coordinators[name] for name in names if name in self._coordinators}

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

    async def ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Where logs end, whoever leads them; those that cannot be asked for now are left out."""
        by_leader: dict[int, dict[TopicPartition, int]] = {}
        for partition in partitions:
            by_leader.setdefault(self.leader(partition), {})[partition] = LATEST
        by_leader.pop(NO_LEADER, None)
        # All at once: a broker that hangs must not hold up what others say.
        answers = await asyncio.gather(*map(self._ends_at_leader, by_leader.values()))
        return {partition: end for ends in answers for partition, end in ends.items()}

    async def _ends_at_leader(self, wanted: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        """What one leader says of its partitions; nothing if it cannot be asked."""
        try:
            answer = await self.ask_leader(next(iter(wanted)), list_offsets_request(wanted, isolation_level=0))
        except MillstreamError as error:
            logger.debug("where %d partition(s) end at %s is not known for now: %s", len(wanted), self, error)
            return {}
        return {partition: offset.offset for partition, error_code, offset in read_list_offsets(answer) if not error_code}

    async def ask_at(self, address: Address, request: Request[T]) -> T:
        """Ask this broker."""
        connection = await self._connection(address, "")
        # Shielded: whoever is cancelled must not end the connection that others use; the answer is dropped when it comes.
        return await asyncio.shield(connection.send(request))

    async def _connection(self, address: Address, purpose: str) -> AsyncConnection:
        """The open connection, or a new one. Whoever asks while it is being opened gets the same, and the same error."""
        key = (address, purpose)
        connection = self._connections.get(key)
        if connection is not None and not connection.is_closed:
            return connection
        error, until = self._unreachable.get(key, (None, 0.0))
        if error is not None and asyncio.get_running_loop().time() < until:
            raise error
        if key not in self._opening:
            self._opening[key] = asyncio.ensure_future(self._open(key))
        return await asyncio.shield(self._opening[key])

    async def _open(self, key: _Key) -> AsyncConnection:
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            connection = self._connections[key] = await self._open_connection(key[0])
            self._unreachable.pop(key, None)
            return connection
        except MillstreamError as error:
            # A broker that does not answer costs a timeout once, and not once for each of a thousand partitions.
            self._unreachable[key] = error, loop.time() + min(loop.time() - began, _REMEMBERED_S)
            raise
        finally:
            del self._opening[key]


def secured_side(servers: str, security: ClientSecurity, *, timeout_s: float = TIMEOUT_S) -> Side:
    """A cluster that is reached with this security, and whose brokers are waited for at most so long."""
    return Side(servers, open_connection=opener(security, timeout_s=timeout_s))
