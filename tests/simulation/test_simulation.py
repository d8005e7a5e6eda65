"""Seeded schedules of faults: nothing acknowledged is lost, and every known mistake is noticed when it is put back."""

from dataclasses import fields

import pytest

from tests.simulation.broker import Bugs
from tests.simulation.cluster import Cluster
from tests.simulation.history import Broken

SEEDS = 40


def outcome(seed: int, bugs: Bugs) -> str:
    cluster = Cluster(seed, bugs=bugs)
    try:
        cluster.run()
    except (Broken, ValueError) as error:
        return "\n".join([f"seed {seed}: {error}", *cluster.world.trace[-40:]])
    return ""


@pytest.mark.parametrize("first", range(0, SEEDS, 10))
def test_nothing_acknowledged_is_lost_whatever_fails(first: int) -> None:
    for seed in range(first, first + 10):
        assert outcome(seed, Bugs()) == ""


@pytest.mark.parametrize("bug", [field.name for field in fields(Bugs)])
def test_a_known_mistake_is_noticed(bug: str) -> None:
    assert any(outcome(seed, Bugs(**{bug: True})) for seed in range(200))
