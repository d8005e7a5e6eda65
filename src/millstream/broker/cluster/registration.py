"""A broker's place in the tree: the cluster it belongs to, its address, and the data directories it has."""

import asyncio
import base64
import logging
import uuid
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from millstream.address import Address
from millstream.cluster.controller.layout_conversion import LAYOUT
from millstream.coordination import paths
from millstream.coordination.cluster_view import BrokerState, decode_cluster_id
from millstream.coordination.interface import Coordination, Create, Delete, SessionState, WatchEvent, ZnodeStat
from millstream.errors import StartupError
from millstream.log.directories.known_directories import KnownDirectories
from millstream.zookeeper.errors import BadVersion, NodeExists, NoNode, ZooKeeperError

logger = logging.getLogger(__name__)

FORMER_LIFE_S: Final = 24.0
"""Longer than the session of a broker in ZooKeeper, which is 18 s where nothing else was chosen."""
OWN_FORMER_LIFE_S: Final = 150.0
"""A broker at this one's own address is certainly a former life of it; its session may be as long as an operator likes."""
LOOK_S: Final = 5.0
RETRY_S: Final = 1.0
NO_EPOCH: Final = -1


async def prepare_tree(coordination: Coordination, *, cluster_id: str | None) -> str:
    """Make the persistent parents and the cluster id, whoever comes first; returns the cluster id."""
    contents = {paths.TOPICS: LAYOUT, paths.CLUSTER_ID: (cluster_id or new_cluster_id()).encode()}
    wanted = dict.fromkeys(paths.PERSISTENT_PARENTS, b"") | contents
    missing = [Create(path, data) for path, data in wanted.items() if await coordination.exists(path) is None]
    try:
        if missing:
            await coordination.multi(missing)
    except NodeExists:
        for path, data in wanted.items():  # another broker makes them at the same time
            await _create_if_missing(coordination, path, data)
    data, _ = await coordination.get(paths.CLUSTER_ID)
    try:
        return decode_cluster_id(data)
    except ValueError as error:
        raise StartupError(f"the znode {paths.CLUSTER_ID} makes no sense: {error}; put back the cluster.id of meta.properties") from None


