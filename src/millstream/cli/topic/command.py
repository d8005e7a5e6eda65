"""`millstream topic`: create, describe and delete topics, of Millstream or any other Kafka; `list` and `alter` have files of their own."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from millstream.cli.kafka_client import REQUEST_SECONDS, Cluster, plain
from millstream.cli.output import print_json, print_table
from millstream.cli.parameters import DEFAULT_BROKERS, Brokers, ClientOptions, NewTopicNames, Output, OutputFormat, TopicNames
from millstream.cli.properties import parse_assignment
from millstream.cli.topic.alter import MOST_PARTITIONS, alter
from millstream.cli.topic.listing import list_topics
from millstream.errors import CommandFailed

if TYPE_CHECKING:
    from concurrent.futures import Future

    from confluent_kafka import Node, TopicPartitionInfo
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.admin._topic import TopicDescription

app = typer.Typer(help="List, create, alter, describe and delete topics.", no_args_is_help=True)
app.command("list")(list_topics)
app.command("alter")(alter)

BROKER_DECIDES = -1
MOST_REPLICAS = 10_000
"""As with partitions."""
URL_SAFE = str.maketrans("+/", "-_")
"""Kafka's tools write topic ids in the URL-safe alphabet of base64, librdkafka in the other."""


@app.command("create")
def create_topics(
    names: NewTopicNames,
    *,
    partitions: Annotated[
        int | None,
        typer.Option("-p", "--partitions", min=1, max=MOST_PARTITIONS, help="Number of partitions.", show_default="the broker's"),
    ] = None,
    replicas: Annotated[
        int | None,
        typer.Option("-r", "--replicas", min=1, max=MOST_REPLICAS, help="Copies of each partition.", show_default="the broker's"),
    ] = None,
    config: Annotated[
        list[str] | None, typer.Option("-c", "--config", metavar="NAME=VALUE", help="An option of the topic, e.g. retention.ms=60000.")
    ] = None,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="A topic that is already there is fine.")] = False,
    brokers: Brokers = DEFAULT_BROKERS,
    client_options: ClientOptions = None,
) -> None:
    """Create topics."""
    from confluent_kafka.cimpl import NewTopic

    cluster = Cluster.of(brokers, client_options)
    configs = dict(parse_assignment(text, "--config") for text in config or [])
    admin = cluster.admin()
    new = [NewTopic(name, partitions or BROKER_DECIDES, replicas or BROKER_DECIDES, config=configs) for name in names]
    with cluster.plain_errors("creating topics"):
        futures = admin.create_topics(new, operation_timeout=REQUEST_SECONDS)
        _report(cluster, futures, done="created", fine="TOPIC_ALREADY_EXISTS" if if_not_exists else None)


@app.command("delete")
def delete_topics(
    names: TopicNames,
    *,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="A topic that is not there is fine.")] = False,
    brokers: Brokers = DEFAULT_BROKERS,
    client_options: ClientOptions = None,
) -> None:
    """Delete topics and all their records; none of them, if one is not there."""
    cluster = Cluster.of(brokers, client_options)
    admin = cluster.admin()
    if not if_exists:
        for name in names:
            cluster.existing_topic(admin, name)
    with cluster.plain_errors("deleting topics"):
        futures = admin.delete_topics(list(names), operation_timeout=REQUEST_SECONDS)
        _report(cluster, futures, done="deleted", fine="UNKNOWN_TOPIC_OR_PART" if if_exists else None)


def _report(cluster: Cluster, futures: Mapping[str, "Future[None]"], *, done: str, fine: str | None) -> None:
    """Wait for every topic's result, print each, and fail at the end if one failed."""
    from confluent_kafka import KafkaException

    failures = []
    for name, future in futures.items():
        try:
            future.result()
            print(f"{done} {name}")
        except KafkaException as exception:
            if exception.args[0].name() != fine:
                failures.append(f"topic {name!r} was not {done}: {plain(exception.args[0])}")
    if failures:
        raise CommandFailed(f"At {cluster.brokers} " + "; ".join(failures) + ".")


