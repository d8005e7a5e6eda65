import pytest

from millstream.zookeeper.acl import ALL_PERMISSIONS, OPEN_TO_ALL, READ, AclEntry, Identity
from millstream.zookeeper.change import SessionClosed, SessionOpened
from millstream.zookeeper.errors import BadArguments, BadVersion, NoAuth, NodeExists, NoNode, SessionExpired
from millstream.zookeeper.operations import Check, Create, Delete, SetAcl, SetData, TreeOperation
from millstream.zookeeper.tree import Identities, Outcome, Tree
from millstream.zookeeper.watches import WatchEvent, WatchKind
from millstream.zookeeper.znode import CONTAINER_OWNER

SESSION = 7
ALICE = Identity("digest", "alice:hash")


@pytest.fixture
def tree() -> Tree:
    tree = Tree()
    tree.commit([SessionOpened(SESSION, 1000, b"password", "")], time_ms=1)
    return tree


def do(tree: Tree, *operations: TreeOperation, identities: Identities = None, time_ms: int = 5) -> Outcome:
    return tree.execute(operations, session_id=SESSION, identities=identities, time_ms=time_ms)


def test_every_transaction_has_the_next_number_and_names_its_predecessor(tree: Tree) -> None:
    first = do(tree, Create("/a")).transaction
    second = do(tree, Create("/b")).transaction
    assert (first.previous_zxid, first.zxid, second.previous_zxid, second.zxid) == (1, 2, 2, 3)


def test_a_new_epoch_begins_above_every_number_before_it(tree: Tree) -> None:
    do(tree, Create("/a"))
    tree.begin_epoch()
    assert tree.last_zxid == 2
    assert do(tree, Create("/b")).transaction == (2, 1 << 32, 5, tree_changes_of("/b"))
    assert do(tree, Create("/c")).transaction.zxid == (1 << 32) + 1


def tree_changes_of(path: str) -> tuple[object, ...]:
    return ((path, b"", OPEN_TO_ALL, 0),)


def test_operations_that_change_nothing_take_no_number(tree: Tree) -> None:
    assert do(tree, Check("/", 0)).transaction.changes == ()
    assert tree.last_zxid == 1


def test_times_and_numbers_of_a_znode_are_those_of_its_transactions(tree: Tree) -> None:
    do(tree, Create("/a"), time_ms=10)
    do(tree, SetData("/a", b"x"), time_ms=20)
    do(tree, Create("/a/b"), time_ms=30)
    stat = tree.nodes["/a"].stat()
    assert (stat.czxid, stat.mzxid, stat.pzxid, stat.ctime_ms, stat.mtime_ms) == (2, 3, 4, 10, 20)


def test_the_end_of_a_session_removes_its_ephemeral_znodes_and_notifies_the_watchers(tree: Tree) -> None:
    do(tree, Create("/parent"))
    do(tree, Create("/parent/e", ephemeral=True))
    events = tree.commit([SessionClosed(SESSION)], time_ms=9).events
    assert [event for event, _ in events] == [WatchEvent(WatchKind.DELETED, "/parent/e"), WatchEvent(WatchKind.CHILDREN, "/parent")]
    assert "/parent/e" not in tree.nodes
    assert SESSION not in tree.sessions


def test_a_session_that_is_over_creates_no_ephemeral_znode(tree: Tree) -> None:
    tree.commit([SessionClosed(SESSION)], time_ms=9)
    with pytest.raises(SessionExpired):
        do(tree, Create("/e", ephemeral=True))


def test_a_failed_multi_is_undone_whatever_it_did(tree: Tree) -> None:
    do(tree, Create("/a", b"0"), Create("/a/old"), Create("/a/e", ephemeral=True), Create("/a/c", container=True))
    before = {path: (node.stat(), node.data, node.acl, set(node.children)) for path, node in tree.nodes.items()}
    with pytest.raises(NoNode) as raised:
        do(
            tree,
            Create("/a/new", ephemeral=True),
            SetData("/a", b"1"),
            Delete("/a/old"),
            Delete("/a/e"),
            Delete("/a/c"),
            SetAcl("/a", (AclEntry(READ, ALICE),)),
            Delete("/missing"),
        )
    assert raised.value.operation_index == 6
    assert {path: (node.stat(), node.data, node.acl, set(node.children)) for path, node in tree.nodes.items()} == before
    assert list(tree.sessions[SESSION].ephemerals) == ["/a/e"]
    assert tree.containers == {"/a/c"}


def test_the_root_and_what_is_reserved_cannot_be_deleted_or_created(tree: Tree) -> None:
    for path in ("/", "/zookeeper", "/zookeeper/quota"):
        with pytest.raises(BadArguments):
            do(tree, Delete(path))
        with pytest.raises(NodeExists):
            do(tree, Create(path))


def test_a_container_is_empty_only_after_it_had_children(tree: Tree) -> None:
    do(tree, Create("/c", container=True))
    assert tree.nodes["/c"].stat().ephemeral_owner == CONTAINER_OWNER
    assert tree.empty_containers() == []
    do(tree, Create("/c/child"))
    assert tree.empty_containers() == []
    do(tree, Delete("/c/child"))
    assert tree.empty_containers() == ["/c"]


def test_an_access_list_binds_clients_and_not_the_broker(tree: Tree) -> None:
    do(tree, Create("/a", b"secret", acl=(AclEntry(ALL_PERMISSIONS, ALICE),)))
    stranger: Identities = frozenset()
    for operation in (SetData("/a", b""), Create("/a/b"), Check("/a"), SetAcl("/a", OPEN_TO_ALL)):
        with pytest.raises(NoAuth):
            do(tree, operation, identities=stranger)
    with pytest.raises(NoAuth):
        tree.node("/a", identities=stranger)
    assert tree.node("/a", identities=frozenset({ALICE})).data == b"secret"
    assert tree.node("/a").data == b"secret"


def test_deleting_asks_the_access_list_of_the_parent(tree: Tree) -> None:
    do(tree, Create("/a", acl=(AclEntry(READ, ALICE),)), Create("/a/b"))
    with pytest.raises(NoAuth):
        do(tree, Delete("/a/b"), identities=frozenset({ALICE}))
    do(tree, Delete("/a/b"))


def test_an_access_list_has_a_version_of_its_own(tree: Tree) -> None:
    do(tree, Create("/a"))
    do(tree, SetAcl("/a", (AclEntry(READ, ALICE),), 0))
    with pytest.raises(BadVersion):
        do(tree, SetAcl("/a", OPEN_TO_ALL, 0))
    stat = tree.nodes["/a"].stat()
    assert (stat.version, stat.aversion) == (0, 1)
