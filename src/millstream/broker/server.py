"""The composition root: a broker is made here of its parts, in reading order, and taken down in the opposite one.

    broker.storage        data directories, logs, partitions
    broker.cluster        the tree of znodes, this broker's membership in the cluster, and connections to its other brokers
    broker.replication    what it copies from other leaders
    broker.transactions   the markers that end transactions
    broker.coordinators   groups and transactions
    broker.network        the router over all handlers (`broker.routes`), and the listener

Start: lock the data directories, open the tree, take the port and the number, read the view, open the logs, register, wait for the
controller, listen.
Stop: leadership handed over, no more clients, nothing under way, the registration and the tree closed, logs flushed and marked clean. A
start that fails before the logs are open leaves the data directories as it found them. There is no other way in which the parts find each
other.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterable, Sequence
from contextlib import AsyncExitStack
from typing import Self

from millstream.address import Address
from millstream.broker.cluster.coordination_tree import CoordinationTree
from millstream.broker.cluster.forwarding import RequestForwarding
from millstream.broker.cluster.live_settings import LiveSettings
from millstream.broker.cluster.membership import ClusterMembership
from millstream.broker.cluster.peers import Peers
from millstream.broker.cluster.topics_on_demand import TopicsOnDemand
from millstream.broker.coordinators.group_coordinator import GroupCoordinator, group_settings
from millstream.broker.coordinators.offset_transactions import OffsetTransactions
from millstream.broker.coordinators.offset_verification import OffsetVerification
from millstream.broker.coordinators.transaction_coordinator import TransactionCoordinator, transaction_settings
from millstream.broker.handlers.fetch.fetch_sessions import FetchSessions
from millstream.broker.network.api import Handler
from millstream.broker.network.connection import Connection
from millstream.broker.network.descriptors import Descriptors, raise_descriptor_limit
from millstream.broker.network.listener import ConnectionLimits, Listener
from millstream.broker.network.request_times import RequestTimes
from millstream.broker.network.router import CarriedOut, Router
from millstream.broker.network.session import Session
from millstream.broker.replication.replication import Replication
from millstream.broker.replication.replication_quotas import ReplicationQuotas
from millstream.broker.routes import make_handlers
from millstream.broker.server_options import ServerOptions
from millstream.broker.storage.storage import Storage
from millstream.broker.tasks import Tasks
from millstream.broker.transactions.marker_sender import MarkerSender
from millstream.broker.transactions.marker_writes import MarkerWrites
from millstream.broker.transactions.verification import TransactionVerification
from millstream.clock import Clock, SystemClock
from millstream.cluster.partition import Partition
from millstream.coordination.cluster_view import ClusterView
from millstream.errors import StorageError
from millstream.files import Files
from millstream.log.directories.directory import LogDirectory
from millstream.options.validation import check_startup_values
from millstream.transactions.producer_ids import ProducerIds


class BrokerServer:
    """A broker in this process: `async with BrokerServer(options) as server`."""

    def __init__(self, options: ServerOptions, *, clock: Clock | None = None, files: Files | None = None) -> None:
        check_startup_values(options.options)
        self.address: tuple[str, int] = (options.listen_host, options.listen_port)
        self.own_addresses: Sequence[Address] = ()
        """Of a broker in this process there is one address, and it is `address`."""
        self.coordination_address: tuple[str, int] = (options.coordination_host, options.coordination_port)
        self._options = options
        self._clock = clock or SystemClock()
        self._files = files or Files()
        self._settings = LiveSettings(options.options, node_id=options.node_id)
        self._group_settings = group_settings(self._settings.current)
        self._transaction_settings = transaction_settings(self._settings.current)
        self._exit = AsyncExitStack()
        self._awaited_topics: list[tuple[str, asyncio.Future[None]]] = []

    async def __aenter__(self) -> Self:
        async with self._exit:
            self._tasks = Tasks()
            await self._open_storage()
            self._build()
            await self._start()
            self._exit = self._exit.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._exit.aclose()

    async def stopped(self) -> None:
        """Wait until the broker cannot go on; raises why."""
        await self._tasks.failed()

    async def topic_exists(self, name: str) -> None:
        """Wait until there is a topic of this name."""
        if name not in self._cluster.view().topics:
            appeared = asyncio.get_running_loop().create_future()
            self._awaited_topics.append((name, appeared))
            await appeared

    async def brokers_are_known(self, count: int) -> None:
        """Wait until clients are told here of so many brokers, each with what it leads."""
        await self._cluster.brokers_are_known(count)

    def sample(self) -> AsyncIterator[bytes]:
        """All that is published about this broker, as it is now, in parts."""
        from millstream.broker.metrics.sampler import Sampler  # many brokers are never asked

        parts = self._storage, self._listener, self._groups, self._cluster, self._fetch_sessions
        return Sampler(
            *parts,
            quotas=self._quotas,
            waiting_markers=self._transactions.markers,
            node_id=self._options.node_id,
            has_lease=self._has_lease,
        ).parts()

    async def _open_storage(self) -> None:
        self._descriptors = Descriptors(raise_descriptor_limit(), self._settings.current.integer("offsets.topic.num.partitions"))
        self._files.first_spare = self._descriptors.first_spare
        self._storage = await self._exit.enter_async_context(
            Storage(
                self._options,
                settings=self._settings,
                descriptors=self._descriptors,
                clock=self._clock,
                files=self._files,
                broker_epoch=lambda: self._cluster.registration.last_epoch,
                life=lambda: self._cluster.registration.epoch,
                has_lease=self._has_lease,
                in_sync_change_wanted=lambda partition: self._replication.in_sync_change_wanted(partition),  # noqa: PLW0108 -- made below
                resign=lambda partition: self._replication.resign(partition),  # noqa: PLW0108 -- made below
                on_follow=self._roles_changed,
                on_directory_failed=self._directory_failed,
            )
        )
        tree = CoordinationTree(
            self._options,
            self._storage.logs,
            settings=self._settings.current,
            files=self._files,
            clock=self._clock,
            on_lost=self._tasks.fail,
        )
        self._tree = await self._exit.enter_async_context(tree)

    def _build(self) -> None:
        storage, settings, clock, spawn = self._storage, self._settings, self._clock, self._tasks.spawn
        self._cluster = ClusterMembership(
            self._options,
            self._tree,
            settings=settings,
            max_partitions=lambda: self._descriptors.max_partitions(len(self._listener.connections)),
            on_change=self._view_changed,
            on_shown=self._view_shown,
            unopened=lambda: storage.replicas.shown_partitions,
        )
        self._forwarding = forwarding = RequestForwarding(
            self._cluster.watcher,
            self._carry_out,
            node_id=self._options.node_id,
            broker_epoch=self._cluster.broker_epoch,
            new_peers=lambda: Peers(view=self._cluster.view, client_id=f"broker-{self._options.node_id}-forwarding"),
        )
        on_demand = TopicsOnDemand(forwarding, self._cluster.watcher, settings=settings)
        self._quotas = ReplicationQuotas(clock)
        self._replication = Replication(
            storage.replicas,
            self._cluster.channel,
            node_id=self._options.node_id,
            broker_epoch=self._cluster.broker_epoch,
            view=self._cluster.newest_view,
            settings=settings,
            clock=clock,
            quotas=self._quotas,
            spawn=spawn,
        )
        self._groups = GroupCoordinator(
            storage.replicas,
            on_demand,
            settings=settings,
            group_settings=self._group_settings,
            clock=clock,
            executor=storage.read_threads,
            spawn=spawn,
        )
        self._build_transactions(on_demand)
        self._fetch_sessions = fetch_sessions = FetchSessions(
            max_sessions=settings.current.integer("max.incremental.fetch.session.cache.slots")
        )
        handlers = make_handlers(
            storage,
            self._tree.session,
            self._cluster,
            self._groups,
            on_demand,
            marker_writes=self._marker_writes,
            transactions=self._transactions,
            producer_ids=self._producer_ids,
            offset_transactions=self._offset_transactions,
            verification=self._verification,
            forwarding=forwarding,
            carry_out=self._carry_out,
            fetch_sessions=fetch_sessions,
            quotas=self._quotas,
            settings=settings,
            clock=clock,
            spawn=spawn,
            node_id=self._options.node_id,
        )
        self._router = self._make_router(handlers)
        self._listener = self._make_listener()

    def _build_transactions(self, on_demand: TopicsOnDemand) -> None:
        self._verification = self._make_verification()
        self._offset_transactions = OffsetTransactions(self._groups, OffsetVerification(self._verification))
        self._producer_ids = ProducerIds(self._tree.session)
        self._marker_writes = MarkerWrites(self._storage.replicas, self._clock, offsets=self._offset_transactions)
        node_id, view, spawn = self._options.node_id, self._cluster.newest_view, self._tasks.spawn
        peers = Peers(view=view, client_id=f"broker-{node_id}-transactions")
        self._transactions = TransactionCoordinator(
            self._storage.replicas,
            on_demand,
            self._producer_ids,
            MarkerSender(node_id=node_id, view=view, peers=peers, writes=self._marker_writes, spawn=spawn),
            settings=self._settings,
            transaction_settings=self._transaction_settings,
            clock=self._clock,
            executor=self._storage.read_threads,
            spawn=spawn,
        )

    def _make_verification(self) -> TransactionVerification:
        node_id, view = self._options.node_id, self._cluster.view

        def coordinator_of(transactional_id: str) -> int:
            return self._transactions.topic.coordinator_of(transactional_id, view(), node_id=node_id).node_id

        return TransactionVerification(
            node_id=node_id,
            coordinator_of=coordinator_of,
            ask_own=lambda question, done: self._transactions.add_partitions(question, done),  # noqa: PLW0108 -- made later
            is_part=lambda *asked: self._transactions.is_part(*asked),  # noqa: PLW0108 -- made later
            peers=Peers(view=view, client_id=f"broker-{node_id}-verification"),
            settings=self._settings,
            spawn=self._tasks.spawn,
        )

    def _make_router(self, handlers: Iterable[Handler]) -> Router:
        return Router(handlers, spawn=self._tasks.spawn, forward=self._forwarding.forward)

    def _make_listener(self) -> Listener:
        return Listener(
            self._router,
            limits=ConnectionLimits.of(self._settings.current),
            clock=self._clock,
            times=RequestTimes(slow_ms=self._options.slow_request_ms),
            max_connections=lambda: self._descriptors.max_connections(len(self._storage.logs)),
        )

    async def _start(self) -> None:
        at_stop, spawn = self._exit, self._tasks.spawn
        self.address = self._listener.bind(*self.address, shared=self._options.bootstrap)
        at_stop.callback(self._listener.close)
        at_stop.push_async_callback(self._cluster.leave)
        at_stop.callback(self._forwarding.close)
        at_stop.push_async_callback(self._tasks.stop)
        at_stop.callback(self._replication.close)
        at_stop.callback(self._storage.housekeeping.forget)
        at_stop.callback(self._groups.runtime.close)
        at_stop.callback(self._transactions.close)
        at_stop.callback(self._verification.close)
        await self._cluster.join(self._storage.logs, listen=self.address)
        await self._cluster.begin(spawn)
        spawn(self._storage.housekeeping.run())
        if self._storage.moves is not None:
            spawn(self._storage.moves.run())
        self._replication.start()
        self.coordination_address = await self._tree.serve(max_connections=self._descriptors.coordination_clients)
        at_stop.push_async_callback(self._tree.stop_serving)
        self._listener.start()
        at_stop.callback(self._listener.close)  # above it is for a start that fails
        at_stop.push_async_callback(self._cluster.hand_over)  # the first: clients are served meanwhile

    def _has_lease(self) -> bool:
        return self._tree.session.has_lease

    def _carry_out(self, connection: Connection, client: Session, frame: bytes) -> Awaitable[CarriedOut]:
        return self._router.carry_out(connection, client, frame)

    def _roles_changed(self, partitions: Iterable[Partition]) -> None:
        partitions = list(partitions)
        self._groups.runtime.roles_changed(partitions)
        self._transactions.runtime.roles_changed(partitions)
        self._replication.roles_changed(partitions)

    async def _view_changed(self, view: ClusterView) -> None:
        """Every part follows a new view, in this order, before clients see it."""
        self._settings.apply(view)
        self._listener.limits = ConnectionLimits.of(self._settings.current)
        await self._storage.apply(view)
        self._replication.settings_changed()
        if self._storage.replicas.shown_partitions:
            self._tasks.spawn(self._storage.open_logs(self._cluster.watcher.show))

    def _view_shown(self, view: ClusterView) -> None:
        """Groups and clients see what can be served of a view."""
        self._groups.apply(view)
        self._transactions.apply(view)
        self._listener.renew_sessions()
        for name, appeared in self._awaited_topics:
            if name in view.topics and not appeared.done():
                appeared.set_result(None)

    def _directory_failed(self, directory: LogDirectory, failure: StorageError) -> None:
        self._groups.runtime.directory_failed(directory, failure)
        self._transactions.runtime.directory_failed(directory, failure)
        self._replication.directory_failed(directory)
        if not self._storage.logs.online_directories:
            self._tasks.fail(failure)
        elif self._storage.replicas.has_copies_elsewhere(directory):
            self._cluster.registration.lost_data()
