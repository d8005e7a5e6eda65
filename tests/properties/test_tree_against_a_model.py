"""The tree against a plain model of it, and against itself replayed from its journal and its snapshot."""

from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.zookeeper.change import (
    DataChanged,
    NodeCreated,
    NodeDeleted,
    SessionClosed,
    SessionOpened,
    Transaction,
    decode_transaction,
    encode_transaction,
)
from millstream.zookeeper.errors import ZooKeeperError
from millstream.zookeeper.operations import Check, Create, Delete, SetData, TreeOperation
from millstream.zookeeper.snapshot import decode_snapshot, encode_snapshot
from millstream.zookeeper.tree import Tree

names = st.sampled_from(["a", "b", "c"])
paths = st.lists(names, min_size=1, max_size=3).map(lambda parts: "/" + "/".join(parts))
versions = st.sampled_from([-1, -1, 0, 1, 2])
data = st.sampled_from([b"", b"x", b"longer data", None])
operations: st.SearchStrategy[TreeOperation] = st.one_of(
    st.builds(Create, paths, data, st.booleans(), st.booleans(), container=st.just(False)),
    st.builds(Create, paths, data, container=st.booleans()),
    st.builds(SetData, paths, data, versions),
    st.builds(Delete, paths, versions),
    st.builds(Check, paths, versions),
)
sessions = st.sampled_from([1, 2, 3])
steps = st.lists(st.tuples(sessions, st.one_of(st.none(), st.lists(operations, min_size=1, max_size=4))), max_size=60)


def seen(tree: Tree) -> dict[str, object]:
    return {path: (node.stat(), node.data, frozenset(node.children)) for path, node in tree.nodes.items()}


def play(tree: Tree, session_id: int, wanted: list[TreeOperation] | None) -> list[Transaction]:
    """One step: operations of a session, or (None) its end. A session begins when it first acts."""
    done = []
    if session_id not in tree.sessions:
        done.append(tree.commit([SessionOpened(session_id, 1_000, b"", "")], time_ms=session_id).transaction)
    if wanted is None:
        done.append(tree.commit([SessionClosed(session_id)], time_ms=9).transaction)
        return done
    before = seen(tree)
    try:
        outcome = tree.execute(wanted, session_id=session_id, identities=None, time_ms=5)
    except ZooKeeperError:
        assert seen(tree) == before
        return done
    if outcome.transaction.changes:
        done.append(outcome.transaction)
    return done


def check_invariants(tree: Tree) -> None:
    for path, node in tree.nodes.items():
        for child in node.children:
            assert f"{path.rstrip('/')}/{child}" in tree.nodes
        if path != "/":
            parent, _, name = path.rpartition("/")
            assert name in tree.nodes[parent or "/"].children
        if node.is_ephemeral:
            assert not node.children
            assert path in tree.sessions[node.owner].ephemerals
    owned = [path for session in tree.sessions.values() for path in session.ephemerals]
    assert len(owned) == len(set(owned)) == sum(node.is_ephemeral for node in tree.nodes.values())


@given(steps)
def test_a_tree_keeps_its_invariants_and_a_failure_leaves_no_trace(script: list[tuple[int, list[TreeOperation] | None]]) -> None:
    tree = Tree()
    for session_id, wanted in script:
        play(tree, session_id, wanted)
        check_invariants(tree)


@given(steps, st.integers(0, 200))
def test_a_replayed_journal_is_the_tree_that_was(script: list[tuple[int, list[TreeOperation] | None]], snapshot_at: int) -> None:
    tree, again = Tree(), Tree()
    for session_id, wanted in script:
        for transaction in play(tree, session_id, wanted):
            again.replay(decode_transaction(encode_transaction(transaction)))
            if again.last_zxid == snapshot_at:
                again = decode_snapshot(encode_snapshot(again))
    assert seen(again) == seen(tree)
    assert encode_snapshot(again) == encode_snapshot(tree)


@given(steps)
@settings(max_examples=50)
def test_data_and_versions_follow_a_dictionary(script: list[tuple[int, list[TreeOperation] | None]]) -> None:
    tree, model = Tree(), dict[str, tuple[bytes | None, int]]()
    for session_id, wanted in script:
        for transaction in play(tree, session_id, wanted):
            for change in transaction.changes:
                match change:
                    case NodeCreated(path, content):
                        model[path] = (content, 0)
                    case DataChanged(path, content):
                        model[path] = (content, model[path][1] + 1)
                    case NodeDeleted(path):
                        del model[path]
                    case SessionClosed():
                        model = {path: entry for path, entry in model.items() if path in tree.nodes}
    found = {path: (node.data, node.version) for path, node in tree.nodes.items() if path != "/" and not path.startswith("/zookeeper")}
    assert found == model
