"""`millstream group`: list, describe, seek and delete consumer groups, of Millstream or of any other Kafka.

Listing and deleting are here; `describe` and `seek` have files of their own. What changes something is a dry run unless
`--execute` is given: it says what would be done and does nothing.
"""

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from millstream.cli.group.consumer_groups import describe_groups, state_name, type_name
from millstream.cli.group.describe import describe
from millstream.cli.group.seek import seek
from millstream.cli.kafka_client import REQUEST_SECONDS, Cluster, plain
from millstream.cli.output import print_json, print_table
from millstream.cli.parameters import DEFAULT_BROKERS, Brokers, ClientOptions, Execute, GroupNames, Output, OutputFormat
from millstream.errors import CommandFailed

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

app = typer.Typer(help="List, describe, seek and delete consumer groups.", no_args_is_help=True)
app.command("describe")(describe)
app.command("seek")(seek)


class GroupType(StrEnum):
    """The two protocols a group can speak."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


class GroupState(StrEnum):
    """What a group can be doing."""

    STABLE = "stable"
    EMPTY = "empty"
    DEAD = "dead"
    PREPARING = "preparing-rebalance"
    COMPLETING = "completing-rebalance"
    ASSIGNING = "assigning"
    RECONCILING = "reconciling"


@app.command("list")
def list_groups(
    *,
    state: Annotated[list[GroupState] | None, typer.Option("--state", help="Only groups in this state; repeatable.")] = None,
    protocol: Annotated[list[GroupType] | None, typer.Option("--type", help="Only groups of this type; repeatable.")] = None,
    brokers: Brokers = DEFAULT_BROKERS,
    output: OutputFormat = Output.TABLE,
    client_options: ClientOptions = None,
) -> None:
    """List the groups with their state and type."""
    cluster = Cluster.of(brokers, client_options)
    admin = cluster.admin()
    groups = [
        {"group": found.group_id, "state": state_name(found.state), "type": type_name(found.type)} for found in _listed(cluster, admin)
    ]
    # The client asks the brokers for all and we choose: a filter by type is refused by brokers that are too old for types.
    chosen = [
        group
        for group in sorted(groups, key=lambda group: group["group"])
        if (not state or group["state"] in state) and (not protocol or group["type"] in protocol)
    ]
    if output is Output.JSON:
        print_json(chosen)
    else:
        print_table(["group", "state", "type"], [list(group.values()) for group in chosen])


def _listed(cluster: Cluster, admin: "AdminClient") -> list[Any]:
    with cluster.plain_errors("listing the groups"):
        result = admin.list_consumer_groups(request_timeout=REQUEST_SECONDS).result()
    if result.errors:
        raise CommandFailed(f"At {cluster.brokers} a broker did not list its groups: {plain(result.errors[0].args[0])}.")
    return list(result.valid)


@app.command("delete")
def delete_groups(
    names: GroupNames, *, execute: Execute = False, brokers: Brokers = DEFAULT_BROKERS, client_options: ClientOptions = None
) -> None:
    """Delete groups without members, and the offsets that they committed."""
    cluster = Cluster.of(brokers, client_options)
    admin = cluster.admin()
    described = describe_groups(cluster, admin, names=names)
    busy = [f"{group.group_id!r} has {len(group.members)} members" for group in described if group.members]
    if busy:
        raise CommandFailed(f"At {cluster.brokers} only a group without members can be deleted, but {', '.join(busy)}: stop them first.")
    if not execute:
        for name in names:
            print(f"would delete {name}")
        print("Nothing was changed: repeat with --execute to delete.", file=sys.stderr)
        return
    _delete(cluster, admin, names=names)


def _delete(cluster: Cluster, admin: "AdminClient", *, names: list[str]) -> None:
    from confluent_kafka import KafkaException

    failures = []
    with cluster.plain_errors("deleting groups"):
        futures = admin.delete_consumer_groups(list(names), request_timeout=REQUEST_SECONDS)
    for name, future in futures.items():
        try:
            future.result()
            print(f"deleted {name}")
        except KafkaException as exception:
            failures.append(f"group {name!r} was not deleted: {plain(exception.args[0])}")
    if failures:
        raise CommandFailed(f"At {cluster.brokers} " + "; ".join(failures) + ".")
