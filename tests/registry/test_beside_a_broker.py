"""The registry of `millstream serve`: there at the first request, gone with its broker, back after a crash."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from millstream.registry.client import RegistryClient
from millstream.testing import Broker
from tests.waiting import is_gone, wait_until

WITHOUT_STARLETTE = """
import sys
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name in ("starlette", "uvicorn") else found(name, package)
sys.argv[0] = "millstream"
from millstream.cli.main import main
sys.exit(main())
"""

Serve = Callable[..., "Served"]


class Served:
    """A running `millstream serve`."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        assert process.stdout is not None
        self.ready = process.stdout.readline()

    @property
    def registry(self) -> str:
        found = re.search(r" registry (\S+)", self.ready)
        assert found is not None, self.ready
        return found[1]

    def children(self) -> list[int]:
        """Registries that are children of the broker's process, by their command lines."""
        listed = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return [int(pid) for pid in listed if b"millstream.registry.process" in Path(f"/proc/{pid}/cmdline").read_bytes()]

    def client(self) -> RegistryClient:
        return RegistryClient(f"http://{self.registry}", timeout_s=30)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    processes = []

    def run(*arguments: str, program: tuple[str, ...] = ("-m", "millstream.cli.main")) -> Served:
        flags = ["serve", "--listen", "127.0.0.1:0", "--coordination", "127.0.0.1:0", "--data", str(tmp_path / "data"), *arguments]
        process = subprocess.Popen([sys.executable, *program, *flags], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        processes.append(process)
        return Served(process)

    yield run
    for process in processes:
        process.kill()
        process.communicate()


def test_it_starts_with_the_first_request_and_not_before(serve: Serve) -> None:
    served = serve("--registry", "127.0.0.1:0")
    assert served.children() == []
    with served.client() as client:
        assert client.register("s", '"int"').schema_id == 1
        assert len(served.children()) == 1
    served.process.send_signal(signal.SIGTERM)
    out, err = served.process.communicate(timeout=30)
    assert (served.process.returncode, out, "Traceback" in err) == (0, "", False), err


def test_it_dies_with_a_broker_that_is_killed(serve: Serve) -> None:
    served = serve("--registry", "127.0.0.1:0")
    with served.client() as client:
        client.subjects()
    (child,) = served.children()
    served.process.kill()
    wait_until(lambda: is_gone(child), "the registry is gone")


def test_a_registry_that_crashed_is_back_with_the_next_request(serve: Serve) -> None:
    served = serve("--registry", "127.0.0.1:0")
    with served.client() as client:
        client.register("s", '"int"')
        (first,) = served.children()
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: is_gone(first), "the registry is gone")
        assert client.versions("s") == [1]
        assert served.children() != [first]


def test_a_taken_port_is_reported_if_it_was_asked_for_and_replaced_if_not(serve: Serve) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        refused = serve("--registry", address)
        _, err = refused.process.communicate(timeout=20)
        assert (refused.process.returncode, refused.ready) == (1, "")
        assert address in err.splitlines()[-1]
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind(("127.0.0.1", 8081))
            taken.listen()
        except OSError:
            pass  # another process has taken it, which will do
        served = serve()
        assert served.registry != "127.0.0.1:8081"
        served.process.send_signal(signal.SIGTERM)
        _, err = served.process.communicate(timeout=20)
        assert f"port 8081 is taken, so the registry is at {served.registry}" in err


def test_it_can_be_left_out(serve: Serve) -> None:
    assert "registry" not in serve("--no-registry").ready
    contradicting = serve("--no-registry", "--registry", "127.0.0.1:0")
    assert contradicting.process.wait(timeout=20) == 2


def test_without_its_packages_the_broker_goes_on_and_says_so(serve: Serve) -> None:
    program = ("-c", WITHOUT_STARLETTE)
    served = serve(program=program)
    assert served.ready.startswith("ready: broker ")
    assert "registry" not in served.ready
    served.process.send_signal(signal.SIGTERM)
    _, err = served.process.communicate(timeout=20)
    assert "pip install '.[registry]'" in err.splitlines()[0]
    asked = serve("--registry", "127.0.0.1:0", program=program)
    assert asked.process.wait(timeout=20) == 2


def test_a_broker_of_a_test_has_one_if_it_is_asked_for() -> None:
    with Broker(registry=True) as broker, RegistryClient(broker.registry_url) as client:
        assert client.register("s", '"int"').schema_id == 1


def test_the_fixture_of_the_plugin_is_its_address(millstream_registry: str) -> None:
    with RegistryClient(millstream_registry) as client:
        assert client.register("plugin", '"int"').version == 1
