"""`millstream cluster status`: the brokers of a cluster and what is wrong with its partitions, of Millstream or of any other Kafka.

Everything is asked by Kafka's protocol. The controller is the one that the brokers name: in Millstream the active one; Apache Kafka 4 keeps
its own to itself and names any broker.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from millstream.cli.cluster.cluster_status import BrokerAddress, ClusterStatus, PartitionStatus, cluster_status
from millstream.cli.kafka_client import REQUEST_SECONDS, Cluster
from millstream.cli.output import print_json, print_table
from millstream.cli.parameters import DEFAULT_BROKERS, Brokers, ClientOptions

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.admin._metadata import ClusterMetadata

EXIT_NOT_WELL = 3
MOST_LISTED = 20
TOPICS_PER_REQUEST = 500


def status(
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Write one JSON document, with every partition that is not well.")] = False,
    brokers: Brokers = DEFAULT_BROKERS,
    client_options: ClientOptions = None,
) -> None:
    """Show the brokers, the controller, and partitions that are offline or lack replicas.

    The exit code is 0 if every partition has a leader and all its replicas in sync, 3 if not, 1 if no broker answers.
    """
    found = _ask(Cluster.of(brokers, client_options))
    if as_json:
        print_json(found.document())
    else:
        _print(found)
    if not found.is_well:
        raise typer.Exit(EXIT_NOT_WELL)


def _ask(cluster: Cluster) -> ClusterStatus:
    admin = cluster.admin()
    with cluster.plain_errors("asking for the state of the cluster"):
        described = admin.describe_cluster(request_timeout=REQUEST_SECONDS).result()
        metadata = admin.list_topics(timeout=REQUEST_SECONDS)
        minima = _min_in_sync(admin, sorted(metadata.topics))
    brokers = [BrokerAddress(node.id, f"{node.host}:{node.port}", node.rack or None) for node in described.nodes]
    return cluster_status(described.cluster_id, metadata.controller_id, brokers, _partitions(metadata), minima)


def _partitions(metadata: "ClusterMetadata") -> Iterable[PartitionStatus]:
    for name, topic in metadata.topics.items():
        for partition in topic.partitions.values():
            yield PartitionStatus(name, partition.id, partition.leader, tuple(partition.replicas), tuple(partition.isrs))


def _min_in_sync(admin: "AdminClient", topics: list[str]) -> dict[str, int]:
    """`min.insync.replicas` of each topic; one that was deleted meanwhile has none."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import ConfigResource, ResourceType  # type: ignore[attr-defined] # their types do not list what they re-export

    found = {}
    for begin in range(0, len(topics), TOPICS_PER_REQUEST):
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in topics[begin : begin + TOPICS_PER_REQUEST]]
        for resource, future in admin.describe_configs(resources, request_timeout=REQUEST_SECONDS).items():
            try:
                found[resource.name] = int(future.result()["min.insync.replicas"].value)
            except KafkaException as exception:
                if exception.args[0].name() != "UNKNOWN_TOPIC_OR_PART":
                    raise
    return found


def _print(found: ClusterStatus) -> None:
    controller = f"controller {found.controller}" if found.controller >= 0 else "no controller"
    parts = [
        _count(len(found.brokers), "broker"),
        controller,
        _count(found.topic_count, "topic"),
        _count(found.partition_count, "partition"),
    ]
    print(f"cluster {found.cluster_id}: {', '.join(parts)}\n")
    columns = ["broker", "address", "rack", "leads", "replicas", "in sync"]
    rows: list[list[object]] = [
        [
            broker.node_id,
            broker.address,
            broker.rack or "-",
            found.leaders.get(broker.node_id, 0),
            found.replicas.get(broker.node_id, 0),
            found.in_sync.get(broker.node_id, 0),
        ]
        for broker in found.brokers
    ]
    rows += [[missing, "is not there", "-", 0, found.replicas[missing], found.in_sync.get(missing, 0)] for missing in found.missing_brokers]
    print_table(columns, rows)
    print()
    _print_partitions("offline: no broker leads them, they can be neither read nor written", found.offline)
    _print_partitions("below min.insync.replicas: acks=all is refused", found.under_min_isr)
    _print_partitions("under-replicated: not all replicas are in sync", found.under_replicated)
    if found.unpreferred:
        print(
            f"{len(found.unpreferred)} led by another broker than the preferred one (nothing is wrong; brokers give it back by themselves, "
            "unless they are told not to, and `millstream cluster elect` lets them at once)"
        )
    if found.is_well:
        print("All is well: every partition has a leader and all its replicas in sync.")
    elif found.missing_brokers:
        missing = " and ".join(map(str, found.missing_brokers))
        print(f"Not well: start broker {missing} again, or replace it, or move what it had to the others (`millstream cluster drain`).")
    else:
        print("Not well: replicas that came back are catching up; ask again. If the numbers stand still, see the log of that broker.")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _print_partitions(title: str, partitions: list[PartitionStatus]) -> None:
    if not partitions:
        return
    print(f"{len(partitions)} {title}")
    for partition in partitions[:MOST_LISTED]:
        leader = "none" if partition.leader < 0 else partition.leader
        replicas, in_sync = (",".join(map(str, ids)) or "none" for ids in (partition.replicas, partition.in_sync_replicas))
        print(f"  {partition.name}  leader {leader}  replicas {replicas}  in sync {in_sync}")
    if len(partitions) > MOST_LISTED:
        print(f"  and {len(partitions) - MOST_LISTED} more (--json lists them all)")
    print()
