"""`millstream cluster rebalance`: even out what the brokers of a cluster keep and lead, for example when one was added."""

from millstream.cli.cluster.parameters import AsJson, DryRun, NoWait, Throttle, Yes
from millstream.cli.parameters import DEFAULT_BROKERS, Brokers, ClientOptions
from millstream.errors import CommandFailed

EVEN = (
    "Nothing to do: the brokers keep and lead equally much (to within a tenth, or 1 MiB), or as nearly as racks and the sizes of partitions"
    " allow."
)


def rebalance(
    *,
    throttle: Throttle = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    no_wait: NoWait = False,
    as_json: AsJson = False,
    brokers: Brokers = DEFAULT_BROKERS,
    client_options: ClientOptions = None,
) -> None:
    """Even out bytes, partitions and leaders over all brokers, with as few bytes copied as that takes."""
    from millstream.cli.cluster.execution import Manner, carry_out
    from millstream.cli.cluster.obstacles import refuse_if_moving
    from millstream.cli.cluster.operated_cluster import open_operated
    from millstream.cli.cluster.planning.balance import balance
    from millstream.cli.cluster.planning.plan import Plan

    manner = Manner(yes, dry_run, as_json, no_wait, throttle)
    manner.check()
    with open_operated(brokers, client_options) as operated:
        refuse_if_moving(operated)
        if operated.missing_brokers:
            missing = ", ".join(map(str, operated.missing_brokers))
            raise CommandFailed(
                f"At {operated.brokers} brokers that keep partitions are not there: {missing}. Start them, or move what they had "
                "(`millstream cluster drain BROKER`); then rebalance."
            )
        layout = operated.layout()
        plan = Plan.of(layout, balance(layout))
        if not plan.moves and not as_json:
            print(EVEN)
            return
        carry_out(operated, plan, manner, with_loads=True, question="Rebalance?")
