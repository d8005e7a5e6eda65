import pytest

from millstream.zookeeper.acl import OPEN_TO_ALL, READ, AclEntry, Identity
from millstream.zookeeper.change import (
    AclChanged,
    DataChanged,
    NodeCreated,
    NodeDeleted,
    SessionClosed,
    SessionOpened,
    Transaction,
    decode_transaction,
    encode_transaction,
)
from millstream.zookeeper.errors import MarshallingError

ACL = (AclEntry(READ, Identity("digest", "a:b")),)
CHANGES = (
    NodeCreated("/a", b"data", OPEN_TO_ALL, 0),
    NodeCreated("/ü", None, ACL, 5),
    DataChanged("/a", b""),
    DataChanged("/a", None),
    NodeDeleted("/a"),
    AclChanged("/a", ACL),
    SessionOpened(2**60, 4_000, b"0123456789abcdef", "broker-1"),
    SessionClosed(2**60),
)


def test_every_change_survives_the_journal() -> None:
    transaction = Transaction(1, 2, 1_700_000_000_000, CHANGES)
    assert decode_transaction(encode_transaction(transaction)) == transaction


def test_an_open_access_list_comes_back_as_the_same_object() -> None:
    (change,) = decode_transaction(encode_transaction(Transaction(1, 2, 3, CHANGES[:1]))).changes
    assert isinstance(change, NodeCreated)
    assert change.acl is OPEN_TO_ALL


def test_every_cut_of_a_transaction_is_noticed() -> None:
    encoded = encode_transaction(Transaction(1, 2, 3, CHANGES))
    for end in range(len(encoded)):
        with pytest.raises(MarshallingError):
            decode_transaction(encoded[:end])


def test_bytes_behind_a_transaction_are_noticed() -> None:
    with pytest.raises(MarshallingError):
        decode_transaction(encode_transaction(Transaction(1, 2, 3, CHANGES)) + b"\x00")


def test_an_unknown_kind_of_change_is_noticed() -> None:
    with pytest.raises(MarshallingError):
        decode_transaction(encode_transaction(Transaction(1, 2, 3, ())).replace(b"\x00\x00\x00\x00", b"\x00\x00\x00\x01") + b"\x63")
