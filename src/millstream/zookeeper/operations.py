"""The operations that change the tree, as values: what a caller asks for, alone or several together in a multi.

A `version` of -1 means "whatever version it has". Access lists and containers are there for ZooKeeper's own clients; Millstream itself uses
neither. Nor does it write null data, which ZooKeeper distinguishes from empty data and which its clients get back as they wrote it.
"""

from typing import NamedTuple

from millstream.zookeeper.acl import OPEN_TO_ALL, Acl

ANY_VERSION = -1


class Create(NamedTuple):
    """Create a znode; `sequential` appends a ten-digit number that grows with every create under the same parent."""

    path: str
    data: bytes | None = b""
    ephemeral: bool = False
    sequential: bool = False
    acl: Acl = OPEN_TO_ALL
    container: bool = False


class SetData(NamedTuple):
    """Replace the data of a znode."""

    path: str
    data: bytes | None
    version: int = ANY_VERSION


class Delete(NamedTuple):
    """Remove a znode that has no children."""

    path: str
    version: int = ANY_VERSION


class Check(NamedTuple):
    """Let a multi fail unless the znode exists in this version."""

    path: str
    version: int = ANY_VERSION


class SetAcl(NamedTuple):
    """Replace the access list of a znode; `version` is that of the list, not of the data."""

    path: str
    acl: Acl
    version: int = ANY_VERSION


Operation = Create | SetData | Delete | Check
TreeOperation = Operation | SetAcl
