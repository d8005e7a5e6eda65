import resource

import pytest

from penstock.broker import descriptors
from penstock.broker.descriptors import max_partitions, raise_descriptor_limit


@pytest.mark.parametrize(("soft", "hard", "expected"), [(100, 4096, 4096), (4096, 4096, 4096), (256, resource.RLIM_INFINITY, 10_240)])
def test_the_limit_is_raised_as_far_as_may_be(monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, expected: int) -> None:
    raised: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _kind: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _kind, limits: raised.append(limits))
    assert raise_descriptor_limit() == expected
    assert raised == ([(hard, hard)] if soft < hard else [])


def test_some_descriptors_are_kept_for_clients() -> None:
    assert max_partitions(10_240) * descriptors.PER_PARTITION <= 10_240 - descriptors.RESERVE
    assert max_partitions(64) == 1
