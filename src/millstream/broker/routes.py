"""Every API this broker answers: the one list that the router, ApiVersions and docs/protocol.md are made from."""

from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Any

from millstream.broker.cluster.config_resources import BrokerConfigs, GroupConfigs, TopicConfigs
from millstream.broker.cluster.forwarding import CarryOut, RequestForwarding
from millstream.broker.cluster.live_settings import LiveSettings
from millstream.broker.cluster.logger_levels import LoggerLevels
from millstream.broker.cluster.membership import ClusterMembership
from millstream.broker.cluster.topics_on_demand import TopicsOnDemand
from millstream.broker.coordinators.group_coordinator import GroupCoordinator
from millstream.broker.coordinators.offset_transactions import OffsetTransactions
from millstream.broker.coordinators.transaction_coordinator import TransactionCoordinator
from millstream.broker.handlers.api_versions import ApiVersionsFamily
from millstream.broker.handlers.configs import ConfigsFamily
from millstream.broker.handlers.controller import ControllerFamily
from millstream.broker.handlers.coordinators import GROUP, TRANSACTION, CoordinatorsFamily
from millstream.broker.handlers.envelope import EnvelopeFamily
from millstream.broker.handlers.fetch.fetch import FetchFamily
from millstream.broker.handlers.fetch.fetch_sessions import FetchSessions
from millstream.broker.handlers.groups.group_admin import GroupAdminFamily
from millstream.broker.handlers.groups.group_offsets import GroupOffsetsFamily
from millstream.broker.handlers.groups.groups import GroupsFamily
from millstream.broker.handlers.leadership import LeadershipFamily
from millstream.broker.handlers.log_directories import LogDirectoriesFamily
from millstream.broker.handlers.metadata import MetadataFamily
from millstream.broker.handlers.mirror import MirrorFamily
from millstream.broker.handlers.offsets import OffsetsFamily
from millstream.broker.handlers.produce.produce import ProduceFamily
from millstream.broker.handlers.quorum import QuorumFamily
from millstream.broker.handlers.security import SecurityFamily
from millstream.broker.handlers.topics import TopicsFamily
from millstream.broker.handlers.transactions.producers import ProducersFamily
from millstream.broker.handlers.transactions.transaction_admin import TransactionAdminFamily
from millstream.broker.handlers.transactions.transaction_markers import TransactionMarkersFamily
from millstream.broker.handlers.transactions.transactions import TransactionsFamily
from millstream.broker.network.api import Api, Handler, api_of
from millstream.broker.network.region_loader import RegionLoader
from millstream.broker.replication.replication_quotas import ReplicationQuotas
from millstream.broker.storage.record_turns import RecordTurns
from millstream.broker.storage.storage import Storage
from millstream.broker.tasks import Spawn
from millstream.broker.transactions.marker_writes import MarkerWrites
from millstream.broker.transactions.verification import TransactionVerification
from millstream.clock import Clock
from millstream.coordination.cluster_view import ClusterView
from millstream.coordination.interface import Coordination
from millstream.options.broker import RACK_AWARE_SELECTOR
from millstream.transactions.producer_ids import ProducerIds

ROUTES: dict[type, tuple[Callable[..., Any], ...]] = {
    ProduceFamily: (ProduceFamily.produce,),
    FetchFamily: (FetchFamily.fetch,),
    OffsetsFamily: (OffsetsFamily.list_offsets, OffsetsFamily.offset_for_leader_epoch, OffsetsFamily.delete_records),
    MetadataFamily: (MetadataFamily.metadata, MetadataFamily.describe_topic_partitions, MetadataFamily.describe_cluster),
    CoordinatorsFamily: (CoordinatorsFamily.find_coordinator,),
    GroupsFamily: (
        GroupsFamily.join_group,
        GroupsFamily.sync_group,
        GroupsFamily.heartbeat,
        GroupsFamily.leave_group,
        GroupsFamily.consumer_group_heartbeat,
    ),
    GroupOffsetsFamily: (
        GroupOffsetsFamily.offset_commit,
        GroupOffsetsFamily.txn_offset_commit,
        GroupOffsetsFamily.offset_fetch,
        GroupOffsetsFamily.offset_delete,
    ),
    GroupAdminFamily: (
        GroupAdminFamily.describe_groups,
        GroupAdminFamily.list_groups,
        GroupAdminFamily.delete_groups,
        GroupAdminFamily.consumer_group_describe,
    ),
    ApiVersionsFamily: (ApiVersionsFamily.api_versions,),
    TopicsFamily: (TopicsFamily.create_topics, TopicsFamily.delete_topics, TopicsFamily.create_partitions),
    TransactionMarkersFamily: (TransactionMarkersFamily.write_txn_markers,),
    ProducersFamily: (ProducersFamily.describe_producers,),
    TransactionsFamily: (
        TransactionsFamily.init_producer_id,
        TransactionsFamily.add_partitions_to_txn,
        TransactionsFamily.add_offsets_to_txn,
        TransactionsFamily.end_txn,
    ),
    TransactionAdminFamily: (TransactionAdminFamily.describe_transactions, TransactionAdminFamily.list_transactions),
    ConfigsFamily: (
        ConfigsFamily.describe_configs,
        ConfigsFamily.alter_configs,
        ConfigsFamily.incremental_alter_configs,
        ConfigsFamily.list_config_resources,
    ),
    LeadershipFamily: (
        LeadershipFamily.elect_leaders,
        LeadershipFamily.alter_partition_reassignments,
        LeadershipFamily.list_partition_reassignments,
    ),
    ControllerFamily: (ControllerFamily.alter_partition, ControllerFamily.broker_heartbeat),
    SecurityFamily: (
        SecurityFamily.describe_acls,
        SecurityFamily.create_acls,
        SecurityFamily.delete_acls,
        SecurityFamily.describe_client_quotas,
        SecurityFamily.describe_user_scram_credentials,
    ),
    QuorumFamily: (QuorumFamily.describe_quorum,),
    LogDirectoriesFamily: (LogDirectoriesFamily.describe_log_dirs, LogDirectoriesFamily.alter_replica_log_dirs),
    EnvelopeFamily: (EnvelopeFamily.envelope,),
    MirrorFamily: (MirrorFamily.mirror_append,),
}


