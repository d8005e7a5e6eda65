"""The jobs on a real Spark: the session, broker and registry of `tests/spark`, once for this folder too."""

from pathlib import Path

import pytest

from tests.brokers import start_broker
from tests.record_fixtures import broker, registry, registry_url
from tests.spark.cluster_fixtures import master
from tests.spark.conftest import TIMEOUT_S, checkpoint, spark

__all__ = ["broker", "checkpoint", "master", "registry", "registry_url", "spark", "start_broker"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give every test of this folder that says nothing else the time that those of `tests/spark` have, for the same reasons."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(TIMEOUT_S))
            item.add_marker(pytest.mark.flaky(reruns=5, only_rerun="connect back"))
