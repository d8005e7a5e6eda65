"""A registry whose broker is down says so once, with the address, and is there when the broker is."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from millstream.registry.client import RegistryClient
from millstream.testing import Broker
from tests.ports import free_port
from tests.waiting import wait_until


class Started:
    """`millstream registry serve` for a broker that is not there."""

    def __init__(self, directory: Path) -> None:
        self.broker_port, self.port = free_port(), free_port()
        self._output = directory / "output"
        command = [sys.executable, "-m", "millstream.cli.main", "registry", "serve", "-b", f"127.0.0.1:{self.broker_port}"]
        with self._output.open("w") as output:
            self.process = subprocess.Popen([*command, "--listen", f"127.0.0.1:{self.port}"], stdout=output, stderr=output)

    @property
    def complaints(self) -> list[str]:
        """What it said about its broker."""
        return [line.partition("schema_log: ")[2] for line in self._output.read_text().splitlines() if "WARNING" in line]


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Started]:
    registry = Started(tmp_path)
    yield registry
    registry.process.kill()
    registry.process.wait(30)


def test_a_registry_names_the_broker_that_is_down_once(started: Started) -> None:
    reason = f"no broker answers at 127.0.0.1:{started.broker_port} (Connection refused)"
    line = f"_schemas cannot be read or written for now: {reason}; trying again all the time"
    wait_until(lambda: started.complaints, "it says that the broker is down")
    with Broker(port=started.broker_port), RegistryClient(f"http://127.0.0.1:{started.port}", timeout_s=60) as client:
        assert client.latest_versions() == []
        started.process.send_signal(signal.SIGTERM)
        assert started.process.wait(30) == 0
    assert started.complaints == [line]
