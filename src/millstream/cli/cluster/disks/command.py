"""`millstream cluster disks`: what lies in the data directories of the brokers; empty one of them, or even out what they have."""

from typing import TYPE_CHECKING, Annotated

import typer

from millstream.cli.cluster.parameters import DryRun, NoWait, Throttle, Yes
from millstream.cli.parameters import DEFAULT_BROKERS, Brokers, ClientOptions
from millstream.errors import CommandFailed, UsageError

if TYPE_CHECKING:
    from millstream.cli.cluster.execution import Manner
    from millstream.cli.cluster.operated_cluster import OperatedCluster
    from millstream.cli.cluster.planning.disks import Directories

EVEN = "Nothing to do: the data directories of each broker are equally full (to within a tenth), or as nearly as the sizes allow."
FAREWELL = "How to take it away: docs/operating.md, Disks."


def disks(
    *,
    broker: Annotated[int | None, typer.Option("--broker", metavar="ID", min=0, help="Only this broker.", show_default="all")] = None,
    empty: Annotated[
        str | None, typer.Option("--empty", metavar="DIR", help="Move everything off this directory, to the others of its broker.")
    ] = None,
    even: Annotated[bool, typer.Option("--even", help="Even out how full the directories of each broker are.")] = False,
    throttle: Throttle = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    no_wait: NoWait = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="As JSON; with --dry-run the plan in Kafka's format, for --plan or kafka-reassign-partitions.")
    ] = False,
    brokers: Brokers = DEFAULT_BROKERS,
    client_options: ClientOptions = None,
) -> None:
    """Show the data directories of the brokers: what they have, and what is free; or move replicas between those of a broker.

    A replica stays on its broker, and clients notice nothing. What was begun goes on if this command is interrupted: `reassign --list`,
    `--follow` and `--cancel` are for these moves, too.
    """
    from millstream.cli.cluster.execution import Manner
    from millstream.cli.cluster.operated_cluster import open_operated

    is_change = empty is not None or even
    if empty is not None and even:
        raise UsageError("Say one thing to do: --empty DIR or --even.")
    if not is_change and (throttle is not None or dry_run or yes or no_wait):
        raise UsageError("--throttle, --dry-run, --yes and --no-wait say how to move something: name it with --empty DIR or --even.")
    manner = Manner(yes, dry_run, as_json and is_change, no_wait, throttle)
    manner.check()
    with open_operated(brokers, client_options) as operated:
        if is_change:
            _change(operated, manner, broker, empty)
        else:
            _show(operated, broker, as_json=as_json)


def _show(operated: "OperatedCluster", broker: int | None, *, as_json: bool) -> None:
    from millstream.cli.cluster.disks.disk_table import document, print_disks
    from millstream.cli.output import print_json

    chosen = operated.live_brokers if broker is None else [broker]
    if broker is not None and broker not in operated.live_brokers:
        there = ", ".join(map(str, operated.live_brokers))
        raise CommandFailed(f"At {operated.brokers} there is no broker {broker}; there are {there}.")
    if as_json:
        print_json(document(operated.known_disks, chosen))
    else:
        print_disks(operated.known_disks, chosen)


def _change(operated: "OperatedCluster", manner: "Manner", broker: int | None, path: str | None) -> None:
    from millstream.cli.cluster.execution import carry_out
    from millstream.cli.cluster.obstacles import refuse_if_moving
    from millstream.cli.cluster.planning.plan import Plan, disk_moves_to

    wanted, question, nothing = _planned(operated, broker, path)
    refuse_if_moving(operated)
    plan = Plan.of(operated.layout(), {}, disk_moves_to(operated.known_disks, wanted))
    if not plan.disk_moves and not manner.as_json:
        print(nothing)
    elif carry_out(operated, plan, manner, with_loads=False, question=question) and path is not None:
        _conclude(operated, wanted, path)


def _planned(operated: "OperatedCluster", broker: int | None, path: str | None) -> "tuple[Directories, str, str]":
    """The plan, what to ask before it is carried out, and what to say if there is nothing to do."""
    from millstream.cli.cluster.planning import disks as planner

    known = operated.known_disks
    if broker is not None:
        planner.check_broker(known, broker)
    if path is not None:
        owner = planner.broker_of(known, path, broker)
        nothing = f"{path} of broker {owner} keeps no partition. {FAREWELL}"
        return planner.empty(known, owner, path), f"Empty {path} of broker {owner}?", nothing
    chosen = sorted(known.of_brokers) if broker is None else [broker]
    wanted: Directories = {}
    for one in chosen:
        wanted |= planner.even_out(known, one)
    return wanted, "Even them out?", EVEN


def _conclude(operated: "OperatedCluster", wanted: "Directories", path: str) -> None:
    owner = next(replica.broker for replica in wanted)
    left = sum(replica.broker == owner and stored.path == path for replica, stored in operated.all_disks().current.items())
    if left:
        raise CommandFailed(f"{path} of broker {owner} got {left} partitions meanwhile, that were created: empty it once more.")
    print(f"{path} of broker {owner} keeps no partition now. {FAREWELL}")
