"""Moves everything off a broker that is to be retired, whether it still runs or not. Pure.

Each of its replicas goes to the emptiest of the others, largest partitions first; nothing else moves. A partition is spread over as many
racks as the brokers that are left allow. What it led by preference is shared out evenly, as far as
the replicas allow.
"""

from millstream.cli.cluster.planning.layout import Layout, Targets
from millstream.cli.cluster.planning.leaders import balance_leaders
from millstream.cli.cluster.planning.placement import Placement
from millstream.errors import CommandFailed


def drain(layout: Layout, broker: int) -> Targets:
    """What to change so that a broker keeps nothing; `CommandFailed` says why that cannot be."""
    left = sorted(set(layout.racks) - {broker})
    if not left:
        raise CommandFailed(f"Broker {broker} is the last one: start another broker first, there is none that could take its partitions.")
    placement = Placement(layout)
    kept = [place for place, known in layout.partitions.items() if broker in known.replicas]
    most = max((len(layout.partitions[place].replicas) for place in kept), default=0)
    if most > len(left):
        wanting = sorted({place.topic for place in kept if len(layout.partitions[place].replicas) > len(left)})
        raise CommandFailed(
            f"Without broker {broker} there are {len(left)} brokers, and {_names(wanting)} {'has' if len(wanting) == 1 else 'have'} "
            f"{most} replicas: start another broker first, or lower the number of replicas "
            "(`millstream cluster reassign --topic T --replicas N`)."
        )
    for place in sorted(kept, key=lambda place: (-placement.size_of(place), place)):
        others = [other for other in placement.replicas[place] if other != broker]
        new = placement.emptiest(place, others, left)
        assert new is not None, "there are enough brokers"
        placement.replace(place, broker, new)
    balance_leaders(placement, [place for place in kept if layout.partitions[place].replicas[0] == broker])
    return placement.targets


def _names(topics: list[str]) -> str:
    most_named = 3
    more = f" and {len(topics) - most_named} more" if len(topics) > most_named else ""
    return ("the topic " if len(topics) == 1 else "the topics ") + ", ".join(topics[:most_named]) + more
