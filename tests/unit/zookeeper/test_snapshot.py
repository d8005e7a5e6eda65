import pytest

from millstream.zookeeper.acl import READ, AclEntry, Identity
from millstream.zookeeper.change import SessionOpened
from millstream.zookeeper.errors import MarshallingError
from millstream.zookeeper.operations import Create, SetAcl, SetData, TreeOperation
from millstream.zookeeper.snapshot import decode_snapshot, encode_snapshot
from millstream.zookeeper.tree import Tree


def grown() -> Tree:
    tree = Tree()
    tree.commit([SessionOpened(7, 4_000, b"password", ""), SessionOpened(8, 0, b"", "broker-1")], time_ms=1)
    operations: list[TreeOperation] = [
        Create("/a", None),
        Create("/a/e", b"x", ephemeral=True),
        Create("/a/s-", sequential=True),
        Create("/c", container=True),
        SetData("/", b"root"),
        SetAcl("/c", (AclEntry(READ, Identity("digest", "a:b")),)),
    ]
    tree.execute(operations, session_id=7, identities=None, time_ms=2)
    return tree


def test_a_tree_survives_its_snapshot() -> None:
    tree = grown()
    again = decode_snapshot(encode_snapshot(tree))
    assert encode_snapshot(again) == encode_snapshot(tree)
    assert {path: (node.stat(), node.data, node.acl, node.children) for path, node in again.nodes.items()} == {
        path: (node.stat(), node.data, node.acl, node.children) for path, node in tree.nodes.items()
    }
    assert (again.last_zxid, again.next_zxid, again.containers) == (tree.last_zxid, tree.next_zxid, tree.containers)
    assert list(again.sessions[7].ephemerals) == ["/a/e"]
    assert (again.sessions[8].name, again.sessions[8].timeout_ms) == ("broker-1", 0)


def test_every_damage_to_a_snapshot_is_noticed() -> None:
    content = encode_snapshot(grown())
    for position in range(len(content)):
        with pytest.raises(MarshallingError):
            decode_snapshot(content[:position])
        with pytest.raises(MarshallingError):
            decode_snapshot(content[:position] + bytes([content[position] ^ 1]) + content[position + 1 :])