def apis() -> list[Api]:
    """What is answered, by key."""
    return sorted(api_of(function) for functions in ROUTES.values() for function in functions)


def make_handlers(
    storage: Storage,
    coordination: Coordination,
    cluster: ClusterMembership,
    groups: GroupCoordinator,
    on_demand: TopicsOnDemand,
    *,
    marker_writes: MarkerWrites,
    transactions: TransactionCoordinator,
    producer_ids: ProducerIds,
    offset_transactions: OffsetTransactions,
    verification: TransactionVerification,
    forwarding: RequestForwarding,
    carry_out: CarryOut,
    fetch_sessions: FetchSessions,
    quotas: ReplicationQuotas,
    settings: LiveSettings,
    clock: Clock,
    spawn: Spawn,
    node_id: int,
) -> list[Handler]:
    """A handler for every API, each with the few collaborators of its family."""
    replicas, controller, view = storage.replicas, cluster.controller, cluster.view
    coordinators = {GROUP: groups.topic, TRANSACTION: transactions.topic}
    families = (
        ProduceFamily(replicas, clock, verification=verification, turns=RecordTurns(storage.read_threads), spawn=spawn),
        FetchFamily(
            replicas,
            sessions=fetch_sessions,
            quotas=quotas,
            loader=RegionLoader(storage.read_threads),
            clock=clock,
            max_bytes=settings.current.integer("fetch.max.bytes"),
            near=_near(settings.current.text("replica.selector.class"), view, node_id=node_id),
        ),
        OffsetsFamily(replicas, executor=storage.read_threads),
        MetadataFamily(view, on_demand, create={topic.name: topic.create for topic in coordinators.values()}),
        CoordinatorsFamily(view, coordinators, node_id=node_id),
        GroupsFamily(groups),
        GroupOffsetsFamily(groups, offset_transactions),
        GroupAdminFamily(groups),
        ApiVersionsFamily(apis),
        TopicsFamily(controller, cluster.creation, settings),
        TransactionMarkersFamily(marker_writes),
        ProducersFamily(replicas),
        TransactionsFamily(transactions, groups, producer_ids, view=view),
        TransactionAdminFamily(transactions, clock),
        ConfigsFamily(
            forwarding,
            topics=TopicConfigs(controller, settings),
            brokers=BrokerConfigs(controller, settings, node_id=node_id),
            loggers=LoggerLevels(view, node_id=node_id),
            groups=GroupConfigs(settings),
        ),
        LeadershipFamily(view, cluster.active),
        ControllerFamily(cluster.requests),
        SecurityFamily(),
        QuorumFamily(view, coordination),
        LogDirectoriesFamily(storage.logs, replicas, storage.moves),
        EnvelopeFamily(view, carry_out),
        MirrorFamily(replicas, producer_ids, clock, spawn=spawn),
    )
    return bind(families)


def _near(selector: str | None, view: Callable[[], ClusterView], *, node_id: int) -> Callable[[str], Collection[int]]:
    """Which brokers are close to the consumers of a rack (`replica.selector.class`)."""
    if selector != RACK_AWARE_SELECTOR:
        return lambda _rack: ()
    from millstream.cluster.rack_selector import in_rack  # a broker starts sooner without it

    return partial(in_rack, view, node_id)


def bind(families: Iterable[object]) -> list[Handler]:
    """The handlers of the given families, in the order of the list; every family has to be there."""
    by_type = {type(family): family for family in families}
    return [function.__get__(by_type[family]) for family, functions in ROUTES.items() for function in functions]
