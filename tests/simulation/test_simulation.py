"""Seeded schedules of faults: nothing acknowledged is lost, and every known mistake is noticed when it is put back."""

from dataclasses import fields

import pytest

from tests.simulation.broker import Bugs
from tests.simulation.cluster import Cluster
from tests.simulation.history import Broken

SEEDS = 40
MOVED_SEEDS = 20
MOVING = "completes_early"
"""The mistake that only shows while the partition is moved."""


def outcome(seed: int, bugs: Bugs, *, is_moved: bool = False) -> str:
    cluster = Cluster(seed, bugs=bugs, is_moved=is_moved)
    try:
        cluster.run()
    except (Broken, ValueError) as error:
        return "\n".join([f"seed {seed}: {error}", *cluster.world.trace[-40:]])
    return ""


@pytest.mark.parametrize("first", range(0, SEEDS, 10))
def test_nothing_acknowledged_is_lost_whatever_fails(first: int) -> None:
    for seed in range(first, first + 10):
        assert outcome(seed, Bugs()) == ""


@pytest.mark.parametrize("first", range(0, MOVED_SEEDS, 10))
def test_nothing_acknowledged_is_lost_while_the_partition_is_moved_about_and_it_arrives(first: int) -> None:
    for seed in range(first, first + 10):
        assert outcome(seed, Bugs(), is_moved=True) == ""


@pytest.mark.parametrize("bug", [field.name for field in fields(Bugs)])
def test_a_known_mistake_is_noticed(bug: str) -> None:
    assert any(outcome(seed, Bugs(**{bug: True}), is_moved=bug == MOVING) for seed in range(200))
