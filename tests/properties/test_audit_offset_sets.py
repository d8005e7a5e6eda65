"""Sets of offsets as intervals do what Python's sets do."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from millstream.audit.offset_set import OffsetSet
from millstream.audit.reports.report_fields import offset_list, offset_set

OFFSETS = st.frozensets(st.integers(0, 60), max_size=40)


def strictly_ascending(bounds: tuple[int, ...]) -> bool:
    return len(bounds) % 2 == 0 and all(earlier < later for earlier, later in pairwise(bounds))


@given(OFFSETS, OFFSETS)
def test_operations_are_those_of_sets(ours: frozenset[int], theirs: frozenset[int]) -> None:
    mine, other = OffsetSet.from_offsets(ours), OffsetSet.from_offsets(theirs)
    for found, expected in ((mine | other, ours | theirs), (mine & other, ours & theirs), (mine - other, ours - theirs)):
        assert found == OffsetSet.from_offsets(expected)
        assert strictly_ascending(found.bounds)
        assert len(found) == len(expected)
        assert bool(found) == bool(expected)
    assert [offset for offset in range(61) if offset in mine] == sorted(ours)


@given(OFFSETS, st.integers(1, 5))
def test_a_coarse_set_has_as_many_offsets(offsets: frozenset[int], most: int) -> None:
    coarse = OffsetSet.from_offsets(offsets).coarsened(most)
    assert len(coarse) == len(offsets)
    assert len(coarse.bounds) <= 2 * most
    assert all(offset in coarse for offset in offsets)


@given(OFFSETS)
def test_the_list_of_a_set_is_the_set(offsets: frozenset[int]) -> None:
    one = OffsetSet.from_offsets(offsets)
    assert offset_set(list(offset_list(one)), "offsets") == one
