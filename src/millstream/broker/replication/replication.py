"""This broker's part in replication: it fetches what it follows, and asks for the in-sync sets of what it leads."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from millstream.broker.cluster.controller_channel import ControllerChannel
from millstream.broker.cluster.live_settings import LiveSettings
from millstream.broker.cluster.peers import Peers
from millstream.broker.replication.in_sync_changes import InSyncChanges
from millstream.broker.replication.replication_quotas import ReplicationQuotas
from millstream.broker.tasks import Spawn
from millstream.clock import Clock
from millstream.cluster.partition import Partition
from millstream.cluster.replicas import Replicas
from millstream.coordination.cluster_view import ClusterView
from millstream.log.directories.directory import LogDirectory

if TYPE_CHECKING:
    from millstream.broker.replication.fetchers import Fetchers


class Replication:
    """Fetchers and in-sync sets of one broker."""

    def __init__(
        self,
        replicas: Replicas,
        channel: ControllerChannel,
        *,
        node_id: int,
        broker_epoch: Callable[[], int],
        view: Callable[[], ClusterView],
        settings: LiveSettings,
        clock: Clock,
        quotas: ReplicationQuotas,
        spawn: Spawn,
    ) -> None:
        self._spawn = spawn
        self._settings = settings
        self._quotas = quotas
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._peers = Peers(view=view, client_id=f"broker-{node_id}-fetcher")
        self._fetchers: Fetchers | None = None
        """None as long as nothing was followed."""
        self._in_sync_changes = InSyncChanges(
            replicas,
            channel,
            node_id=node_id,
            broker_epoch=broker_epoch,
            view=view,
            clock=clock,
            interval_s=lambda: settings.current.integer("replica.lag.time.max.ms") / 2_000,
        )

    def start(self) -> None:
        """Look after the in-sync sets from here on; fetchers come with the partitions."""
        self._spawn(self._in_sync_changes.run())

    def roles_changed(self, partitions: Iterable[Partition]) -> None:
        """These began or ceased to follow, or follow another leader or in another epoch."""
        if self._fetchers is None:
            from millstream.broker.replication.fetchers import Fetchers  # a broker without others starts sooner without them

            self._fetchers = Fetchers(
                self._peers,
                node_id=self._node_id,
                broker_epoch=self._broker_epoch,
                settings=self._settings,
                quotas=self._quotas,
                spawn=self._spawn,
            )
        self._fetchers.follow(partitions)

    def in_sync_change_wanted(self, partition: Partition) -> None:
        """A follower of this partition has caught up."""
        self._in_sync_changes.wanted(partition)

    def resign(self, partition: Partition) -> None:
        """This partition cannot be written to here: another broker should lead it."""
        self._in_sync_changes.resign(partition)

    def directory_failed(self, directory: LogDirectory) -> None:
        """What is in this directory cannot be written any more."""
        if self._fetchers is not None:
            self._fetchers.directory_failed(directory)

    def settings_changed(self) -> None:
        """Options of the broker may be others."""
        has_other_quotas = self._quotas.apply(self._settings.current)
        if self._fetchers is not None:
            self._fetchers.settings_changed()
            if has_other_quotas:
                self._fetchers.quotas_changed()

    def close(self) -> None:
        """Fetch nothing any more."""
        if self._fetchers is not None:
            self._fetchers.close()
        self._peers.close()