class Registration:
    """A broker's znode, held for as long as the broker runs: a session that ends takes it away, the next one brings it back.

    Each znode is a life of its own, with the transaction that created it as its number (the broker epoch). It says which life before it
    lost nothing, so that the broker stays in the in-sync sets: one that this process itself lived, or the one that the marker of the last
    clean stop names. Of these it is the one that the controller has dealt with last (`/brokers/epochs/<id>`): another says nothing to it.

    A broker that starts first takes its number (`claim`), and nothing else: opening its logs may take minutes after a crash, and meanwhile
    nothing is to be led by it that others can lead. With its logs open it registers: that is where its life begins.

    A life ends, too, when a disk does not work any more (`lost_data`): the broker begins the next one at once, and leaves the in-sync sets
    by that. So others lead what it cannot, and it comes back into the sets of the partitions that it still has.

    After the start no failure of it ends the broker: it serves what it has, and tries again when the connection is back, or after a while.
    The znode of a life that was killed is removed: the locks of the data directories say that it is dead, and a restart within the session
    timeout does not wait for it. A znode that was removed or written to by hand comes back too: without it clients find
    no broker.
    """

    def __init__(self, coordination: Coordination, broker: BrokerState, *, clean_epoch: int = NO_EPOCH) -> None:
        self.epoch = NO_EPOCH
        """The number of the present life; -1 while the broker is not registered in its present session."""
        self.last_epoch = clean_epoch
        """The number of the present or last life: what the marker of a clean stop names."""
        self._coordination = coordination
        self._broker = broker
        self._survived = {clean_epoch} - {NO_EPOCH}
        """Lives of which nothing is lost."""
        self._lost_epoch = NO_EPOCH
        """The life in which data was lost."""
        self._losses = 0
        self._is_starting = False
        self._claimed = NO_EPOCH
        """The znode by which the number was taken before the logs were open."""
        self._wake = asyncio.Event()
        coordination.add_session_listener(self._session_changed)

    def lost_data(self) -> None:
        """Not all that this broker has written is there any more: begin a new life, as if it had been killed and had come back."""
        logger.warning("this broker leaves all in-sync sets and registers anew, so that others lead what it has lost")
        self._lost_epoch = self.last_epoch
        self._losses += 1
        self._survived.clear()
        self.epoch = NO_EPOCH
        self._wake.set()

    async def claim(self) -> None:
        """Take the number of the broker, before it can serve; StartupError as below."""
        self._is_starting = True
        await self._hold()

    async def register(self) -> None:
        """Announce the broker; StartupError if another one has its number for longer than a session lasts."""
        self._is_starting = False
        await self._hold()

    async def _hold(self) -> None:
        path, loop = paths.broker(self._broker.node_id), asyncio.get_running_loop()
        begun, is_waiting = loop.time(), False
        while True:
            session_id = self._coordination.session_id
            stat = await self._coordination.exists(path, watch=self._touched)
            if session_id != self._coordination.session_id:
                continue
            if stat is not None and stat.ephemeral_owner == session_id:
                if await self._is_held(path, stat):
                    return
                continue
            if stat is None:
                await self._announce(path)
                continue
            found = await self._read(path)
            if found is not None and self._broker.is_in_the_place_of(found):
                # A life that was killed, and whose session would go on for a while: it need not be waited for.
                await _remove_ephemerals(self._coordination, (paths.CONTROLLER, path), session_id=stat.ephemeral_owner)
                continue
            left_s = begun + self._patience_s(found) - loop.time()
            self._check_patience(found, left_s, is_waiting=is_waiting)
            is_waiting = True
            await _until_gone(self._coordination, path, timeout_s=min(left_s, LOOK_S))

    async def _is_held(self, path: str, stat: ZnodeStat) -> bool:
        """Whether the znode of this session is as it should be; one that is not is replaced or removed, and looked at again."""
        is_untouched = stat.czxid != self._lost_epoch and not stat.version
        if is_untouched and self._is_starting:
            self._claimed = stat.czxid
        elif is_untouched and stat.czxid != self._claimed:
            self._live(stat.czxid)
        elif stat.czxid == self._claimed:
            await self._announce(path, replaces=True)
            return False
        else:
            await self._coordination.delete(path)
            return False
        return True

    async def _announce(self, path: str, *, replaces: bool = False) -> None:
        self.epoch = NO_EPOCH
        losses = self._losses
        announced = self._broker._replace(previous_epoch=await self._life_before(), is_starting=self._is_starting)
        if replaces:
            # In one step: another broker that waits for the number does not get it in between.
            with suppress(NoNode, NodeExists):
                await self._coordination.multi([Delete(path), Create(path, announced.encode(), ephemeral=True)])
        else:
            await _create_if_missing(self._coordination, path, announced.encode(), ephemeral=True)
        if losses != self._losses:
            await self._coordination.delete(path)  # it says of a life that nothing of it was lost, and meanwhile it was

    def _patience_s(self, found: BrokerState | None) -> float:
        is_at_our_address = found is not None and (found.host, found.port) == (self._broker.host, self._broker.port)
        return OWN_FORMER_LIFE_S if is_at_our_address else FORMER_LIFE_S

    def _check_patience(self, found: BrokerState | None, left_s: float, *, is_waiting: bool) -> None:
        """Say, once, that another session has the number, and raise StartupError when it had it for too long."""
        number = self._broker.node_id
        where = "an address that makes no sense" if found is None else Address(found.host, found.port)
        if left_s <= 0:
            raise StartupError(f"another broker is registered as number {number}, at {where}: give this one another --node-id")
        if not is_waiting:
            logger.info("number %d is registered by another session, at %s; waiting for its end, at most %d s", number, where, left_s)

    async def _read(self, path: str) -> BrokerState | None:
        try:
            data, stat = await self._coordination.get(path)
            return BrokerState.decode(self._broker.node_id, data, epoch=stat.czxid)
        except (NoNode, ValueError):
            return None

    def _live(self, epoch: int) -> None:
        self.epoch = self.last_epoch = epoch
        self._survived.add(epoch)

    async def _life_before(self) -> int:
        """The life that the controller has dealt with last, if nothing of it is lost; -1 otherwise."""
        try:
            data, _ = await self._coordination.get(paths.broker_epoch(self._broker.node_id))
        except NoNode:
            return NO_EPOCH
        return int(data) if data.isdigit() and int(data) in self._survived else NO_EPOCH

    async def run(self) -> None:
        """Register again whenever a connection is back or the znode was touched, until cancelled."""
        warned = ""
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                await self.register()
                warned = ""
            except (ZooKeeperError, StartupError) as error:
                if str(error) != warned:
                    warned = str(error)
                    logger.warning("this broker is not registered for now, and tries again: %s", error)
                asyncio.get_running_loop().call_later(RETRY_S, self._wake.set)

    def _touched(self, _event: WatchEvent) -> None:
        self._wake.set()

    def _session_changed(self, state: SessionState) -> None:
        if state is SessionState.LOST:
            self.epoch = NO_EPOCH
        if state is SessionState.CONNECTED:
            self._wake.set()


async def recall_directories(coordination: Coordination, node_id: int) -> KnownDirectories:
    """What the tree remembers of the data directories of a broker; a znode that makes no sense remembers nothing."""
    path = paths.broker_directories(node_id)
    try:
        data, _ = await coordination.get(path)
        return KnownDirectories.decode(data)
    except NoNode:
        return KnownDirectories()
    except ValueError as error:
        logger.error("the znode %s makes no sense and is written anew: %s", path, error)
        return KnownDirectories()


async def remember_directories(coordination: Coordination, node_id: int, known: KnownDirectories) -> None:
    """Write down in the tree which data directories a broker has."""
    path = paths.broker_directories(node_id)
    await _create_if_missing(coordination, path, known.encode())
    data, _ = await coordination.get(path)
    if data != known.encode():
        await coordination.set(path, known.encode())


async def _until_gone(coordination: Coordination, path: str, *, timeout_s: float) -> None:
    """Wait until the session of a former life, which was killed, has ended; at most so long."""
    gone = asyncio.Event()
    if await coordination.exists(path, watch=lambda _event: gone.set()) is None:
        return
    try:
        async with asyncio.timeout(timeout_s):
            await gone.wait()
    except TimeoutError:
        return


def new_cluster_id() -> str:
    """A random id in the form of Kafka's: 22 characters."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


async def _remove_ephemerals(coordination: Coordination, candidates: Iterable[str], *, session_id: int) -> None:
    """Remove those of the znodes that the session owns."""
    for path in candidates:
        stat = await coordination.exists(path)
        if stat is not None and stat.ephemeral_owner == session_id:
            with suppress(NoNode, BadVersion):
                await coordination.delete(path, version=stat.version)


async def _create_if_missing(coordination: Coordination, path: str, data: bytes, *, ephemeral: bool = False) -> None:
    if await coordination.exists(path) is not None:
        return
    try:
        await coordination.create(path, data, ephemeral=ephemeral)
    except NodeExists:
        return
