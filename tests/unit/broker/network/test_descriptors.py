import resource

import pytest

from millstream.broker.network.descriptors import OWN, Descriptors, raise_descriptor_limit


@pytest.mark.parametrize(("soft", "hard", "expected"), [(100, 4096, 4096), (4096, 4096, 4096), (256, resource.RLIM_INFINITY, 10_240)])
def test_the_limit_is_raised_as_far_as_may_be(monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, expected: int) -> None:
    raised: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _kind: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _kind, limits: raised.append(limits))
    assert raise_descriptor_limit() == expected
    assert raised == ([(hard, hard)] if soft < hard else [])


@pytest.mark.parametrize("limit", [300, 1000, 1024, 20_000, 1_000_000])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
def test_whatever_there_is_of_one_kind_everything_fits(limit: int, share: float) -> None:
    descriptors = Descriptors(limit, 50)
    kept = OWN + descriptors.reserve + descriptors.coordination_clients
    partitions = int(descriptors.max_partitions(0) * share)
    assert kept + 50 + partitions + descriptors.max_connections(partitions + 50) <= limit
    connections = int(descriptors.max_connections(0) * share)
    assert kept + 50 + connections + descriptors.max_partitions(connections) <= limit
    assert descriptors.max_connections(10 * limit) >= 4
    assert descriptors.max_partitions(descriptors.max_connections(0)) >= limit // 5


def test_ten_thousand_partitions_fit_into_twenty_thousand_descriptors() -> None:
    descriptors = Descriptors(20_000, 50)
    assert descriptors.max_partitions(5_000) >= 10_000
    assert descriptors.max_connections(10_050) >= 5_000


def test_with_hardly_any_descriptors_there_is_still_a_little_of_everything() -> None:
    assert Descriptors(64, 50).max_connections(0) == 4
    assert Descriptors(64, 50).max_partitions(0) == 1
