"""Plans what moves between the data directories of a broker: off one of them, or so that all are equally full. Pure.

The directories of a broker are to its replicas what brokers are to partitions, so the planners of those do it: each replica is a partition
with one copy, each directory a broker. Nothing moves to another broker. Where the broker tells how large their disks are, each is to have
its share of that; else all are taken to be of one size.

What cannot be is said before anything is begun: a directory that the broker does not have, that is offline or the only one; one that is
offline beside it, since no broker moves anything then (a copy that was begun there could not be found); no room. A part of what is free is
not counted as room: the logs that are there grow while others are copied, and a disk that is full is offline.
"""

from collections import Counter
from collections.abc import Mapping
from posixpath import normpath
from typing import Final

from millstream.cli.cluster.planning.balance import balance_replicas
from millstream.cli.cluster.planning.drain import drain
from millstream.cli.cluster.planning.layout import Layout, PartitionLayout, Targets
from millstream.cli.cluster.planning.placement import Placement
from millstream.cli.output import format_size
from millstream.client.admin.disk_admin import Disk, Disks, Replica
from millstream.errors import CommandFailed

PROCESS: Final = "/process."
RESERVED_SHARE: Final = 0.05
MOST_RESERVED_BYTES: Final = 1 << 30
Directories = dict[Replica, str]
"""The directories that replicas should be in; those that stay where they are do not occur."""


def empty(disks: Disks, broker: int, path: str) -> Directories:
    """What to move so that a directory keeps nothing; `CommandFailed` says why that cannot be."""
    path = normpath(path)
    own = _usable(disks, broker, path)
    if len(own) == 1:
        raise CommandFailed(
            f"{path} is the only data directory of broker {broker}: there is none that could take what it has. Start the broker with one "
            f"more (--data), or move its partitions to other brokers (`millstream cluster drain {broker}`)."
        )
    number = [disk.path for disk in own].index(path)
    return _checked(disks, broker, drain(_layout(disks, broker), number))


def even_out(disks: Disks, broker: int) -> Directories:
    """What to move so that the directories of a broker are equally full, by bytes and replicas; nothing, where there is one directory."""
    if len(_usable(disks, broker, None)) == 1:
        return {}
    placement = Placement(_layout(disks, broker))
    balance_replicas(placement)
    return _checked(disks, broker, placement.targets)


def broker_of(disks: Disks, path: str, broker: int | None) -> int:
    """Whose directory is meant, if nobody says so: that of the only broker that has it."""
    if broker is not None:
        return broker
    path = normpath(path)
    owners = [number for number in sorted(disks.of_brokers) if disks.disk(number, path) is not None]
    if len(owners) > 1:
        raise CommandFailed(f"The brokers {', '.join(map(str, owners))} have a data directory {path} each: say which with --broker.")
    if not owners:
        raise CommandFailed(
            f"No broker has a data directory {path}{_meant(disks, path)}; `millstream cluster disks` shows those there are."
        )
    return owners[0]


def check_broker(disks: Disks, broker: int) -> None:
    """Raise unless the broker has told what it has."""
    if broker not in disks.of_brokers:
        there = ", ".join(map(str, sorted(disks.of_brokers))) or "none"
        raise CommandFailed(f"Broker {broker} is not there, or does not answer; those that do: {there}.")


def problem_of(disks: Disks, broker: int, path: str, *, moves: bool) -> str | None:
    """Why a replica cannot be put into a directory; `moves`: it is in another one now."""
    if broker not in disks.of_brokers:
        return f"broker {broker} does not answer, so its data directories are not known"
    disk = disks.disk(broker, path)
    if disk is None:
        others = [number for number in sorted(disks.of_brokers) if disks.disk(number, path) is not None]
        whose = f" (it is one of broker {', '.join(map(str, others))})" if others else _meant(disks, path)
        return f"broker {broker} has no data directory {path}{whose}; it has {_paths(disks.of_brokers[broker])}"
    if not disk.is_online:
        return f"the data directory {path} of broker {broker} is offline"
    offline = [other for other in disks.of_brokers[broker] if not other.is_online]
    if moves and offline:
        return f"broker {broker} moves nothing between its data directories while one of them is offline: {_paths(offline)}"
    return None


def _usable(disks: Disks, broker: int, path: str | None) -> tuple[Disk, ...]:
    """The directories of a broker; `CommandFailed` if nothing can be moved between them."""
    check_broker(disks, broker)
    own = disks.of_brokers[broker]
    for wanted in [path] if path is not None else [disk.path for disk in own]:
        problem = problem_of(disks, broker, wanted, moves=True)
        if problem is not None:
            is_offline = any(not disk.is_online for disk in own)
            remedy = ". Repair the disk and restart the broker, or give it up (docs/operations.md)" if is_offline else ""
            raise CommandFailed(f"Nothing was begun: {problem}{remedy}.")
    return own


def _layout(disks: Disks, broker: int) -> Layout:
    own = disks.of_brokers[broker]
    numbers = {disk.path: number for number, disk in enumerate(own)}
    totals = [disk.total_bytes or 0 for disk in own]
    mean = sum(totals) / max(len(totals), 1)
    capacities = {number: total / mean for number, total in enumerate(totals)} if all(totals) else {}
    return Layout(
        dict.fromkeys(numbers.values()),
        {
            replica.place: PartitionLayout((numbers[stored.path],), stored.size_bytes)
            for replica, stored in disks.current.items()
            if replica.broker == broker
        },
        capacities,
    )


def _checked(disks: Disks, broker: int, targets: Targets) -> Directories:
    """The directories by their paths; `CommandFailed` if one has no room for what is to come."""
    own = disks.of_brokers[broker]
    wanted = {Replica(broker, place): own[number].path for place, (number,) in targets.items()}
    for path, problem in short_of_room(disks, wanted):
        raise CommandFailed(f"Nothing was begun: {problem}. Make room on {path}, or move partitions to other brokers.")
    return wanted


def short_of_room(disks: Disks, wanted: Mapping[Replica, str]) -> list[tuple[str, str]]:
    """Directories that have less room than what is to come needs, as far as brokers tell; with a sentence each."""
    coming: Counter[tuple[int, str]] = Counter()
    for replica, path in wanted.items():
        stored = disks.current.get(replica)
        if stored is not None and stored.path != path:
            coming[replica.broker, path] += stored.size_bytes
    found = []
    for (broker, path), needed in sorted(coming.items()):
        disk = disks.disk(broker, path)
        if disk is None or disk.free_bytes is None:
            continue
        reserve = min(int(RESERVED_SHARE * (disk.total_bytes or 0)), MOST_RESERVED_BYTES)
        room = max(disk.free_bytes - reserve, 0)
        if needed > room:
            kept = f" ({format_size(disk.free_bytes)} are free, and {format_size(reserve)} are kept in reserve)" if reserve else ""
            problem = f"{path} of broker {broker} has room for {format_size(room)}{kept}, and {format_size(needed)} would be moved there"
            found.append((path, problem))
    return found


def _meant(disks: Disks, path: str) -> str:
    """A hint, where the directory of several processes was named instead of that of one."""
    below = sorted(disk.path for own in disks.of_brokers.values() for disk in own if disk.path.startswith(path.rstrip("/") + PROCESS))
    return f" (several processes share it, each broker has its own: {', '.join(below)})" if below else ""


def _paths(disks: tuple[Disk, ...] | list[Disk]) -> str:
    return ", ".join(disk.path for disk in disks)
