"""How fast replicas may be copied: Kafka's replication throttles (KIP-73), set before a move and removed after it. Pure.

A rate holds per broker, in bytes a second, for what it sends as a leader and for what it receives as a follower; and only for the replicas
that a topic names: those that are read from, and those that are new. What is in sync is not slowed down. What moves between the disks of a
broker has a rate of its own (KIP-113), for all of it together.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from millstream.cli.cluster.planning.plan import DiskMove, Move
from millstream.client.admin.config_admin import BROKER, TOPIC, Options, Resource
from millstream.errors import UsageError

SIDES: Final = ("leader", "follower")
RATE_OPTIONS: Final = tuple(f"{side}.replication.throttled.rate" for side in SIDES)
DISK_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
BROKER_OPTIONS: Final = (*RATE_OPTIONS, DISK_RATE)
TOPIC_OPTIONS: Final = tuple(f"{side}.replication.throttled.replicas" for side in SIDES)
EVERY_REPLICA: Final = "*"
FASTEST: Final = (1 << 63) - 1
LONGEST_LIST: Final = 30_000
"""A string of Kafka's older protocols has at most 32 767 bytes."""

_RATE: Final = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[kmgt]?i?)b?(?:/s)?", re.IGNORECASE)
_UNITS: Final = {"": 1, **{f"{letter}{i}": (1024 if i else 1000) ** power for power, letter in enumerate("kmgt", 1) for i in ("", "i")}}


def parse_rate(text: str) -> int:
    """Bytes a second: `50MB`, `1.5 MiB/s`, `1000000`."""
    found = _RATE.fullmatch(text.strip())
    rate = float(found["number"]) * _UNITS.get(found["unit"].lower(), 0) if found else 0
    if not 1 <= rate < FASTEST:
        raise UsageError(f"--throttle {text!r}: expected bytes a second, as in 50MB or 10MiB.")
    return int(rate)


def throttled(moves: Iterable[Move], disk_moves: Iterable[DiskMove], rate: int, there: Collection[int]) -> dict[Resource, Options]:
    """The options that slow down these moves, of topics and of the brokers that are there."""
    by_disk = {move.replica.broker for move in disk_moves}
    leaders: dict[str, list[str]] = {}
    followers: dict[str, list[str]] = {}
    brokers: set[int] = set()
    for move in moves:
        if move.adding:
            brokers.update(move.before, move.adding)
            topic, partition = move.place
            leaders.setdefault(topic, []).extend(f"{partition}:{broker}" for broker in move.before)
            followers.setdefault(topic, []).extend(f"{partition}:{broker}" for broker in move.adding)
    of_topics: dict[Resource, Options] = {
        Resource(TOPIC, topic): dict(zip(TOPIC_OPTIONS, (_listed(leaders[topic]), _listed(followers[topic])), strict=True))
        for topic in sorted(leaders)
    }
    return of_topics | {
        Resource(BROKER, str(broker)): dict.fromkeys(
            (*(RATE_OPTIONS if broker in brokers else ()), *((DISK_RATE,) if broker in by_disk else ())), str(rate)
        )
        for broker in sorted((brokers | by_disk).intersection(there))
    }


def _listed(replicas: list[str]) -> str:
    text = ",".join(replicas)
    return text if len(text) <= LONGEST_LIST else EVERY_REPLICA


def left_by_moves(throttles: Mapping[Resource, Mapping[str, str]], *, moving: Collection[str]) -> dict[Resource, list[str]]:
    """Of the throttles that are set those that moves may have set, whoever began them: all that name replicas, and the rates.

    `*`, on a topic that is not `moving`, was set by a person, for good. It stays, and so do the rates, without which it says nothing; but
    not that of the disks, which it does not need.
    """
    kept = {one for one, values in throttles.items() if one.kind == TOPIC and one.name not in moving and EVERY_REPLICA in values.values()}
    needed = RATE_OPTIONS if kept else ()
    found = {one: [name for name in values if name not in needed] for one, values in throttles.items() if one not in kept}
    return {one: names for one, names in found.items() if names}


def unthrottled(throttles: Mapping[Resource, Collection[str]]) -> dict[Resource, Options]:
    """What removes these options of topics and brokers."""
    return {resource: dict.fromkeys(names) for resource, names in throttles.items()}
