"""Reads of many znodes, of which any may be gone: many under way at a time, and what is not there is no error."""

import asyncio
from collections.abc import Iterable
from itertools import islice
from typing import Final, NamedTuple

from millstream.coordination.interface import Coordination, ZnodeStat
from millstream.zookeeper.errors import NoNode

AT_ONCE: Final = 250
"""Reads under way at a time: many, so that a ZooKeeper far away costs little, and few enough for one turn of the loop."""


class Found(NamedTuple):
    """A znode."""

    data: bytes
    stat: ZnodeStat


async def get_all(coordination: Coordination, wanted: Iterable[str]) -> list[Found | None]:
    """The znodes at these paths; None for those that are not there."""
    found: list[Found | None] = []
    remaining = iter(wanted)
    while some := list(islice(remaining, AT_ONCE)):
        found += await asyncio.gather(*(_get(coordination, path) for path in some))
    return found


async def children_of(coordination: Coordination, path: str) -> list[str]:
    """Names of the children; none of a znode that is not there."""
    try:
        return await coordination.children(path)
    except NoNode:
        return []


async def _get(coordination: Coordination, path: str) -> Found | None:
    try:
        return Found(*await coordination.get(path))
    except NoNode:
        return None
