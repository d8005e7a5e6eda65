"""A broker as a member of its cluster: it announces itself, follows what the cluster decides, and stands for election as controller."""

import logging
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from millstream.address import WILDCARDS, Address
from millstream.broker.cluster.active_controller import ActiveController
from millstream.broker.cluster.controlled_tree import ControlledTree
from millstream.broker.cluster.controller_channel import ControllerChannel
from millstream.broker.cluster.controller_requests import ControllerRequests
from millstream.broker.cluster.coordination_tree import CoordinationTree
from millstream.broker.cluster.live_settings import LiveSettings
from millstream.broker.cluster.patience import patiently
from millstream.broker.cluster.peers import Peers
from millstream.broker.cluster.registration import Registration, prepare_tree, recall_directories, remember_directories
from millstream.broker.cluster.topic_creation import TopicCreation
from millstream.broker.server_options import ServerOptions
from millstream.broker.tasks import Spawn
from millstream.cluster.controller.controller import Controller
from millstream.cluster.controller.layout_conversion import convert_layout, has_old_topics
from millstream.cluster.controller.metadata_writer import MetadataWriter
from millstream.coordination.cluster_view import BrokerState, ClusterView
from millstream.coordination.cluster_watcher import ClusterWatcher, PartitionCounts, ShownListener, ViewListener
from millstream.coordination.election import ControllerElection
from millstream.coordination.interface import SessionState
from millstream.coordination.topic_names import OFFSETS_TOPIC, SCHEMAS_TOPIC, TRANSACTIONS_TOPIC
from millstream.errors import NotController
from millstream.log.directories.manager import LogManager

logger = logging.getLogger(__name__)

