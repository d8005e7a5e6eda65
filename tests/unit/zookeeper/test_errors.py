from millstream.errors import MillstreamError
from millstream.zookeeper.errors import ERROR_OF_CODE, ConnectionLost, NoNode, TreeOffline, ZooKeeperError


def test_every_code_of_the_protocol_names_one_error() -> None:
    assert ERROR_OF_CODE[-101] is NoNode
    assert all(error.code == code for code, error in ERROR_OF_CODE.items())


def test_a_tree_that_is_offline_is_a_lost_connection_and_the_code_is_that_of_the_latter() -> None:
    assert issubclass(TreeOffline, ConnectionLost)
    assert ERROR_OF_CODE[-4] is ConnectionLost


def test_everything_is_an_error_of_millstream() -> None:
    assert issubclass(ZooKeeperError, MillstreamError)
