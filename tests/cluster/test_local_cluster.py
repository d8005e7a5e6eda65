"""`scripts/cluster`: a cluster on this machine, for people."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.brokers import IS_KAFKA
from tests.cluster.server_process import missing_zookeeper
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(IS_KAFKA, reason="it starts Millstream")

ROOT = Path(__file__).parents[2]


class Script:
    """`scripts/cluster` at work."""

    def __init__(self, output: Path, *arguments: str) -> None:
        self._output = output
        with output.open("wb") as file:
            command = [sys.executable, "scripts/local_cluster.py", *arguments]
            environment = os.environ | {"PYTHONPATH": str(ROOT)}
            self.process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=environment)

    @property
    def output(self) -> str:
        return self._output.read_text(errors="replace")

    def after(self, words: str) -> str:
        """The word that follows these."""
        return self.output.partition(f"{words} ")[2].split()[0]

    def await_ready(self) -> None:
        wait_until(lambda: "Ctrl-C stops" in self.output or self.process.poll() is not None, "ready", deadline_s=120)
        assert self.process.poll() is None, self.output

    def stop(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(120)


@pytest.fixture
def scripts() -> Iterator[list[Script]]:
    started: list[Script] = []
    yield started
    for script in started:
        if script.process.poll() is None:
            script.stop()


def status(brokers: str) -> "subprocess.CompletedProcess[str]":
    command = [str(Path(sys.executable).with_name("millstream")), "cluster", "status", "-b", brokers]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_three_brokers_and_a_zookeeper_are_started_watched_and_stopped_in_order(tmp_path: Path, scripts: list[Script]) -> None:
    if (reason := missing_zookeeper()) is not None:
        pytest.skip(reason)
    script = Script(tmp_path / "output", "3", "--data", str(tmp_path / "data"))
    scripts.append(script)
    script.await_ready()
    brokers = script.after("ready: brokers")
    assert len(brokers.split(",")) == 3
    wait_until(lambda: "3 brokers" in status(brokers).stdout, "every broker is in the cluster")
    os.kill(int(script.after("kill -9")), signal.SIGKILL)
    wait_until(lambda: "broker 3 has ended, with exit code -9" in script.output, "it says that a broker has died")
    assert script.stop() == 0
    said = [line for line in script.output.splitlines() if line.startswith("cluster: stopping")]
    assert said == ["cluster: stopping broker 2", "cluster: stopping broker 1", "cluster: stopping ZooKeeper"]
    assert (tmp_path / "data" / "broker-3").exists()


def test_without_java_the_first_broker_keeps_the_znodes_of_all(tmp_path: Path, scripts: list[Script]) -> None:
    script = Script(tmp_path / "output", "2", "--embedded")
    scripts.append(script)
    script.await_ready()
    directory = Path(script.after("logs are in").rstrip("."))
    wait_until(lambda: "2 brokers, controller 1" in status(script.after("ready: brokers")).stdout, "both brokers are in the cluster")
    assert script.stop() == 0
    assert not directory.exists()


@pytest.mark.parametrize(("arguments", "hint"), [(["0"], "N must be 1 to 20"), (["many"], "invalid int value")])
def test_a_number_that_makes_no_sense_is_refused(tmp_path: Path, arguments: list[str], hint: str) -> None:
    script = Script(tmp_path / "output", *arguments)
    assert script.process.wait(60) == 2
    assert hint in script.output


def test_without_java_it_points_to_the_embedded_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    script = Script(tmp_path / "output", "3")
    assert script.process.wait(60) == 1
    assert "no Java here" in script.output
    assert "scripts/cluster --embedded" in script.output


def test_a_broker_that_cannot_start_is_shown_with_its_reason(tmp_path: Path) -> None:
    script = Script(tmp_path / "output", "1", "--embedded", "-X", "num.partitions=0")
    assert script.process.wait(60) == 1
    assert "broker 1 did not become ready" in script.output
    assert "num.partitions" in script.output
