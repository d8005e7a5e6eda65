"""A broker as a member of its cluster: it announces itself, follows what the cluster decides, and stands for election as controller."""

import logging
import socket
from collections.abc import Callable

from millstream.broker.cluster.coordination_tree import CoordinationTree
from millstream.broker.cluster.live_settings import LiveSettings
from millstream.broker.cluster.registration import Registration, prepare_tree, recall_directories, remember_directories
from millstream.broker.cluster.topic_creation import TopicCreation
from millstream.broker.server_options import ServerOptions
from millstream.cluster.controller import Controller
from millstream.cluster.layout_conversion import convert_layout
from millstream.cluster.metadata_writer import MetadataWriter
from millstream.coordination.cluster_view import BrokerState, ClusterView
from millstream.coordination.cluster_watcher import ClusterWatcher, ViewListener
from millstream.coordination.election import ControllerElection
from millstream.log.directories.manager import LogManager

logger = logging.getLogger(__name__)

WILDCARDS = ("0.0.0.0", "::", "")  # noqa: S104 -- to recognise them, not to listen on them


class ClusterMembership:
    """One broker's place in the cluster, from `join` to `leave`."""

    registration: Registration

    def __init__(
        self,
        options: ServerOptions,
        tree: CoordinationTree,
        *,
        settings: LiveSettings,
        max_partitions: Callable[[], int],
        on_change: ViewListener,
    ) -> None:
        self._options = options
        self._tree = tree
        self._settings = settings
        self._election = ControllerElection(
            tree.session, broker_id=options.node_id, on_elected=lambda _claim: None, on_resigned=lambda: None
        )
        self.watcher = ClusterWatcher(tree.session, on_change=on_change)
        self.writer = MetadataWriter(tree.session, self.watcher, claim=lambda: self._election.claim)
        self.controller = Controller(tree.session, self.watcher, self.writer)
        self.creation = TopicCreation(self.controller, settings, max_partitions_in_all=max_partitions)

    def view(self) -> ClusterView:
        """The cluster as this broker sees it now."""
        return self.watcher.view

    async def join(self, logs: LogManager, *, listen: tuple[str, int]) -> None:
        """Announce the broker at the address it listens on, make sure of its data directories, and take over the first view."""
        options, session = self._options, self._tree.session
        cluster_id = await prepare_tree(session, cluster_id=logs.cluster_id)
        advertised = options.advertise or (_advertised_host(listen[0]), listen[1])
        self._settings.know(options.facts(listen=listen, advertise=advertised))
        announced = BrokerState(options.node_id, *advertised, self._settings.current.text("broker.rack"))
        self.registration = Registration(session, announced)
        await self.registration.register()
        # Before that it would be another broker of our number whose directories are missing here.
        logs.recall(await recall_directories(session, options.node_id))
        logs.identify(node_id=options.node_id, cluster_id=cluster_id)
        await remember_directories(session, options.node_id, logs.remember(tree=self._tree.holder))
        await self._election.start()
        if self._election.claim is not None:
            await convert_layout(session, self.writer)
        await self.watcher.load()

    async def leave(self) -> None:
        """Stand for election no longer; the registration goes with the session."""
        await self._election.stop()


def _advertised_host(listen_host: str) -> str:
    if listen_host not in WILDCARDS:
        return listen_host
    host = socket.gethostname()
    logger.warning("listening on all addresses and advertising %s: give --advertise HOST:PORT if clients cannot resolve that name", host)
    return host
