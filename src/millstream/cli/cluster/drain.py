"""`millstream cluster drain`: move everything off a broker, so that it may be stopped for good; also off one that is dead."""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from millstream.cli.cluster.parameters import AsJson, DryRun, NoWait, Throttle, Yes
from millstream.cli.parameters import DEFAULT_BROKERS, Brokers, ClientOptions
from millstream.errors import CommandFailed

if TYPE_CHECKING:
    from millstream.cli.cluster.operated_cluster import OperatedCluster

METADATA_SECONDS = 10.0


def drain(
    broker: Annotated[int, typer.Argument(metavar="BROKER", help="Id of the broker.", min=0, show_default=False)],
    *,
    throttle: Throttle = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    no_wait: NoWait = False,
    as_json: AsJson = False,
    brokers: Brokers = DEFAULT_BROKERS,
    client_options: ClientOptions = None,
) -> None:
    """Move every partition off a broker, to the emptiest of the others; then it may be stopped for good.

    The broker may be dead: what it had is then copied from the other replicas. Topics that are created meanwhile may be placed on it: then
    it says so, and a second drain moves them.
    """
    from millstream.cli.cluster.execution import Manner, carry_out
    from millstream.cli.cluster.obstacles import refuse_if_moving, refuse_leaderless
    from millstream.cli.cluster.operated_cluster import open_operated
    from millstream.cli.cluster.planning import drain as planner
    from millstream.cli.cluster.planning.plan import Plan

    manner = Manner(yes, dry_run, as_json, no_wait, throttle)
    manner.check()
    with open_operated(brokers, client_options) as operated:
        _check_known(operated, broker)
        refuse_if_moving(operated)
        layout = operated.layout()
        plan = Plan.of(layout, planner.drain(layout, broker))
        refuse_leaderless(operated, plan)
        if not plan.moves and not as_json:
            print(f"Broker {broker} keeps no partition: it may be stopped for good.")
        elif carry_out(operated, plan, manner, with_loads=True, question=f"Drain broker {broker}?"):
            _conclude(operated, broker)


def _check_known(operated: "OperatedCluster", broker: int) -> None:
    known = sorted({*operated.live_brokers, *operated.missing_brokers})
    if broker not in known:
        there = ", ".join(map(str, known))
        raise CommandFailed(f"At {operated.brokers} there is no broker {broker}, and none that had partitions; there are {there}.")


def _conclude(operated: "OperatedCluster", broker: int) -> None:
    until = time.monotonic() + METADATA_SECONDS
    while left := _kept_by(operated, broker):
        if time.monotonic() > until:
            raise CommandFailed(f"Broker {broker} got {left} partitions meanwhile, of topics that were created: drain it once more.")
        time.sleep(0.1)
    print(f"Broker {broker} keeps no partition now: {_farewell(operated, broker)}")


def _farewell(operated: "OperatedCluster", broker: int) -> str:
    return "it may be stopped for good." if broker in operated.live_brokers else "it need not come back."


def _kept_by(operated: "OperatedCluster", broker: int) -> int:
    topics = operated.cluster.refresh(None).topics
    return sum(broker in partition.replicas for topic in topics.values() for partition in topic.partitions.values())
