"""A pytest plugin that points kazoo's own tests at one coordination server of ours or one real ZooKeeper.

kazoo's tests get their cluster from `kazoo.testing.common`, which would start an ensemble from a downloaded distribution; here that
module is replaced by one whose cluster has a single server: `MILLSTREAM_KAZOO_SERVER` says which (`embedded` or `zookeeper`). Used as
`pytest -p tests.cluster.kazoo_test_plugin --pyargs kazoo.tests`.
"""

import gc
import importlib.util
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import ClassVar

from tests.cluster.server_process import ServerProcess


class _Server:
    """One member of the cluster, with the methods that kazoo's tests call."""

    def __init__(self) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="kazoo-tests-"))
        self._process = ServerProcess(os.environ["MILLSTREAM_KAZOO_SERVER"], self._directory)
        self.address = self._process.address
        self.secure_address = self._process.address
        self.client_port = self._process.port

    @property
    def running(self) -> bool:
        return self._process.is_running

    def run(self) -> None:
        if not self.running:
            self._process.start()

    def stop(self) -> None:
        self._process.stop()

    def destroy(self) -> None:
        self.stop()
        shutil.rmtree(self._directory, ignore_errors=True)


class ZookeeperCluster:
    """A cluster of one."""

    all_clusters: ClassVar[list["ZookeeperCluster"]] = []

    def __init__(self, *_arguments: object, **_options: object) -> None:
        self._server = _Server()
        self.all_clusters.append(self)

    def __getitem__(self, index: int) -> _Server:
        return [self._server][index]

    def __iter__(self) -> Iterator[_Server]:
        return iter([self._server])

    def start(self) -> None:
        self._server.run()

    def stop(self) -> None:
        self._server.stop()

    def terminate(self) -> None:
        """Once per test class in kazoo; the server is kept for the next one, and ends with the run."""

    def get_logs(self) -> list[list[str]]:
        return []

    def destroy(self) -> None:
        self._server.destroy()


def count(type_name: str) -> int:
    """What kazoo's tests use of `objgraph`: how many objects of a type are alive."""
    return sum(type(found).__name__ == type_name for found in gc.get_objects())


_module = ModuleType("kazoo.testing.common")
_module.__dict__["ZookeeperCluster"] = ZookeeperCluster
sys.modules["kazoo.testing.common"] = _module
if importlib.util.find_spec("objgraph") is None:
    _objgraph = ModuleType("objgraph")
    _objgraph.__dict__["count"] = count
    sys.modules["objgraph"] = _objgraph


def pytest_unconfigure() -> None:
    for cluster in ZookeeperCluster.all_clusters:
        cluster.destroy()
