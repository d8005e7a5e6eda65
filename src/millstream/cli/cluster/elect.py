"""`millstream cluster elect`: let the preferred replicas lead again; or, with data lost, any replica at all where nobody leads."""

import sys
import time
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from millstream.cli.cluster.confirmation import confirm
from millstream.cli.cluster.parameters import DryRun, Yes
from millstream.cli.cluster.planning.plan_output import count
from millstream.cli.completion import complete_topic
from millstream.cli.output import print_table
from millstream.cli.parameters import DEFAULT_BROKERS, Brokers, ClientOptions
from millstream.errors import CommandFailed, UsageError
from millstream.topic_partition import TopicPartition

if TYPE_CHECKING:
    from millstream.cli.cluster.operated_cluster import OperatedCluster
    from millstream.errors import KafkaError

METADATA_SECONDS = 15.0
MOST_LISTED = 50
WARNING = (
    "An unclean election gives up what the new leader does not have: messages that were acknowledged are lost. "
    "First try to start the brokers again that have them."
)


def elect(
    topics: Annotated[
        list[str] | None,
        typer.Argument(metavar="TOPIC", help="Only these topics.", show_default="all", autocompletion=complete_topic),
    ] = None,
    *,
    partition: Annotated[
        list[int] | None, typer.Option("-p", "--partition", min=0, help="Of one TOPIC only this partition; repeatable.")
    ] = None,
    unclean: Annotated[
        bool, typer.Option("--unclean", help="Where nobody leads, let a replica lead that is not in sync: LOSES MESSAGES.")
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    brokers: Brokers = DEFAULT_BROKERS,
    client_options: ClientOptions = None,
) -> None:
    """Let the first replica of each partition lead, if it is in sync; prints what changed. Asks first only with --unclean."""
    from millstream.cli.cluster.operated_cluster import open_operated
    from millstream.client.admin.reassignment_admin import PREFERRED, UNCLEAN

    if partition and len(topics or []) != 1:
        raise UsageError("--partition is about the partitions of one TOPIC: name it, and only it.")
    with open_operated(brokers, client_options) as operated:
        places = _wanted(operated, topics or [], partition or [], unclean=unclean)
        if not places:
            print("Nothing to do: " + ("every partition has a leader." if unclean else "every partition is led by its preferred replica."))
            return
        before = operated.leaders()
        if dry_run or unclean:
            _print_wanted(operated, places, before)
        if dry_run:
            print("Nothing was changed: this was a dry run.")
            return
        if unclean:
            print(WARNING, file=sys.stderr)
            if not confirm(f"Elect leaders of {count(len(places), 'partition')}, and give up what they lack?", yes=yes):
                return
        results = operated.admin.elect(places, kind=UNCLEAN if unclean else PREFERRED)
        _report(operated, results, before)


def _wanted(operated: "OperatedCluster", topics: list[str], partitions: list[int], *, unclean: bool) -> list[TopicPartition]:
    """The partitions for which there is something to do."""
    known = operated.metadata.topics
    places = operated.places_of(topics or sorted(known))
    if partitions:
        places = [TopicPartition(topics[0], number) for number in dict.fromkeys(partitions)]
        unknown = [number for number in partitions if number not in known[topics[0]].partitions]
        if unknown:
            numbers, there = ", ".join(map(str, unknown)), len(known[topics[0]].partitions)
            where = f"The topic {topics[0]!r} at {operated.brokers}"
            raise CommandFailed(f"{where} has no partition {numbers}: it has {there}, from 0 to {there - 1}.")
    leaderless = operated.leaderless()
    if unclean:
        return [place for place in places if place in leaderless]
    led = {place: known[place.topic].partitions[place.partition] for place in places}
    return [place for place, found in led.items() if found.leader != found.replicas[0]]


def _print_wanted(operated: "OperatedCluster", places: Collection[TopicPartition], before: Mapping[TopicPartition, int]) -> None:
    known = operated.metadata.topics
    rows = []
    for place in sorted(places)[:MOST_LISTED]:
        found = known[place.topic].partitions[place.partition]
        rows.append(
            [
                str(place),
                _leader(before.get(place, -1)),
                *(",".join(map(str, ids)) or "-" for ids in (found.replicas, found.in_sync_replicas)),
            ]
        )
    print_table(("partition", "leader", "replicas", "in sync"), rows)
    _print_more(len(places))


def _report(
    operated: "OperatedCluster", results: "Mapping[TopicPartition, KafkaError | None]", before: Mapping[TopicPartition, int]
) -> None:
    elected = [place for place, error in results.items() if error is None]
    after = _await_leaders(operated, elected, before)
    if elected:
        rows = [[str(place), _leader(before.get(place, -1)), _leader(after.get(place, -1))] for place in sorted(elected)[:MOST_LISTED]]
        print_table(("partition", "was led by", "is led by"), rows)
        _print_more(len(elected))
    failed = {place: error for place, error in results.items() if error is not None}
    print(
        f"{len(elected)} of {count(len(results), 'partition')} with another leader"
        if results
        else "every partition has the right leader already"
    )
    if failed:
        for place, error in sorted(failed.items())[:MOST_LISTED]:
            print(f"  {place}: {error}", file=sys.stderr)
        _print_more(len(failed))
        raise CommandFailed(f"At {operated.brokers} {count(len(failed), 'partition')} kept the leader, or have none.")


def _await_leaders(
    operated: "OperatedCluster", elected: Collection[TopicPartition], before: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The leaders when the broker that is asked has heard of the elections."""
    until = time.monotonic() + METADATA_SECONDS
    while True:
        after = operated.leaders()
        if time.monotonic() > until or not any(after.get(place) == before.get(place) for place in elected):
            return after
        time.sleep(0.05)


def _print_more(number: int) -> None:
    if number > MOST_LISTED:
        print(f"and {number - MOST_LISTED} more")


def _leader(broker: int) -> str:
    return "none" if broker < 0 else str(broker)
