"""Much in portions: a broker answers a request in one turn of its loop, so nobody asks for thousands of partitions at once."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


def portions(values: Iterable[T], size: int) -> Iterator[list[T]]:
    """The values in lists of at most so many, in their order."""
    left = iter(values)
    while some := list(islice(left, size)):
        yield some
