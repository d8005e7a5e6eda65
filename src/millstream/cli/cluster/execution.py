"""Carries out a plan: throttles, begins, follows until the last replica is in sync, unthrottles, lets the preferred replicas lead.

Once begun, the moves are the cluster's business: they go on if this command is interrupted or loses the brokers. It then says what is left
and how to go on. A plan of which a part is refused is taken back whole.
"""

import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from millstream.cli.cluster.confirmation import confirm
from millstream.cli.cluster.disks.disk_moves import DiskMoves
from millstream.cli.cluster.ending import finish, how_to_go_on, remove_throttles
from millstream.cli.cluster.obstacles import refuse_silent
from millstream.cli.cluster.planning.plan import Move, Plan
from millstream.cli.cluster.planning.plan_output import count, names_were, print_plan
from millstream.cli.cluster.throttle import parse_rate, throttled
from millstream.cli.output import print_json
from millstream.client.retry import may_pass
from millstream.errors import CommandFailed, KafkaError, MillstreamError, UsageError

if TYPE_CHECKING:
    from millstream.cli.cluster.operated_cluster import OperatedCluster
    from millstream.client.admin.config_admin import Options, Resource


@dataclass(frozen=True)
class Manner:
    """How a command was asked to carry out its plan."""

    yes: bool
    dry_run: bool
    as_json: bool
    no_wait: bool
    throttle: str | None

    @property
    def rate(self) -> int | None:
        """Bytes a second."""
        return None if self.throttle is None else parse_rate(self.throttle)

    def check(self) -> None:
        """Raise if the flags contradict each other."""
        _ = self.rate
        if self.as_json and not self.dry_run:
            raise UsageError("--json belongs to --dry-run: it writes the plan and nothing else.")


def carry_out(operated: "OperatedCluster", plan: Plan, manner: Manner, *, with_loads: bool, question: str) -> bool:
    """Show the plan, ask, do it; whether it was done to the end."""
    if manner.as_json:
        print_json(plan.document())
        return False
    print_plan(plan, with_loads=with_loads)
    rate = manner.rate
    options = throttled(plan.moves, plan.disk_moves, rate, operated.live_brokers) if rate is not None else {}
    refuse_silent(operated, plan, is_throttled=bool(options) and not manner.dry_run)
    if manner.dry_run:
        print("Nothing was changed: this was a dry run.")
        return False
    if not plan.places or not confirm(question, yes=manner.yes):
        return False
    between_disks = DiskMoves(operated, plan.disk_moves)
    try:
        _begin(operated, plan, between_disks, options)
        if manner.no_wait:
            print(f"begun: {count(len(plan.places), 'partition')}. {how_to_go_on(is_throttled=bool(options))}")
            return False
        finish(operated, plan.moves, between_disks, options)
    except (KeyboardInterrupt, OSError):  # an OSError: nobody reads what is printed any more, or it cannot be written
        say_what_is_left(operated, is_throttled=bool(options))
        raise
    return True


def _begin(operated: "OperatedCluster", plan: Plan, between_disks: DiskMoves, options: "Mapping[Resource, Options]") -> None:
    """All of it, or nothing: what was begun is taken back if anything is refused. Directories first, so that new replicas find theirs."""
    operated.throttle(options)
    begun: list[Move] = []
    refused: Mapping[Any, MillstreamError]
    try:
        refused = between_disks.begin() if plan.disk_moves else {}
        if not refused and plan.moves:
            refused = operated.admin.alter(plan.targets)
            begun = [move for move in plan.moves if move.place not in refused]
    except MillstreamError as error:
        if isinstance(error, KafkaError) and not may_pass(error) and _is_nothing_left(operated, plan, between_disks):
            remove_throttles(operated, options)
            raise
        raise _partly_begun(error, options) from error
    if not refused:
        return
    try:
        _take_back(operated, begun, between_disks)
    except MillstreamError as error:
        raise _partly_begun(error, options) from error
    remove_throttles(operated, options)
    what, reason = min(refused.items(), key=lambda item: str(item[0]))
    raise CommandFailed(f"At {operated.brokers} the plan was refused and taken back: {names_were(refused)} refused; {what}: {reason}.")


def _take_back(operated: "OperatedCluster", begun: Collection[Move], between_disks: DiskMoves) -> None:
    if begun:
        operated.admin.alter({move.place: None for move in begun})
        # What needed no copy was done at once; and the replicas of what was taken back are in the order that the plan wanted.
        operated.admin.alter({move.place: move.before for move in begun})
    if between_disks.moves:
        between_disks.take_back()


def _is_nothing_left(operated: "OperatedCluster", plan: Plan, between_disks: DiskMoves) -> bool:
    """Whether no replica of it is moving, or moves between disks could be taken back; if that cannot be asked, some may be."""
    try:
        if not operated.admin.under_way().keys().isdisjoint(plan.targets):
            return False
        return not plan.disk_moves or not between_disks.take_back()
    except MillstreamError:
        return False


def _partly_begun(error: MillstreamError, options: "Mapping[Resource, Options]") -> CommandFailed:
    return CommandFailed(f"{error}. A part may have been begun. {how_to_go_on(is_throttled=bool(options))}")


def say_what_is_left(operated: "OperatedCluster", *, is_throttled: bool) -> None:
    """Tell who interrupts that the cluster goes on, and how to go on with it."""
    try:
        between_disks = {move.place for move in operated.disk_moves_under_way()}
        left = count(len({*operated.admin.under_way(), *between_disks}), "partition")
    except (MillstreamError, KeyboardInterrupt):  # who is in a hurry is told no less
        left = "some of what was begun may be"
    print(f"\ninterrupted: {left} left. {how_to_go_on(is_throttled=is_throttled)}", file=sys.stderr)
