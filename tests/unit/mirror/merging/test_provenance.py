import pytest

from millstream.mirror.merging.provenance import HEADER, Provenance, went_through

ORIGIN = Provenance("cluster-a", "orders", 3, 70)


def test_a_record_says_where_it_comes_from() -> None:
    assert ORIGIN.encode() == b"cluster-a/3/70/orders"
    assert Provenance.parse(ORIGIN.encode()) == ORIGIN


@pytest.mark.parametrize("value", [None, b"", b"orders", b"a/b/c/d", b"a/1/2/c/d", b"\xff"])
def test_a_header_of_another_is_no_provenance(value: bytes | None) -> None:
    assert Provenance.parse(value) is None


def test_a_record_that_came_from_the_target_is_known_by_any_of_its_headers() -> None:
    through = [("other", b"cluster-b/1/1/t"), (HEADER, b"cluster-c/0/0/t"), (HEADER, ORIGIN.encode())]
    assert went_through(through, "cluster-a")
    assert went_through(through, "cluster-c")
    assert not went_through(through, "cluster-b")
    assert not went_through(None, "cluster-a")
