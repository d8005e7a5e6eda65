"""`millstream group`: list, describe, seek and delete consumer groups, of Millstream or of any other Kafka, and the paper's in ZooKeeper.

Deleting is here; `list`, `describe` and `seek` have files of their own. What changes something is a dry run unless `--execute` is given: it
says what would be done and does nothing.
"""

import sys
from typing import TYPE_CHECKING

import typer

from millstream.cli.group.describe import describe
from millstream.cli.group.known_group import Groups, KnownGroup
from millstream.cli.group.listing import list_groups
from millstream.cli.group.paper_groups import Zookeeper
from millstream.cli.group.seek import ChosenType, seek
from millstream.cli.kafka_client import REQUEST_SECONDS, Cluster, plain
from millstream.cli.parameters import DEFAULT_BROKERS, Brokers, ClientOptions, Execute, GroupNames
from millstream.cli.signed_arguments import SignedArguments
from millstream.errors import CommandFailed

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

app = typer.Typer(help="List, describe, seek and delete consumer groups.", no_args_is_help=True)
app.command("list")(list_groups)
app.command("describe")(describe)
app.command("seek", cls=SignedArguments)(seek)


@app.command("delete")
def delete_groups(
    names: GroupNames,
    *,
    chosen_type: ChosenType = None,
    execute: Execute = False,
    zookeeper: Zookeeper = None,
    brokers: Brokers = DEFAULT_BROKERS,
    client_options: ClientOptions = None,
) -> None:
    """Delete groups without members, and the offsets that they committed."""
    cluster = Cluster.of(brokers, client_options)
    groups = Groups(cluster, zookeeper)
    found = []
    for name in names:
        group = groups.one(name, chosen_type)
        if group is None:
            raise CommandFailed(groups.missing(name, chosen_type))
        found.append(group)
    busy = [f"{group.name!r} has {group.size}" for group in found if group.members]
    if busy:
        raise CommandFailed(
            f"At {cluster.brokers} only a group without members can be deleted, but {', '.join(busy)}: stop first what reads with it."
        )
    if not execute:
        for name in names:
            print(f"would delete {name}")
        print("Nothing was changed: repeat with --execute to delete.", file=sys.stderr)
        return
    for name in _delete_from_zookeeper(groups, found):
        print(f"deleted {name}")
    _delete(cluster, groups.admin, names=[group.name for group in found if not group.is_paper])


def _delete_from_zookeeper(groups: Groups, found: list[KnownGroup]) -> list[str]:
    assert groups.paper is not None or not any(group.is_paper for group in found)
    deleted = []
    for group in found:
        if group.is_paper and groups.paper is not None:
            groups.paper.delete(group.name)
            deleted.append(group.name)
    return deleted


def _delete(cluster: Cluster, admin: "AdminClient", *, names: list[str]) -> None:
    from confluent_kafka import KafkaException

    if not names:
        return
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
