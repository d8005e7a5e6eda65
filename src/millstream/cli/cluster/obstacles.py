"""What stands in the way of a plan, and is said before any of it is begun: other moves, partitions without a leader, dead brokers."""

import sys
from typing import TYPE_CHECKING

from millstream.cli.cluster.planning.plan import Plan
from millstream.cli.cluster.planning.plan_output import count, names
from millstream.errors import CommandFailed

if TYPE_CHECKING:
    from millstream.cli.cluster.operated_cluster import OperatedCluster


def refuse_if_moving(operated: "OperatedCluster") -> None:
    """A plan is made for a cluster in which nothing moves."""
    under_way = {*operated.admin.under_way(), *(replica.place for replica in operated.known_disks.future)}
    if under_way:
        raise CommandFailed(
            f"At {operated.brokers} {count(len(under_way), 'partition')} {'is' if len(under_way) == 1 else 'are'} being moved already: "
            "wait (`millstream cluster reassign --follow`) or take it back (`millstream cluster reassign --cancel`)."
        )


def refuse_leaderless(operated: "OperatedCluster", plan: Plan) -> None:
    """What no broker leads cannot be copied from anywhere, and loses no replica before the others have it all: that would never end."""
    led_by_none = operated.leaderless()
    leaderless = [move.place for move in plan.moves if move.place in led_by_none and (move.adding or move.removing)]
    if leaderless:
        missing = ", ".join(map(str, operated.missing_brokers)) or "none is missing: see their logs"
        raise CommandFailed(
            f"At {operated.brokers} nobody leads {names(leaderless)}, so there is nothing to copy from: start the brokers again that have "
            f"the data (not there: {missing}), or give it up (`millstream cluster elect --unclean`, or delete the topic)."
        )


def refuse_silent(operated: "OperatedCluster", plan: Plan, *, is_throttled: bool) -> None:
    """Say which brokers the plan needs that are dead, though the cluster has not noticed.

    What is copied to them waits until they are back; but no throttle can be set there, and nothing be moved between their disks.
    """
    receiving = {broker for move in plan.copies for broker in move.adding}
    moving_disks = {move.replica.broker for move in plan.disk_moves if move.before is not None}
    silent = operated.silent_brokers({*receiving, *(broker for move in plan.copies for broker in move.before), *moving_disks})
    if not silent:
        return
    is_one = len(silent) == 1
    told = f"{'Broker' if is_one else 'Brokers'} {', '.join(map(str, silent))} {'does' if is_one else 'do'} not answer"
    if is_throttled or not moving_disks.isdisjoint(silent):
        cannot = "no throttle can be set there" if is_throttled else "nothing can be moved between disks there"
        raise CommandFailed(
            f"{told}, so {cannot}, and nothing was begun: wait until the cluster has noticed (`millstream cluster status`) "
            "or start what is dead."
        )
    if not receiving.isdisjoint(silent):
        print(f"{told}: what is copied there waits until that changes.", file=sys.stderr)