@app.command("describe")
def describe_topics(
    names: TopicNames,
    *,
    brokers: Brokers = DEFAULT_BROKERS,
    output: OutputFormat = Output.TABLE,
    client_options: ClientOptions = None,
) -> None:
    """Show the partitions of topics (leader, replicas, offsets) and the options that were set."""
    from confluent_kafka import TopicCollection

    cluster = Cluster.of(brokers, client_options)
    admin = cluster.admin()
    for name in names:
        cluster.existing_topic(admin, name)
    with cluster.plain_errors("describing topics"):
        futures = admin.describe_topics(TopicCollection(list(names)), request_timeout=REQUEST_SECONDS)
        described = [_description(admin, future.result()) for future in futures.values()]
    if output is Output.JSON:
        print_json(described)
        return
    for topic in described:
        _print_description(topic)


def _description(admin: "AdminClient", topic: "TopicDescription") -> dict[str, object]:
    """Everything about one topic, as `--output json` shows it."""
    earliest, latest = (_offsets(admin, topic, at_end=at_end) for at_end in (False, True))
    partitions = [
        {
            "partition": partition.id,
            "leader": _leader(partition),
            "replicas": [node.id for node in partition.replicas],
            "in_sync_replicas": [node.id for node in partition.isr],
            "earliest_offset": earliest.get(partition.id),
            "latest_offset": latest.get(partition.id),
        }
        for partition in topic.partitions
    ]
    return {
        "topic": topic.name,
        "topic_id": str(topic.topic_id).translate(URL_SAFE),
        "is_internal": topic.is_internal,
        "options": _options_that_were_set(admin, topic.name),
        "partitions": partitions,
    }


def _leader(partition: "TopicPartitionInfo") -> int | None:
    """The leader's node id, or None while there is no leader (which their types do not know)."""
    node: Node | None = partition.leader
    return None if node is None else node.id


def _offsets(admin: "AdminClient", topic: "TopicDescription", *, at_end: bool) -> dict[int, int]:
    """First or next offset of each partition whose leader answers."""
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined] # their types do not list what they re-export

    spec: OffsetSpec = (OffsetSpec.latest if at_end else OffsetSpec.earliest)()  # type: ignore[no-untyped-call] # theirs has no types
    asked = {TopicPartition(topic.name, partition.id): spec for partition in topic.partitions if _leader(partition) is not None}
    if not asked:
        return {}
    futures = admin.list_offsets(asked, request_timeout=REQUEST_SECONDS)
    found = {partition.partition: future.result().offset for partition, future in futures.items()}
    return {partition: offset for partition, offset in found.items() if offset >= 0}  # a leader that is not reached has OFFSET_INVALID


def _options_that_were_set(admin: "AdminClient", name: str) -> dict[str, str]:
    """Options of the topic itself, not those it takes from its broker."""
    from confluent_kafka.admin import ConfigResource, ConfigSource, ResourceType  # type: ignore[attr-defined] # as above

    resource = ConfigResource(ResourceType.TOPIC, name)
    entries = admin.describe_configs([resource], request_timeout=REQUEST_SECONDS)[resource].result()
    own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    return {entry.name: entry.value for entry in entries.values() if entry.source == own}


def _print_description(topic: Mapping[str, object]) -> None:
    partitions = topic["partitions"]
    options = topic["options"]
    assert isinstance(partitions, list)
    assert isinstance(options, dict)
    set_options = " ".join(f"{name}={value}" for name, value in sorted(options.items())) or "none set"
    print(f"{topic['topic']}  id {topic['topic_id']}  options: {set_options}")
    columns = ["partition", "leader", "replicas", "in sync", "earliest", "latest"]
    print_table(columns, [[_cell(value) for value in partition.values()] for partition in partitions])


def _cell(value: object) -> object:
    if isinstance(value, Iterable) and not isinstance(value, str):
        return ",".join(str(part) for part in value)
    return "-" if value is None else value
