"""One node of the tree, and the rules for its path.

ZooKeeper counts creates, not children, in a parent: the count is the number a sequential child gets, and the `cversion` that clients see is
`2 * creates - children`, which grows with creates and deletes alike. A container is a znode that vanishes some time after its last child;
like ZooKeeper it is recognised by a special owner.
"""

from typing import NamedTuple

from millstream.zookeeper.acl import Acl
from millstream.zookeeper.errors import BadArguments

CONTAINER_OWNER = -(2**63)


class ZnodeStat(NamedTuple):
    """ZooKeeper's stat of a znode, field for field."""

    czxid: int
    mzxid: int
    ctime_ms: int
    mtime_ms: int
    version: int
    cversion: int
    aversion: int
    ephemeral_owner: int
    data_length: int
    children_count: int
    pzxid: int


class Znode:
    """Data, versions and the names of the children."""

    __slots__ = ("acl", "aversion", "children", "creates", "ctime_ms", "czxid", "data", "mtime_ms", "mzxid", "owner", "pzxid", "version")

    def __init__(self, data: bytes | None, acl: Acl, *, owner: int, zxid: int, time_ms: int) -> None:
        self.data = data
        self.acl = acl
        self.owner = owner
        self.czxid = self.mzxid = self.pzxid = zxid
        self.ctime_ms = self.mtime_ms = time_ms
        self.version = self.aversion = self.creates = 0
        self.children: dict[str, None] = {}
        """Names in the order in which they came: that is sorted much sooner than a set is."""

    @property
    def is_ephemeral(self) -> bool:
        """Whether it goes with a session."""
        return self.owner not in (0, CONTAINER_OWNER)

    def stat(self) -> ZnodeStat:
        """What a client sees of it."""
        children_count = len(self.children)
        return ZnodeStat(
            self.czxid,
            self.mzxid,
            self.ctime_ms,
            self.mtime_ms,
            self.version,
            2 * self.creates - children_count,
            self.aversion,
            self.owner,
            len(self.data or b""),
            children_count,
            self.pzxid,
        )


def parent_of(path: str) -> str:
    """The path of the parent; the root is its own."""
    return path[: path.rindex("/")] or "/"


def check_path(path: str) -> None:
    """Raise `BadArguments` for what ZooKeeper does not take as a path."""
    if path == "/":
        return
    if not path.startswith("/"):
        raise BadArguments(f"a path starts with a slash: {path!r}")
    for name in path[1:].split("/"):
        if name in ("", ".", ".."):
            raise BadArguments(f"a path has no empty, '.' or '..' element: {path!r}")
    if not path.isascii() or not path.isprintable():
        _check_characters(path)


def _check_characters(path: str) -> None:
    for character in path:
        if character <= "\x1f" or "\x7f" <= character <= "\x9f" or "\ud800" <= character <= "\uf8ff" or "\ufff0" <= character <= "\uffff":
            raise BadArguments(f"a path has no character {character!r}: {path!r}")
