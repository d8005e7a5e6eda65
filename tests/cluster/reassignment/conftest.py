"""Four brokers as processes, for all tests of a file: one more than a partition has replicas while it moves."""

from collections.abc import Iterator

import pytest

from tests.cluster.brokers_on_tree import BrokersOnTree, brokers_on_tree


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokersOnTree]:
    with brokers_on_tree(tmp_path_factory.mktemp("cluster"), count=4) as made:
        yield made
