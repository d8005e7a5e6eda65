import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.cli.cluster.planning.drain import drain
from millstream.cli.cluster.planning.layout import Layout
from millstream.errors import CommandFailed
from tests.unit.cli.cluster.planning.layouts import check_kept, layout_of, layouts


@settings(max_examples=150, deadline=None)
@given(layouts(min_brokers=2), st.integers(1, 7))
def test_a_drained_broker_keeps_nothing_and_nothing_else_moves(before: Layout, broker: int) -> None:
    most = max((len(known.replicas) for known in before.partitions.values() if broker in known.replicas), default=0)
    if most > len(set(before.racks) - {broker}):
        with pytest.raises(CommandFailed, match="Without broker"):
            drain(before, broker)
        return
    targets = drain(before, broker)
    after = before.changed(targets)
    check_kept(before, after)
    assert set(targets) == {place for place, known in before.partitions.items() if broker in known.replicas}
    for place, new in targets.items():
        old = before.partitions[place].replicas
        assert broker not in new
        assert len(set(old) - set(new)) == 1
        # As many racks as the brokers that are left allow: fewer than before only if none of them is in another rack.
        others = [one for one in old if one != broker]
        possible = max(before.rack_count([*others, one]) for one in before.racks if one != broker and one not in others)
        assert before.rack_count(new) == possible


def test_replicas_go_where_there_is_least_and_leaders_too() -> None:
    partitions = {f"t-{number}": ((3,), 100) for number in range(4)} | {"u-0": ((1,), 200)}
    after = (before := layout_of([1, 2, 3], partitions)).changed(drain(before, 3))
    loads = after.loads()
    assert (loads[1].size_bytes, loads[2].size_bytes) == (loads[2].size_bytes, loads[1].size_bytes)
    assert {loads[1].leaders, loads[2].leaders} == {2, 3}


def test_a_broker_that_is_dead_is_drained_by_its_replicas() -> None:
    before = layout_of([1, 2, 4], {"t-0": ((3, 1), 5), "t-1": ((1, 3), 5)})
    after = before.changed(drain(before, 3))
    assert all(3 not in known.replicas and 1 in known.replicas for known in after.partitions.values())


def test_the_last_broker_is_not_drained() -> None:
    with pytest.raises(CommandFailed, match="Broker 1 is the last one: start another broker first"):
        drain(layout_of([1], {"t-0": ((1,), 5)}), 1)


def test_what_has_too_many_replicas_for_the_others_is_named() -> None:
    before = layout_of([1, 2, 3], {"t-0": ((1, 2, 3), 5), "u-0": ((1, 2, 3), 5), "v-0": ((1,), 5)})
    with pytest.raises(CommandFailed, match=r"there are 2 brokers, and the topics t, u have 3 replicas"):
        drain(before, 2)
