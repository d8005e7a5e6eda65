"""The composition root: every object of a broker is made here, in reading order, and taken down in the opposite one.

Start: lock the data directories, open the tree, take the port, register, read the view, open the logs, listen. Stop: no more clients,
nothing under way, the registration and the tree closed, logs flushed and marked clean. A start that fails before the logs are open leaves
the data directories as it found them. There is no other way in which the parts find each other.
"""

import asyncio
import errno
import logging
import socket
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self
from uuid import UUID

from millstream.broker.cluster.config_resources import BrokerConfigs, TopicConfigs
from millstream.broker.cluster.live_settings import LiveSettings
from millstream.broker.cluster.logger_levels import LoggerLevels
from millstream.broker.cluster.registration import Registration, prepare_tree, recall_directories, remember_directories
from millstream.broker.cluster.topic_creation import TopicCreation
from millstream.broker.coordinators.group_configs import GroupConfigs
from millstream.broker.coordinators.group_settings import group_settings
from millstream.broker.coordinators.groups import Groups
from millstream.broker.handlers.api_versions import ApiVersionsFamily
from millstream.broker.handlers.configs import ConfigsFamily
from millstream.broker.handlers.coordinators import CoordinatorsFamily
from millstream.broker.handlers.fetch import FetchFamily
from millstream.broker.handlers.fetch_sessions import FetchSessions
from millstream.broker.handlers.group_admin import GroupAdminFamily
from millstream.broker.handlers.group_offsets import GroupOffsetsFamily
from millstream.broker.handlers.groups import GroupsFamily
from millstream.broker.handlers.leadership import LeadershipFamily
from millstream.broker.handlers.log_directories import LogDirectoriesFamily
from millstream.broker.handlers.metadata import MetadataFamily
from millstream.broker.handlers.offsets import OffsetsFamily
from millstream.broker.handlers.produce import ProduceFamily
from millstream.broker.handlers.producers import ProducersFamily
from millstream.broker.handlers.quorum import QuorumFamily
from millstream.broker.handlers.security import SecurityFamily
from millstream.broker.handlers.topics import TopicsFamily
from millstream.broker.network.descriptors import Descriptors, raise_descriptor_limit
from millstream.broker.network.listener import ConnectionLimits, Listener
from millstream.broker.network.region_loader import RegionLoader
from millstream.broker.network.router import Router
from millstream.broker.routes import bind
from millstream.broker.server_options import ServerOptions
from millstream.broker.storage.flusher import Flusher
from millstream.broker.storage.housekeeping import Housekeeping
from millstream.broker.storage.record_turns import RecordTurns
from millstream.clock import Clock, SystemClock
from millstream.cluster.controller import Controller
from millstream.cluster.replicas import Replicas
from millstream.coordination.cluster_view import BrokerState, ClusterView, TopicState
from millstream.coordination.cluster_watcher import ClusterWatcher
from millstream.coordination.election import ControllerElection
from millstream.coordination.embedded import EmbeddedCoordination
from millstream.coordination.interface import Coordination, SessionState
from millstream.errors import StartupError, StorageError
from millstream.files import Files
from millstream.log.directories.directory import LogDirectory
from millstream.log.directories.known_directories import ZOOKEEPER
from millstream.log.directories.manager import LogManager
from millstream.options.validation import check_startup_values
from millstream.transactions.producer_ids import ProducerIds
from millstream.zookeeper.keeper import TreeKeeper
from millstream.zookeeper.server import CoordinationServer

logger = logging.getLogger(__name__)

COORDINATION_DIRECTORY = "coordination"
DISK_THREADS = 4
READ_THREADS = 4
"""Cold reads have threads of their own: consumers that lag far behind do not hold up an fsync that producers wait for."""
UNKNOWN_ID = UUID(int=0)
SESSION_MIN_IDLE_MS = 120_000
HALF_FRAME_MS = 30_000
WILDCARDS = ("0.0.0.0", "::", "")  # noqa: S104 -- to recognise them, not to listen on them


