import pytest

from millstream.zookeeper.acl import OPEN_TO_ALL
from millstream.zookeeper.errors import BadArguments
from millstream.zookeeper.znode import CONTAINER_OWNER, Znode, check_path, parent_of


@pytest.mark.parametrize(("path", "parent"), [("/a", "/"), ("/a/b", "/a"), ("/a/b/c", "/a/b"), ("/", "/")])
def test_a_path_has_a_parent(path: str, parent: str) -> None:
    assert parent_of(path) == parent


@pytest.mark.parametrize("path", ["/", "/a", "/a b/ü", "/a/...", "/a/.b", "/\U0001f600"])
def test_a_path_that_zookeeper_takes_is_taken(path: str) -> None:
    check_path(path)


@pytest.mark.parametrize("path", ["", "a", "/a/", "//", "/./a", "/a/..", "/\x00", "/\x7f", "/\x9f", "/\ud800", "/\uf8ff", "/\uffff"])
def test_a_path_that_zookeeper_refuses_is_refused(path: str) -> None:
    with pytest.raises(BadArguments):
        check_path(path)


@pytest.mark.parametrize(("owner", "is_ephemeral"), [(0, False), (CONTAINER_OWNER, False), (5, True)])
def test_only_a_session_makes_a_znode_ephemeral(owner: int, is_ephemeral: bool) -> None:
    assert Znode(b"", OPEN_TO_ALL, owner=owner, zxid=1, time_ms=1).is_ephemeral is is_ephemeral


def test_null_data_has_no_length() -> None:
    assert Znode(None, OPEN_TO_ALL, owner=0, zxid=1, time_ms=1).stat().data_length == 0
