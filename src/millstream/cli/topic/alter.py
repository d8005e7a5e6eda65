"""`millstream topic alter`: other options, or more partitions, for topics that are there.

Options are changed one by one (IncrementalAlterConfigs), so those that are not named stay. A topic never gets fewer partitions, and with
more of them keys go to other ones than before: that is said.
"""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from millstream.cli.kafka_client import REQUEST_SECONDS, Cluster, plain
from millstream.cli.parameters import DEFAULT_BROKERS, Brokers, ClientOptions, TopicNames
from millstream.cli.properties import parse_assignment
from millstream.errors import CommandFailed, UsageError

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

OPTION = "NAME=VALUE"
MOST_PARTITIONS = 100_000
"""What librdkafka asks a broker for at most."""


def alter(
    names: TopicNames,
    *,
    config: Annotated[
        list[str] | None, typer.Option("-c", "--config", metavar=OPTION, help="Set an option, e.g. retention.ms=60000; repeatable.")
    ] = None,
    reset: Annotated[
        list[str] | None, typer.Option("--reset", metavar="NAME", help="Let the broker's value hold again; repeatable.")
    ] = None,
    partitions: Annotated[
        int | None, typer.Option("-p", "--partitions", min=1, max=MOST_PARTITIONS, help="Number of partitions from now on; only more.")
    ] = None,
    brokers: Brokers = DEFAULT_BROKERS,
    client_options: ClientOptions = None,
) -> None:
    """Change options of topics, or give them more partitions."""
    changes: dict[str, str | None] = dict(parse_assignment(text, "--config") for text in config or [])
    for name in reset or []:
        if name in changes:
            raise UsageError(f"{name} is both set and reset: choose one.")
        changes[name] = None
    if not changes and partitions is None:
        raise UsageError("Say what to change: --config NAME=VALUE, --reset NAME or --partitions N.")
    cluster = Cluster.of(brokers, client_options)
    admin = cluster.admin()
    counts = {name: len(cluster.existing_topic(admin, name).partitions) for name in names}
    for name in names:
        if partitions is not None:
            _add_partitions(cluster, admin, name, old=counts[name], new=partitions)
        if changes:
            _set_options(cluster, admin, name, changes)


def _add_partitions(cluster: Cluster, admin: "AdminClient", name: str, *, old: int, new: int) -> None:
    from confluent_kafka.cimpl import NewPartitions

    if new == old:
        print(f"{name} has {old} partitions already")
        return
    if new < old:
        raise CommandFailed(f"The topic {name!r} has {old} partitions, and a topic cannot get fewer; create another one and copy.")
    _wait(cluster, name, admin.create_partitions([NewPartitions(name, new)], request_timeout=REQUEST_SECONDS)[name])
    print(f"altered {name}: {old} -> {new} partitions")
    print("Keys go to other partitions than before: per key, order holds only among the messages from now on.", file=sys.stderr)


def _set_options(cluster: Cluster, admin: "AdminClient", name: str, changes: dict[str, str | None]) -> None:
    from confluent_kafka.admin import (  # type: ignore[attr-defined] # their types do not list what they re-export
        AlterConfigOpType,
        ConfigEntry,
        ConfigResource,
        ResourceType,
    )

    entries = [
        ConfigEntry(option, value, incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET)
        for option, value in changes.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
    _wait(cluster, name, admin.incremental_alter_configs([resource], request_timeout=REQUEST_SECONDS)[resource])
    print(f"altered {name}: " + ", ".join(f"{option} reset" if value is None else f"{option}={value}" for option, value in changes.items()))


def _wait(cluster: Cluster, name: str, future: Any) -> None:
    from confluent_kafka import KafkaException

    try:
        future.result()
    except KafkaException as exception:
        raise CommandFailed(f"At {cluster.brokers} the topic {name!r} was not altered: {plain(exception.args[0])}.") from exception
