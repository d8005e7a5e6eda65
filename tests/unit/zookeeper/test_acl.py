import pytest

from millstream.zookeeper.acl import (
    ANYONE,
    DELETE,
    OPEN_TO_ALL,
    READ,
    WRITE,
    Acl,
    AclEntry,
    Identity,
    digest_identity,
    require,
    resolve,
)
from millstream.zookeeper.errors import AuthenticationFailed, InvalidAcl, NoAuth


def test_a_digest_is_the_one_that_kazoo_and_zookeeper_compute() -> None:
    assert digest_identity(b"super:test") == Identity("digest", "super:D/InIHSb7yEEbrWz8b9l71RjZJU=")


def test_credentials_without_a_password_are_refused() -> None:
    with pytest.raises(AuthenticationFailed):
        digest_identity(b"ann")


def test_auth_stands_for_the_identities_of_the_client() -> None:
    alice = digest_identity(b"alice:secret")
    requested: Acl = (AclEntry(READ, Identity("auth", "")),)
    assert resolve(requested, frozenset({alice, Identity("ip", "127.0.0.1")})) == (AclEntry(READ, alice),)
    with pytest.raises(InvalidAcl):
        resolve(requested, frozenset())


@pytest.mark.parametrize("identity", [Identity("sasl", "x"), Identity("world", "me"), Identity("digest", "a"), Identity("ip", "nowhere")])
def test_an_identity_that_cannot_be_is_refused(identity: Identity) -> None:
    with pytest.raises(InvalidAcl):
        resolve((AclEntry(READ, identity),), frozenset())


def test_an_access_list_is_never_empty() -> None:
    with pytest.raises(InvalidAcl):
        resolve((), frozenset())


def test_the_open_list_is_always_the_same_object() -> None:
    assert resolve((AclEntry(31, Identity("world", "anyone")),), frozenset()) is OPEN_TO_ALL


def test_a_permission_is_granted_by_any_entry_that_matches() -> None:
    alice = digest_identity(b"alice:secret")
    acl: Acl = (AclEntry(READ, ANYONE), AclEntry(WRITE, alice), AclEntry(DELETE, Identity("ip", "10.0.0.0/8")))
    require(acl, READ, frozenset())
    require(acl, WRITE, frozenset({alice}))
    require(acl, DELETE, frozenset({Identity("ip", "10.1.2.3")}))
    require(acl, DELETE, None)
    for identities in (frozenset[Identity](), frozenset({Identity("ip", "11.1.2.3")})):
        with pytest.raises(NoAuth):
            require(acl, DELETE, identities)
