"""Which fault comes next: every kind once before any comes again, in an order that the seed decides."""

from collections.abc import Iterator, Sequence
from random import Random


def schedule(kinds: Sequence[str], random: Random) -> Iterator[str]:
    """Without end."""
    while True:
        round_of_all = sorted(kinds)
        random.shuffle(round_of_all)
        yield from round_of_all