NO_CONTROLLER: Final = -1
LONG_WAIT_MS: Final = 3_600_000
WELCOME_MS: Final = 5_000
"""How long a broker that starts waits for the controller to deal with it before it serves clients all the same."""
BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
OWN_REPLICATION: Final = 3
"""Replicas of topics that the cluster itself lives by, where no option says how many."""


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
        on_shown: ShownListener,
        unopened: PartitionCounts,
    ) -> None:
        session = tree.session
        self._options = options
        self._tree = tree
        self._settings = settings
        self._on_change = on_change
        self._controller_id = NO_CONTROLLER
        self.watcher = ClusterWatcher(session, on_change=self._view_changed, on_shown=on_shown, unopened=unopened)
        self.writer = MetadataWriter(session, self.watcher, claim=lambda: self._election.claim)
        self.controller = Controller(session, self.watcher, self.writer)
        self.creation = TopicCreation(self.controller, settings, max_partitions_in_all=max_partitions)
        self.active = ActiveController(
            ControlledTree(session, self.watcher, self.writer, self.controller),
            rules=settings.election_rules,
            own_topics=self._own_topics,
            doubt=lambda: self._election.doubt(),  # noqa: PLW0108 -- made below
        )
        self._election = ControllerElection(
            session, broker_id=options.node_id, on_elected=self.active.elected, on_resigned=self.active.resigned
        )
        self.requests = ControllerRequests(self.active, view=self.newest_view)
        self._peers = Peers(view=self.view, client_id=f"broker-{options.node_id}")
        self.channel = ControllerChannel(
            self._peers, node_id=options.node_id, view=self.view, until=self.watcher.until, local=self.requests.carry_out
        )
        session.add_session_listener(self._session_changed)

    def view(self) -> ClusterView:
        """The cluster as this broker shows it to clients."""
        return self.watcher.view

    def newest_view(self) -> ClusterView:
        """The cluster as this broker knows it, with topics whose logs it has not opened yet: others may have, and speak of them."""
        return self.watcher.newest

    def broker_epoch(self) -> int:
        """The number of the broker's present life; -1 while it is not registered."""
        return self.registration.epoch

    async def join(self, logs: LogManager, *, listen: tuple[str, int]) -> None:
        """Take the number, make sure of the data directories, take over the first view, and announce the broker where it listens."""
        options, session = self._options, self._tree.session
        attempt = partial(patiently, timeout_ms=self._settings.current.integer("zookeeper.connection.timeout.ms"))
        cluster_id = await attempt(partial(prepare_tree, session, cluster_id=logs.cluster_id))
        advertised = options.advertise or (_advertised_host(listen[0]), listen[1])
        self._settings.know(options.facts(listen=listen, advertise=advertised))
        announced = BrokerState(
            options.node_id,
            *advertised,
            self._settings.current.text("broker.rack"),
            home=_home(logs),
            # What clients connect to may lead here only from outside, as the ports of a container do.
            inter_broker=None if options.bootstrap is None else Address(*listen).on_this_machine,
        )
        self.registration = Registration(session, announced, clean_epoch=logs.previous_broker_epoch)
        await attempt(self.registration.claim)
        # Before that it would be another broker of our number whose directories are missing here.
        logs.recall(await attempt(partial(recall_directories, session, options.node_id)))
        logs.identify(node_id=options.node_id, cluster_id=cluster_id)
        await attempt(partial(remember_directories, session, options.node_id, logs.remember(tree=self._tree.holder)))
        has_old = await attempt(partial(has_old_topics, session))
        if has_old:
            await attempt(self._election.start)
            await attempt(self._convert_old_topics)
        # Opening the logs may take minutes after a crash: a controller that is busy with it would keep the others from being elected.
        await attempt(self.watcher.load)
        await attempt(self.registration.register)
        if not has_old:
            await attempt(self._election.start)

    async def _convert_old_topics(self) -> None:
        if self._election.claim is not None:
            with suppress(NotController):  # another broker has been elected, and converts it
                await convert_layout(self._tree.session, self.writer)

    async def begin(self, spawn: Spawn) -> None:
        """Follow the cluster from here on; returns when the controller has dealt with this broker, so that it leads what it should."""
        spawn(self.watcher.run())
        spawn(self.registration.run())
        spawn(self.active.run())
        if self._settings.current.boolean("auto.leader.rebalance.enable"):
            interval_s = self._settings.current.integer("leader.imbalance.check.interval.seconds")
            spawn(self.active.balance_leaders(interval_s=interval_s))
        if not await self.watcher.until(self._is_dealt_with, timeout_ms=WELCOME_MS):
            logger.warning("the controller, broker %d, has not dealt with this broker yet: it leads nothing", self.view().controller_id)

    def _is_dealt_with(self, view: ClusterView) -> bool:
        return view.lives.get(self._options.node_id) == self.registration.epoch

    async def brokers_are_known(self, count: int) -> None:
        """Wait until so many brokers are in the view, and the controller has dealt with each of them."""

        def are_known(view: ClusterView) -> bool:
            return len(view.brokers) >= count and all(view.lives.get(number) == broker.epoch for number, broker in view.brokers.items())

        while not await self.watcher.until(are_known, timeout_ms=LONG_WAIT_MS):
            continue

    async def hand_over(self) -> None:
        """Let others lead what this broker leads, while it goes on serving."""
        if self._settings.current.boolean("controlled.shutdown.enable"):
            from millstream.broker.cluster.controlled_shutdown import hand_over_leadership  # a start is quicker without it

            await hand_over_leadership(
                self.channel, node_id=self._options.node_id, broker_epoch=self.broker_epoch, view=self.view, until=self.watcher.until
            )

    async def leave(self) -> None:
        """Stand for election no longer; the registration goes with the session."""
        self._peers.close()
        await self._election.stop()

    async def _view_changed(self, view: ClusterView) -> None:
        # The controller first: it does not wait until logs are open.
        self.active.view_changed(view)
        self._note_controller(view.controller_id)
        await self._on_change(view)

    def _note_controller(self, controller_id: int) -> None:
        """A line when the controller is another one; the broker that is elected says so itself."""
        former, self._controller_id = self._controller_id, controller_id
        if controller_id not in (former, self._options.node_id):
            logger.info("%s the controller", "no broker is" if controller_id == NO_CONTROLLER else f"broker {controller_id} is")

    def _session_changed(self, state: SessionState) -> None:
        if state is SessionState.CONNECTED:
            self.active.connection_is_back()

    def _own_topics(self) -> Mapping[str, int]:
        settings = self._settings.current
        return {
            OFFSETS_TOPIC: settings.integer("offsets.topic.replication.factor"),
            TRANSACTIONS_TOPIC: settings.integer("transaction.state.log.replication.factor"),
            # Brokers in processes of one machine share its disks and its fate: a second copy there protects nothing.
            SCHEMAS_TOPIC: OWN_REPLICATION if self._options.bootstrap is None else 1,
        }


def _home(logs: LogManager) -> str:
    """What `BrokerState.home` says of this broker; nothing where the boots of the machine cannot be told apart."""
    try:
        boot = BOOT_ID.read_text().strip()
    except OSError:
        return ""
    return " ".join([boot, *(directory.id_text for directory in logs.online_directories)])


def _advertised_host(listen_host: str) -> str:
    if listen_host not in WILDCARDS:
        return listen_host
    host = socket.gethostname()
    logger.warning("listening on all addresses and advertising %s: give --advertise HOST:PORT if clients cannot resolve that name", host)
    return host
