"""What can go wrong in the tree of znodes, each with the code that ZooKeeper's protocol gives it.

    ZooKeeperError
    ├── the tree says no      NoNode, NodeExists, NotEmpty, BadVersion, NoChildrenForEphemerals, BadArguments
    ├── permissions           NoAuth, InvalidAcl, AuthenticationFailed
    ├── the session           SessionExpired, SessionMoved, ConnectionLost (TreeOffline)
    └── the protocol          MarshallingError, Unimplemented, RuntimeInconsistency

`ConnectionLost` is the one error after which the caller does not know whether a write happened: it has to look.
"""

from typing import ClassVar

from millstream.errors import MillstreamError


class ZooKeeperError(MillstreamError):
    """An operation on the tree failed; `operation_index` says which operation of a multi it was."""

    code: ClassVar[int] = -1
    operation_index: int | None = None


class RuntimeInconsistency(ZooKeeperError):
    """An operation of a multi that was not tried because another one failed."""

    code = -2


class ConnectionLost(ZooKeeperError):
    """The server went away; a write that was under way may or may not have happened."""

    code = -4


class TreeOffline(ConnectionLost):
    """The disk under the embedded tree failed; nothing is read or written any more until a restart."""


class MarshallingError(ZooKeeperError):
    """Bytes that are not the request they claim to be."""

    code = -5


class Unimplemented(ZooKeeperError):
    """An operation that this server does not have."""

    code = -6


class BadArguments(ZooKeeperError):
    """A path or a flag that cannot be."""

    code = -8


class NoNode(ZooKeeperError):
    """No znode at that path, or no parent to create it under."""

    code = -101


class NoAuth(ZooKeeperError):
    """The znode's access list does not let this client do that."""

    code = -102


class BadVersion(ZooKeeperError):
    """The znode has another version than the one the caller expected."""

    code = -103


class NoChildrenForEphemerals(ZooKeeperError):
    """An ephemeral znode cannot have children."""

    code = -108


class NodeExists(ZooKeeperError):
    """There is a znode at that path."""

    code = -110


class NotEmpty(ZooKeeperError):
    """The znode has children and cannot be deleted."""

    code = -111


class SessionExpired(ZooKeeperError):
    """The session is over; its ephemeral znodes and watches are gone."""

    code = -112


class InvalidAcl(ZooKeeperError):
    """An access list that is empty or names an unknown scheme."""

    code = -114


class AuthenticationFailed(ZooKeeperError):
    """The credentials are of an unknown scheme, or not in its form."""

    code = -115


class SessionMoved(ZooKeeperError):
    """The session continued on another connection."""

    code = -118


def _all_subclasses(base: type[ZooKeeperError]) -> list[type[ZooKeeperError]]:
    return [found for child in base.__subclasses__() for found in (child, *_all_subclasses(child))]


ERROR_OF_CODE: dict[int, type[ZooKeeperError]] = {error.code: error for error in reversed(_all_subclasses(ZooKeeperError))}
