"""What a consumer writes about itself into the registry of its group, and the rules for names that become parts of paths.

    /consumers/<group>/ids/<consumer>       {"topics": {"clicks": 2}}      ephemeral: two streams of the topic `clicks`
    /consumers/<group>/owners/<topic>/<p>   <consumer>-<stream>            ephemeral
    /consumers/<group>/offsets/<topic>/<p>  1234                           persistent: next offset to read

Paths are made in `coordination.paths`. Other programs can write to the tree: what makes no sense is None here, never an error.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from millstream.errors import UsageError
from millstream.json_object import JsonObject
from millstream.zookeeper.errors import BadArguments
from millstream.zookeeper.znode import check_path

MOST_DIGITS = 19
"""Of an offset: 63 bits."""


@dataclass(frozen=True)
class Subscription:
    """The topics that a consumer reads, each with the number of its streams."""

    topics: Mapping[str, int]

    def encode(self) -> bytes:
        """The content of the consumer's znode."""
        return json.dumps({"topics": dict(self.topics)}).encode()


def read_subscription(data: bytes) -> Subscription | None:
    """The subscription in a consumer's znode; None if it holds something else."""
    try:
        return Subscription(JsonObject.parse(data).counts("topics"))
    except ValueError:
        return None


def read_offset(data: bytes) -> int | None:
    """The offset in a znode of the offset registry; None if it holds something else."""
    text = data.decode("ascii", "replace").strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS else None


def check_name(name: str, what: str) -> str:
    """A name that may stand in a path."""
    try:
        check_path(f"/consumers/{name}")
        is_good = "/" not in name
    except BadArguments:
        is_good = False
    if not is_good:
        raise UsageError(f"{what} {name!r} cannot be: it becomes part of a path in ZooKeeper, so no slash, no control character, not empty")
    return name
