import pytest

from millstream.cluster.rack_selector import in_rack
from millstream.coordination.cluster_view import BrokerState, ClusterView

VIEW = ClusterView(brokers={number: BrokerState(number, "host", 9092, rack) for number, rack in ((1, "a"), (2, "b"), (3, "b"), (4, None))})


@pytest.mark.parametrize(("rack", "near"), [("a", []), ("b", [2, 3]), ("c", []), ("", [])])
def test_brokers_in_the_rack_of_a_consumer_are_near_unless_this_one_is_there_too(rack: str, near: list[int]) -> None:
    assert list(in_rack(lambda: VIEW, 1, rack)) == near
