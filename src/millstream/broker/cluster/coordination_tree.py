"""The znodes a broker lives by: a tree of its own in one of its data directories, served to other processes too, or a real ZooKeeper's."""

import errno
import logging
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

from millstream.broker.cluster.patience import patiently
from millstream.broker.server_options import ServerOptions
from millstream.clock import Clock
from millstream.coordination import paths
from millstream.coordination.embedded import EmbeddedCoordination
from millstream.coordination.interface import Coordination, SessionState
from millstream.errors import StartupError, StorageError
from millstream.files import Files
from millstream.log.directories.directory import LogDirectory
from millstream.log.directories.known_directories import ZOOKEEPER
from millstream.log.directories.manager import LogManager
from millstream.options.settings import BrokerSettings

if TYPE_CHECKING:
    from millstream.zookeeper.server import CoordinationServer

logger = logging.getLogger(__name__)

DIRECTORY = "coordination"
OTHERS = stat.S_IRGRP | stat.S_IROTH


class CoordinationTree:
    """The broker's session in the tree: `async with CoordinationTree(...) as tree`."""

    session: Coordination

    def __init__(
        self,
        options: ServerOptions,
        logs: LogManager,
        *,
        settings: BrokerSettings,
        files: Files,
        clock: Clock,
        on_lost: Callable[[StorageError], None],
    ) -> None:
        self._options = options
        self._settings = settings
        self._logs = logs
        self._files = files
        self._clock = clock
        self._on_lost = on_lost
        self._directory: LogDirectory | None = None
        """The data directory that holds it; None in a real ZooKeeper."""
        self._server: CoordinationServer | None = None

    async def __aenter__(self) -> Self:
        options = self._options
        holders = [directory for directory in self._logs.online_directories if (directory.path / DIRECTORY).exists()]
        if options.zookeeper is None:
            self._directory = self._choose_directory(holders)
            path, name = self._directory.path / DIRECTORY, f"broker-{options.node_id}"
            self.session = await EmbeddedCoordination.open(path, files=self._files, clock=self._clock, broker_session_name=name)
        elif holders:
            advice = "give --data another directory, or leave --zookeeper out"
            raise StartupError(f"the topics in {holders[0].path} are known to its embedded coordination, not to a ZooKeeper; {advice}")
        else:
            from millstream.coordination.ensemble.kazoo_adapter import KazooCoordination  # kazoo takes time to import

            self.session = await KazooCoordination.connect(
                options.zookeeper,
                session_timeout_ms=self._settings.integer("zookeeper.session.timeout.ms"),
                connect_timeout_ms=self._settings.integer("zookeeper.connection.timeout.ms"),
                credentials=None if options.zookeeper_credentials is None else read_credentials(options.zookeeper_credentials),
                clock=self._clock,
            )
            await self._check_cluster(options.zookeeper)
        self.session.add_session_listener(self._session_changed)
        return self

    async def _check_cluster(self, zookeeper: str) -> None:
        """Refuse a place where there is no cluster to data that belongs to one, as Kafka does: all its logs would belong to no topic."""
        cluster_id, patience_ms = self._logs.cluster_id, self._settings.integer("zookeeper.connection.timeout.ms")
        try:
            if cluster_id is not None and await patiently(partial(self.session.exists, paths.CLUSTER_ID), timeout_ms=patience_ms) is None:
                advice = "is the path after the addresses right? If ZooKeeper has lost its data, restore it"
                raise StartupError(
                    f"the data in {self._options.data[0]} belongs to cluster {cluster_id}, and at {zookeeper} is none; {advice}"
                )
        except BaseException:
            await self.session.close()
            raise

    async def __aexit__(self, *_: object) -> None:
        await self.session.close()

    @property
    def holder(self) -> str:
        """Where the tree is, as data directories remember it."""
        return ZOOKEEPER if self._directory is None else self._directory.id_text

    async def serve(self, *, max_connections: int) -> tuple[str, int]:
        """Let other processes use an embedded tree, on the address that was chosen or a free port; returns the address."""
        port = self._options.coordination_port
        if isinstance(self.session, EmbeddedCoordination):
            self._server, port = await serve_tree(self.session, self._options, max_connections=max_connections)
        return self._options.coordination_host, port

    async def stop_serving(self) -> None:
        """Let go of the other processes."""
        if self._server is not None:
            await self._server.close()

    def _choose_directory(self, holders: list[LogDirectory]) -> LogDirectory:
        """Which data directory holds the embedded tree: the one that always did, in whatever order they are given; at first, the first."""
        if len(holders) > 1:
            found = " and ".join(str(directory.path) for directory in holders)
            raise StartupError(f"there are coordination trees in {found}: move the one that is not this broker's elsewhere")
        known = self._logs.known.tree
        if known == ZOOKEEPER:
            given = self._options.data[0].absolute()
            if (given.parent / DIRECTORY).is_dir():
                raise StartupError(f"{given} belongs to one of several processes that share {given.parent}: give --data {given.parent}")
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

    def _session_changed(self, state: SessionState) -> None:
        # In a real ZooKeeper a session that is lost is followed by the next one; the embedded tree is lost with its disk.
        if self._directory is not None and state is SessionState.LOST:
            self._on_lost(StorageError(f"the coordination tree in {self._directory.path / DIRECTORY} failed"))


async def serve_tree(session: EmbeddedCoordination, options: ServerOptions, *, max_connections: int) -> "tuple[CoordinationServer, int]":
    """Let other processes use the tree, on the address that was chosen or, if that may be, a free port; returns the port, too."""
    from millstream.zookeeper.server import CoordinationServer

    host, port = options.coordination_host, options.coordination_port
    server = CoordinationServer(session.keeper, max_connections=max_connections)
    try:
        return server, await server.start(host, port)
    except OSError as error:
        if error.errno != errno.EADDRINUSE or options.coordination_port_required:
            reason = f"{error.strerror or error}; choose another address with --coordination"
            raise StartupError(f"the coordination cannot listen on {host}:{port}: {reason}") from None
        return server, await server.start(host, 0)


def read_credentials(path: Path) -> str:
    """The `user:password` in a file; StartupError says what is wrong with it, and never what is in it."""
    try:
        text = path.read_text(encoding="utf-8").strip()
        mode = path.stat().st_mode
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise StartupError(f"the credentials for ZooKeeper in {path} cannot be read: {reason}") from None
    user, colon, password = text.partition(":")
    if not user or not colon or not password or "\n" in text:
        raise StartupError(f"the file {path} must have one line, user:password, and has something else")
    if mode & OTHERS:
        logger.warning("the credentials in %s can be read by other users of this machine: chmod 600 %s", path, path)
    return text