class BrokerServer:
    """A broker in this process: `async with BrokerServer(options) as server`."""

    def __init__(self, options: ServerOptions, *, clock: Clock | None = None, files: Files | None = None) -> None:
        check_startup_values(options.options)
        self.address: tuple[str, int] = (options.listen_host, options.listen_port)
        self.coordination_address: tuple[str, int] = (options.coordination_host, options.coordination_port)
        self._options = options
        self._clock = clock or SystemClock()
        self._files = files or Files()
        self._settings = LiveSettings(options.options, node_id=options.node_id)
        self._group_settings = group_settings(self._settings.current)
        self._exit = AsyncExitStack()
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopped: asyncio.Future[None] | None = None
        self._advertised = self.address
        """Where clients are told to connect."""
        self._has_opened_logs = False
        self._keeper: TreeKeeper | None = None
        """The embedded tree; None where the coordination is a real ZooKeeper."""
        self._tree: LogDirectory | None = None
        """The data directory that holds it."""

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._stopped = self._loop.create_future()
        try:
            await self._start()
        except BaseException:
            await self._exit.aclose()
            raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self._exit.aclose()
        if self._stopped is not None and self._stopped.done():
            # Whether or not somebody asked why the broker could not go on: it is over.
            self._stopped.exception()

    async def stopped(self) -> None:
        """Wait until the broker cannot go on; raises why."""
        assert self._stopped is not None
        await asyncio.shield(self._stopped)

    async def _start(self) -> None:
        internal_partitions = self._settings.current.integer("offsets.topic.num.partitions")
        self._descriptors = Descriptors(raise_descriptor_limit(), internal_partitions)
        self._executor = ThreadPoolExecutor(DISK_THREADS, thread_name_prefix="disk")
        self._exit.callback(self._executor.shutdown)
        self._readers = ThreadPoolExecutor(READ_THREADS, thread_name_prefix="read")
        self._exit.callback(self._readers.shutdown)
        await self._open_storage()
        self._build_cluster()
        self._build_handlers()
        await self._join_cluster()
        self._spawn(self._watcher.run())
        self._spawn(self._registration.run())
        self._spawn(self._housekeeping.run())
        self._exit.push_async_callback(self._stop_tasks)
        self._exit.callback(self._housekeeping.forget)
        self._exit.callback(self._groups.close)
        await self._serve_coordination()
        self._listener.start()
        self._exit.callback(self._listener.close)

    async def _open_storage(self) -> None:
        options = self._options
        self._logs = LogManager(options.data, clock=self._clock, files=self._files, on_offline=self._on_offline)
        self._logs.start(node_id=options.node_id, cluster_id=None, forgotten=options.forget_directories)
        self._exit.callback(self._close_logs)
        self._coordination = await self._open_coordination()
        self._exit.push_async_callback(self._coordination.close)
        self._coordination.add_session_listener(self._session_changed)

    async def _open_coordination(self) -> Coordination:
        options = self._options
        holders = [directory for directory in self._logs.online_directories if (directory.path / COORDINATION_DIRECTORY).exists()]
        if options.zookeeper is not None:
            if holders:
                advice = "give --data another directory, or leave --zookeeper out"
                raise StartupError(f"the topics in {holders[0].path} are known to its embedded coordination, not to a ZooKeeper; {advice}")
            from millstream.coordination.kazoo_adapter import KazooCoordination  # not loaded where nobody needs it

            return await KazooCoordination.connect(options.zookeeper)
        self._tree = self._tree_directory(holders)
        embedded = await EmbeddedCoordination.open(
            self._tree.path / COORDINATION_DIRECTORY,
            files=self._files,
            clock=self._clock,
            broker_session_name=f"broker-{options.node_id}",
        )
        self._keeper = embedded.keeper
        return embedded

    def _tree_directory(self, holders: list[LogDirectory]) -> LogDirectory:
        """Which data directory holds the embedded tree: the one that always did, in whatever order they are given; at first, the first."""
        if len(holders) > 1:
            found = " and ".join(str(directory.path) for directory in holders)
            raise StartupError(f"there are coordination trees in {found}: move the one that is not this broker's elsewhere")
        known = self._logs.known.tree
        if known == ZOOKEEPER:
            advice = "give --zookeeper HOST:PORT, or --data another directory"
            raise StartupError(f"the topics in {self._options.data[0]} are known to a ZooKeeper; {advice}")
        if holders:
            return holders[0]
        if not known or known in self._options.forget_directories:
            first = self._logs.directories[0]
            if first.offline is not None:
                raise StartupError(f"{first.offline}; the first data directory has to work, it will hold the coordination tree")
            return first
        place = self._logs.known.paths.get(known, known)
        emptied = [directory for directory in self._logs.online_directories if directory.id_text == known]
        if not emptied:
            raise StartupError(f"the coordination tree is in {place}, which does not work: mend or restore it")
        logger.warning("the coordination tree was taken out of %s: it begins anew, and no topic is known", place)
        return emptied[0]

    def _build_cluster(self) -> None:
        clock, settings, node_id = self._clock, self._settings, self._options.node_id
        self._flusher = Flusher(self._executor, clock)
        self._replicas = Replicas(
            self._logs,
            node_id=node_id,
            log_config=settings.log_config,
            request_flush=self._flusher.request,
            remove_later=lambda path, delay_ms: self._housekeeping.remove_later(path, delay_ms),  # noqa: PLW0108 -- made below
        )
        self._housekeeping = Housekeeping(
            self._replicas,
            self._logs,
            flusher=self._flusher,
            settings=settings,
            clock=clock,
            executor=self._executor,
            spare_handles=self._descriptors.reserve // 2,
        )
        self._election = ControllerElection(self._coordination, broker_id=node_id, on_elected=lambda _claim: None, on_resigned=lambda: None)
        self._watcher = ClusterWatcher(self._coordination, on_change=self._view_changed)
        self._controller = Controller(self._coordination, self._watcher, claim=lambda: self._election.claim)
        self._creation = TopicCreation(self._controller, lambda: settings.current, max_partitions_in_all=self._max_partitions)
        self._groups = Groups(
            self._replicas,
            self._creation,
            settings=settings,
            group_settings=self._group_settings,
            clock=clock,
            executor=self._readers,
            spawn=self._spawn,
        )

    def _build_handlers(self) -> None:
        clock, settings, node_id = self._clock, self._settings, self._options.node_id
        controller, creation = self._controller, self._creation
        sessions = FetchSessions(
            max_sessions=settings.current.integer("max.incremental.fetch.session.cache.slots"),
            min_idle_ms=SESSION_MIN_IDLE_MS,
        )

        def view() -> ClusterView:
            return self._watcher.view

        families = (
            ProduceFamily(self._replicas, clock, turns=RecordTurns(self._readers), spawn=self._spawn),
            FetchFamily(
                self._replicas,
                sessions=sessions,
                loader=RegionLoader(self._readers),
                clock=clock,
                max_bytes=settings.current.integer("fetch.max.bytes"),
            ),
            OffsetsFamily(self._replicas, executor=self._readers),
            MetadataFamily(view, creation, create_offsets_topic=self._groups.create_topic),
            CoordinatorsFamily(view, self._groups, node_id=node_id),
            GroupsFamily(self._groups),
            GroupOffsetsFamily(self._groups),
            GroupAdminFamily(self._groups),
            ApiVersionsFamily(lambda: self._router.apis),
            TopicsFamily(controller, creation, lambda: settings.current),
            ProducersFamily(self._replicas, ProducerIds(self._coordination)),
            ConfigsFamily(
                topics=TopicConfigs(controller, settings),
                brokers=BrokerConfigs(controller, settings, node_id=node_id),
                loggers=LoggerLevels(view, node_id=node_id),
                groups=GroupConfigs(lambda: settings.current),
            ),
            LeadershipFamily(view),
            SecurityFamily(),
            QuorumFamily(view, self._coordination),
            LogDirectoriesFamily(self._logs, self._replicas),
        )
        self._router = Router(bind(families), spawn=self._spawn)
        self._listener = Listener(
            self._router, limits=_limits(settings), clock=clock, max_connections=lambda: self._descriptors.max_connections(len(self._logs))
        )

    def _max_partitions(self) -> int:
        return self._descriptors.max_partitions(len(self._listener.connections))

    async def _join_cluster(self) -> None:
        options = self._options
        cluster_id = await prepare_tree(self._coordination, cluster_id=self._logs.cluster_id)
        self.address = self._listener.bind(options.listen_host, options.listen_port)
        self._exit.callback(self._listener.close)
        self._advertised = options.advertise or (_advertised_host(self.address[0]), self.address[1])
        self._settings.know(options.facts(listen=self.address, advertise=self._advertised))
        self._registration = Registration(self._coordination, self._announced())
        await self._registration.register()
        # Before that it would be another broker of our number whose directories are missing here.
        self._logs.recall(await recall_directories(self._coordination, options.node_id))
        self._logs.identify(node_id=options.node_id, cluster_id=cluster_id)
        known = self._logs.remember(tree=ZOOKEEPER if self._tree is None else self._tree.id_text)
        await remember_directories(self._coordination, options.node_id, known)
        await self._election.start()
        self._exit.push_async_callback(self._election.stop)
        await self._watcher.load()

    def _announced(self) -> BrokerState:
        return BrokerState(self._options.node_id, *self._advertised, self._settings.current.text("broker.rack"))

    async def _serve_coordination(self) -> None:
        if self._keeper is None:
            return
        host, port = self.coordination_address
        server = CoordinationServer(self._keeper, max_connections=self._descriptors.coordination_clients)
        try:
            port = await server.start(host, port)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or self._options.coordination_port_required:
                reason = f"{error.strerror or error}; choose another address with --coordination"
                raise StartupError(f"the coordination cannot listen on {host}:{port}: {reason}") from None
            port = await server.start(host, 0)
        self._exit.push_async_callback(server.close)
        self.coordination_address = (host, port)

    async def _view_changed(self, view: ClusterView) -> None:
        self._settings.apply(view)
        self._listener.limits = _limits(self._settings)
        if not self._logs.is_loaded:
            self._load_logs(view)
        await self._replicas.apply(view)
        self._groups.apply(view)
        self._listener.renew_sessions()

    def _load_logs(self, view: ClusterView) -> None:
        report = self._logs.load(
            lambda topic: self._settings.log_config(view.topics.get(topic) or TopicState(topic, UNKNOWN_ID, ())),
            topic_ids={topic.name: topic.topic_id for topic in view.topics.values()},
            doubtful=view.unreadable_topics,
        )
        self._has_opened_logs = True
        self._tell_of_too_many_logs()
        for path in report.deleted:
            self._housekeeping.remove_later(path, 0)
        for path in report.strays:
            logger.warning("%s belongs to no topic that is known; it is kept as %s", path, self._logs.set_aside(path).name)

    def _tell_of_too_many_logs(self) -> None:
        room = self._descriptors.max_partitions(0) + self._descriptors.internal_partitions
        if len(self._logs) > room:
            logger.warning(
                "there are %d partitions here, and of %d file descriptors enough for %d of them to be written to: writes to the others "
                "will be refused, and connections too (raise `ulimit -n` and restart the broker)",
                len(self._logs),
                self._descriptors.limit,
                room,
            )

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._task_done)

    def _task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._fail(task.exception())

    async def _stop_tasks(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _fail(self, error: BaseException | None) -> None:
        if self._stopped is not None and not self._stopped.done() and error is not None:
            self._stopped.set_exception(error)

    def _on_offline(self, directory: LogDirectory, error: OSError) -> None:
        # A disk may fail in a thread (writing a checkpoint, making a log), but answers are sent by the loop alone.
        self._loop.call_soon_threadsafe(self._directory_failed, directory, error)

    def _directory_failed(self, directory: LogDirectory, error: OSError) -> None:
        if not self._has_opened_logs:
            # At the start nobody waits yet; whether it can go on is seen there.
            return
        failure = StorageError(f"log directory {directory.path} is offline: {error.strerror or error}")
        for partition in self._replicas:
            if partition.log.directory is directory:
                partition.fail_waiters(failure)
        self._groups.directory_failed(directory, failure)
        if not self._logs.online_directories:
            self._fail(failure)

    def _session_changed(self, state: SessionState) -> None:
        # In a real ZooKeeper a session that is lost is followed by the next one; the embedded tree is lost with its disk.
        if self._tree is not None and state is SessionState.LOST:
            self._fail(StorageError(f"the coordination tree in {self._tree.path / COORDINATION_DIRECTORY} failed"))

    def _close_logs(self) -> None:
        if not self._has_opened_logs:
            self._logs.leave_as_found()
            return
        self._logs.close(broker_epoch=self._registration.epoch, high_watermark_of=self._replicas.high_watermark_of)


def _limits(settings: LiveSettings) -> ConnectionLimits:
    current = settings.current
    return ConnectionLimits(
        max_frame_size=current.integer("socket.request.max.bytes"),
        max_connections=current.integer("max.connections"),
        max_connections_per_address=current.integer("max.connections.per.ip"),
        max_idle_ms=current.integer("connections.max.idle.ms"),
        max_half_frame_ms=HALF_FRAME_MS,
        max_held_bytes=current.integer("queued.max.request.bytes"),
    )


def _advertised_host(listen_host: str) -> str:
    if listen_host not in WILDCARDS:
        return listen_host
    host = socket.gethostname()
    logger.warning("listening on all addresses and advertising %s: give --advertise HOST:PORT if clients cannot resolve that name", host)
    return host
