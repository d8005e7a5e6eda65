from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.cli.cluster.planning.layout import Layout
from millstream.cli.cluster.planning.onto import onto
from tests.unit.cli.cluster.planning.layouts import copied_bytes, layout_of, layouts


@settings(max_examples=100, deadline=None)
@given(layouts(), st.integers(1, 3), st.data())
def test_topics_are_on_the_chosen_brokers_with_so_many_replicas(before: Layout, factor: int, data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.sampled_from(list(before.racks)), min_size=1, unique=True))
    wanted = min(factor, len(chosen))
    places = [place for place in before.partitions if place.topic in ("topic-0", "topic-2")]
    targets = onto(before, places, chosen, replication_factor=wanted)
    after = before.changed(targets)
    assert set(targets) <= set(places)
    for place in places:
        replicas = after.partitions[place].replicas
        assert len(replicas) == len(set(replicas)) == wanted
        assert set(replicas) <= set(chosen)


def test_what_is_in_place_stays() -> None:
    before = layout_of([1, 2, 3, 4], {f"t-{number}": ((number % 2 + 1, 3 - (number % 2 + 1)), 100) for number in range(6)})
    assert onto(before, list(before.partitions), [1, 2], replication_factor=None) == {}
    grown = before.changed(onto(before, list(before.partitions), [1, 2, 3], replication_factor=3))
    assert copied_bytes(before, grown) == sum(known.size_bytes for known in before.partitions.values())
    assert all(set(known.replicas) == {1, 2, 3} for known in grown.partitions.values())
    assert {load.leaders for broker, load in grown.loads().items() if broker != 4} == {2}


def test_a_topic_is_spread_evenly_over_its_new_brokers() -> None:
    before = layout_of([1, 2, 3, 4], {f"t-{number}": ((1, 2), 100) for number in range(8)})
    after = before.changed(onto(before, list(before.partitions), [3, 4], replication_factor=1))
    assert [after.loads()[broker].partitions for broker in (1, 2, 3, 4)] == [0, 0, 4, 4]
