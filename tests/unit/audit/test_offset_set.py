import pytest

from millstream.audit.offset_set import EMPTY, OffsetSet


def test_intervals_that_touch_or_overlap_become_one() -> None:
    assert OffsetSet.of((5, 7), (0, 3), (3, 5), (9, 9), (20, 30), (22, 24)).bounds == (0, 7, 20, 30)


def test_a_set_of_single_offsets() -> None:
    found = OffsetSet.from_offsets([7, 1, 2, 3, 3, 9])
    assert found.bounds == (1, 4, 7, 8, 9, 10)
    assert len(found) == 5
    assert (found.start, found.end) == (1, 10)
    assert list(found.intervals()) == [(1, 4), (7, 8), (9, 10)]


def test_an_empty_set_is_false_and_has_no_offsets() -> None:
    assert not EMPTY
    assert len(EMPTY) == 0
    assert EMPTY | OffsetSet.of((1, 2)) == OffsetSet.of((1, 2)) == OffsetSet.of((1, 2)) | EMPTY
    assert 1 not in EMPTY


def test_the_loss_between_two_tiers_is_their_difference() -> None:
    assert list((OffsetSet.of((0, 100)) - OffsetSet.of((0, 40), (50, 100))).intervals()) == [(40, 50)]


def test_what_was_counted_twice_is_the_intersection() -> None:
    assert OffsetSet.of((0, 60)) & OffsetSet.of((50, 100)) == OffsetSet.of((50, 60))


def test_a_set_in_too_many_pieces_keeps_its_number_and_its_largest_gaps() -> None:
    pieces = OffsetSet.of((0, 2), (3, 5), (6, 8), (1000, 1001), (1002, 1004))
    coarse = pieces.coarsened(2)
    assert coarse.bounds == (0, 8, 1000, 1004)
    assert (len(coarse), len(pieces)) == (9, 9)
    assert (coarse.is_exact, pieces.is_exact) == (False, True)
    assert pieces.coarsened(5) is pieces


def test_a_union_with_a_coarse_set_adds_the_numbers_as_far_as_there_is_room() -> None:
    coarse = OffsetSet((0, 10), holes=5)
    assert len(coarse | OffsetSet.of((20, 30))) == 15
    assert len(coarse | OffsetSet.of((0, 9))) == 10


@pytest.mark.parametrize(("offset", "is_in"), [(0, False), (1, True), (3, True), (4, False), (7, True), (8, False)])
def test_membership(offset: int, is_in: bool) -> None:
    assert (offset in OffsetSet.of((1, 4), (7, 8))) is is_in
