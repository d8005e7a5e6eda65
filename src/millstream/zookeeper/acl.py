"""Access lists of znodes: who may read, write, create, delete and administer, by ZooKeeper's rules.

    scheme   id                          matches
    world    anyone                      every client
    digest   user:base64(sha1(user:pw))  a client that sent `addauth digest user:pw`
    ip       address or network          a client from there
    auth     (ignored)                   in a request only: stands for every digest identity the client has

The broker itself, inside the process, is not checked. There is no SASL and no x509 here: the embedded tree listens on loopback.
"""

import base64
import hashlib
from typing import NamedTuple

from millstream.zookeeper.errors import AuthenticationFailed, InvalidAcl, NoAuth

READ, WRITE, CREATE, DELETE, ADMIN = 1, 2, 4, 8, 16
ALL_PERMISSIONS = READ | WRITE | CREATE | DELETE | ADMIN


class Identity(NamedTuple):
    """A scheme and who one is in it."""

    scheme: str
    id: str


class AclEntry(NamedTuple):
    """What one identity may do: a bit set of READ, WRITE, CREATE, DELETE, ADMIN."""

    permissions: int
    identity: Identity


Acl = tuple[AclEntry, ...]

ANYONE = Identity("world", "anyone")
OPEN_TO_ALL: Acl = (AclEntry(ALL_PERMISSIONS, ANYONE),)


def digest_identity(credentials: bytes) -> Identity:
    """The identity proved by `user:password`; the password itself is never stored."""
    user, colon, _ = credentials.partition(b":")
    if not colon:
        raise AuthenticationFailed("digest credentials are user:password")
    digest = base64.b64encode(hashlib.sha1(credentials, usedforsecurity=False).digest()).decode("ascii")
    return Identity("digest", f"{user.decode('utf-8', 'replace')}:{digest}")


def resolve(requested: Acl, identities: frozenset[Identity]) -> Acl:
    """Check the list of a request and put the client's own identities in place of `auth`."""
    resolved: list[AclEntry] = []
    for entry in requested:
        scheme, name = entry.identity
        if scheme == "auth":
            own = [AclEntry(entry.permissions, identity) for identity in sorted(identities) if identity.scheme != "ip"]
            if not own:
                raise InvalidAcl("an access list for `auth` needs an authenticated client")
            resolved.extend(own)
        elif (
            (scheme == "world" and name == "anyone")
            or (scheme == "digest" and name.count(":") == 1)
            or (scheme == "ip" and _is_network(name))
        ):
            resolved.append(entry)
        else:
            raise InvalidAcl(f"no such identity: {scheme}:{name}")
    if not resolved:
        raise InvalidAcl("an access list must not be empty")
    unique = tuple(dict.fromkeys(resolved))
    return OPEN_TO_ALL if unique == OPEN_TO_ALL else unique


def require(acl: Acl, permission: int, identities: frozenset[Identity] | None) -> None:
    """Raise `NoAuth` unless one of the identities has the permission; None is the broker itself, which may do everything."""
    if identities is not None and acl is not OPEN_TO_ALL and not is_granted(acl, permission, identities):
        raise NoAuth("the access list of the znode does not allow this")


def is_granted(acl: Acl, permission: int, identities: frozenset[Identity]) -> bool:
    """Whether one of the identities has the permission."""
    return any(
        granted & permission and (identity == ANYONE or identity in identities or _is_address_of(identity, identities))
        for granted, identity in acl
    )


def _is_address_of(identity: Identity, identities: frozenset[Identity]) -> bool:
    if identity.scheme != "ip":
        return False
    from ipaddress import ip_address, ip_network  # rare, and slow to import

    network = ip_network(identity.id, strict=False)
    return any(ip_address(own.id) in network for own in identities if own.scheme == "ip")


def _is_network(text: str) -> bool:
    from ipaddress import ip_network

    try:
        ip_network(text, strict=False)
    except ValueError:
        return False
    return True
