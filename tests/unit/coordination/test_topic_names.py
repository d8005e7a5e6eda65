import pytest

from penstock.coordination.topic_names import check_collision, check_name
from penstock.errors import InvalidTopic


@pytest.mark.parametrize("name", ["a", "A-b_c.9", "...", "x" * 249])
def test_a_legal_name_passes(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a b", "a/b", "ä", "a\n", "a\0"])
def test_an_illegal_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidTopic):
        check_name(name)


def test_dot_and_underscore_are_the_same_for_metrics() -> None:
    with pytest.raises(InvalidTopic, match=r"a\.b"):
        check_collision("a_b", ["x", "a.b"])
    check_collision("a_b", ["a_b", "a-b", "ab"])
