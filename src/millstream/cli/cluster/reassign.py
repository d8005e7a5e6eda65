"""`millstream cluster reassign`: move partitions to other brokers, by a plan in Kafka's format or by topics; see and take back moves."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from millstream.cli.cluster.parameters import AsJson, DryRun, NoWait, Throttle, Yes
from millstream.cli.completion import complete_topic
from millstream.cli.parameters import DEFAULT_BROKERS, Brokers, ClientOptions
from millstream.errors import CommandFailed, UsageError

if TYPE_CHECKING:
    from millstream.cli.cluster.operated_cluster import OperatedCluster
    from millstream.cli.cluster.planning.plan import Plan
    from millstream.cli.cluster.planning.plan_file import WrittenPlan

MODES = "--plan FILE, --topic T (with --to or --replicas), --list, --follow or --cancel"


def reassign(
    *,
    plan: Annotated[
        Path | None, typer.Option("--plan", metavar="FILE", help="A plan in the JSON format of kafka-reassign-partitions.")
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option("-t", "--topic", help="Move this topic; repeatable. Planned here.", autocompletion=complete_topic),
    ] = None,
    to: Annotated[
        str | None, typer.Option("--to", metavar="ID[,...]", help="With --topic: the brokers that keep it.", show_default="all")
    ] = None,
    replicas: Annotated[
        int | None, typer.Option("-r", "--replicas", min=1, help="With --topic: copies of each partition.", show_default="as many as now")
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="Show what is being moved, and throttles.")] = False,
    follow: Annotated[bool, typer.Option("--follow", help="Wait for the end of what is being moved, then remove throttles.")] = False,
    cancel: Annotated[bool, typer.Option("--cancel", help="Take back what is being moved, all or of a --topic; remove throttles.")] = False,
    throttle: Throttle = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    no_wait: NoWait = False,
    as_json: AsJson = False,
    brokers: Brokers = DEFAULT_BROKERS,
    client_options: ClientOptions = None,
) -> None:
    """Move partitions to other brokers, or to other disks of theirs: shows the plan, asks, does it and waits, with a bar.

    Nothing is begun unless all of the plan can be. What was begun goes on if this command is interrupted.
    """
    from millstream.cli.cluster.execution import Manner, carry_out
    from millstream.cli.cluster.moves_list import list_moves
    from millstream.cli.cluster.obstacles import refuse_if_moving, refuse_leaderless
    from millstream.cli.cluster.operated_cluster import open_operated
    from millstream.cli.cluster.planning.plan_file import read_plan
    from millstream.cli.cluster.reassignments import cancel_moves, follow_moves

    if [plan is not None, bool(topic) and not cancel, list_, follow, cancel].count(True) != 1:
        raise UsageError(f"Say one thing to do: {MODES}.")
    if (to is not None or replicas is not None) and (not topic or cancel):
        raise UsageError("--to and --replicas say where a --topic goes: name it.")
    if list_ or follow or cancel:
        without_effect = {"--throttle": throttle is not None, "--no-wait": no_wait, "--dry-run": dry_run and not cancel}
        _refuse_flags({**without_effect, "--json": as_json and not list_})
    manner = Manner(yes, dry_run, as_json and not list_, no_wait, throttle)
    manner.check()
    wanted = None if plan is None else read_plan(plan)
    chosen = None if to is None else _broker_ids(to)
    with open_operated(brokers, client_options) as operated:
        if list_:
            list_moves(operated, as_json=as_json)
        elif follow:
            follow_moves(operated)
        elif cancel:
            cancel_moves(operated, topic or [], manner)
        else:
            refuse_if_moving(operated)
            made = _planned(operated, topic or [], chosen, replicas) if wanted is None else _checked(operated, wanted)
            refuse_leaderless(operated, made)
            carry_out(operated, made, manner, with_loads=False, question="Begin?")


def _refuse_flags(without_effect: Mapping[str, bool]) -> None:
    """What was begun is listed, followed and taken back as it is: who gives one of these flags expects something else."""
    for flag, is_given in without_effect.items():
        if is_given:
            raise UsageError(f"{flag} is for moves that are to be begun: with --plan or --topic.")


def _planned(operated: "OperatedCluster", topics: list[str], chosen: list[int] | None, replicas: int | None) -> "Plan":
    from millstream.cli.cluster.planning.onto import onto
    from millstream.cli.cluster.planning.plan import Plan

    places = operated.places_of(topics)
    allowed = operated.live_brokers if chosen is None else chosen
    unknown = sorted(set(allowed) - set(operated.live_brokers))
    if unknown:
        there = ", ".join(map(str, operated.live_brokers))
        raise CommandFailed(f"Brokers that are not there cannot keep anything: {', '.join(map(str, unknown))}; there are {there}.")
    layout = operated.layout()
    most = replicas or max((len(layout.partitions[place].replicas) for place in places), default=1)
    if most > len(allowed):
        raise CommandFailed(
            f"{most} replicas do not fit on {len(allowed)} broker{'s' if len(allowed) > 1 else ''}: name more with --to, "
            "or fewer copies with --replicas."
        )
    return Plan.of(layout, onto(layout, places, allowed, replication_factor=replicas))


def _checked(operated: "OperatedCluster", wanted: "WrittenPlan") -> "Plan":
    from millstream.cli.cluster.planning.plan import Plan, disk_moves_to
    from millstream.cli.cluster.planning.plan_file import check_targets

    layout, disks = operated.layout(), operated.known_disks
    check_targets(layout, disks, wanted, where=operated.brokers)
    return Plan.of(layout, wanted.targets, disk_moves_to(disks, wanted.directories))


def _broker_ids(text: str) -> list[int]:
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(f"--to {text!r}: expected ids of brokers with commas between them, as in 1,2,3.") from None
    if len(set(found)) < len(found) or min(found) < 0:
        raise UsageError(f"--to {text!r}: each broker once, by its id.")
    return found
