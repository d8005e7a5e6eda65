"""An extra that is not installed is one sentence at once, with the command that installs it; nothing is started in vain again and again."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from millstream.registry.client import RegistryClient
from millstream.registry.errors import RegistryUnavailable
from tests.messages.without_packages import environment_without
from tests.waiting import wait_until

INSTALL = "pip install '.[registry]' in a checkout of Millstream"
COMMAND = [sys.executable, "-m", "millstream.cli.main"]
FREE = ["--listen", "127.0.0.1:0"]
SERVE = [*COMMAND, "serve", *FREE, "--coordination", "127.0.0.1:0", "--metrics", "off", "--registry", "127.0.0.1:0"]


def run(directory: Path, command: list[str], *packages: str) -> "subprocess.CompletedProcess[str]":
    environment = environment_without(directory, *packages)
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_a_registry_of_its_own_names_what_it_lacks(tmp_path: Path) -> None:
    ended = run(tmp_path, [*COMMAND, "registry", "serve", *FREE], "starlette", "uvicorn")
    assert (ended.returncode, ended.stdout, ended.stderr) == (2, "", f"millstream: A registry needs starlette and uvicorn: {INSTALL}\n")


def test_a_broker_that_shall_have_one_does_too(tmp_path: Path) -> None:
    ended = run(tmp_path, [*SERVE, "--data", str(tmp_path / "data")], "uvicorn")
    assert (ended.returncode, ended.stdout, ended.stderr) == (2, "", f"millstream: --registry needs uvicorn: {INSTALL}\n")


def test_a_broker_in_a_test_that_shall_have_one_does_too(tmp_path: Path) -> None:
    ended = run(tmp_path, [sys.executable, "-c", "from millstream.testing import Broker; Broker(registry=True).start()"], "starlette")
    assert ended.stderr.splitlines()[-1] == f"millstream.errors.UsageError: A registry needs starlette: {INSTALL}"


def test_a_session_of_spark_names_what_it_lacks(tmp_path: Path) -> None:
    program = "from millstream.spark.session import start_session; start_session('x')"
    ended = run(tmp_path, [sys.executable, "-c", program], "pyspark")
    assert ended.stderr.splitlines()[-1] == (
        "millstream.errors.UsageError: Spark needs pyspark: pip install '.[spark]' in a checkout of Millstream"
    )


@pytest.mark.parametrize("name", ["avro_serializer", "avro_deserializer"])
def test_avro_names_what_it_lacks(tmp_path: Path, name: str) -> None:
    ended = run(tmp_path, [sys.executable, "-c", f"import millstream.registry.{name}"], "fastavro")
    assert ended.stderr.splitlines()[-1] == f"ModuleNotFoundError: Avro needs fastavro: {INSTALL}"


@pytest.fixture
def half_installed(tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    """A broker whose registry finds its packages, and not one that those need."""
    with (tmp_path / "errors").open("w") as errors:
        command = [*SERVE, "--data", str(tmp_path / "data"), "--no-audit"]
        process = subprocess.Popen(command, env=environment_without(tmp_path, "anyio"), stdout=subprocess.PIPE, stderr=errors, text=True)
    yield process
    process.kill()
    process.communicate()


def test_a_registry_that_cannot_start_says_why_and_is_started_once_for_a_request(
    half_installed: "subprocess.Popen[str]", tmp_path: Path
) -> None:
    assert half_installed.stdout is not None
    found = re.search(r" registry (\S+)", half_installed.stdout.readline())
    assert found is not None
    said, ended = (
        f"millstream registry: anyio is not installed: {INSTALL}\n",
        "the registry ended with 1; the next request starts it again\n",
    )

    def ends_after_a_request() -> int:
        with RegistryClient(f"http://{found[1]}", retries=0) as client, pytest.raises(RegistryUnavailable):
            client.latest_versions()
        return (tmp_path / "errors").read_text().count(ended)

    assert ends_after_a_request() == 1
    # Were it started again without a request, it would have been between the two: only the pause is between it and the next start. A
    # request that comes while the broker still refuses those that waited for the first start is refused with them, and starts nothing.
    wait_until(lambda: ends_after_a_request() == 2, "a second end")
    assert (tmp_path / "errors").read_text().count(said) == 2
    assert "Traceback" not in (tmp_path / "errors").read_text()
