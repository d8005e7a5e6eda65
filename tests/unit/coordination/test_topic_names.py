from collections.abc import Iterator

import pytest

from millstream.coordination.topic_names import check_collision, check_name
from millstream.errors import InvalidTopic


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
    with pytest.raises(InvalidTopic, match=r"a_b\.c"):
        check_collision("a.b_c", {"a_b.c": 1, "a.b_c": 2, **dict.fromkeys(map(str, range(100)))})
    many = "_".join("abcdefghijklmnopqrstuvwxyz" * 4)
    with pytest.raises(InvalidTopic):
        check_collision(many, {many.replace("_", "."): 1})


def test_name_is_not_compared_with_every_topic() -> None:
    class Looked(dict[str, int]):
        def __iter__(self) -> Iterator[str]:
            raise AssertionError("all topics are looked at")

    check_collision("plain", Looked.fromkeys(map(str, range(10_000)), 0))
    check_collision("a.b_c-d.e", Looked.fromkeys(map(str, range(10_000)), 0))
