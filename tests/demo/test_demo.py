"""The demo itself, as `scripts/demo` runs it, with few events."""

import ast
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from demo.__main__ import INTERRUPTED, main
from demo.flags import parse
from demo.jobs import windows_file, write_job_files
from demo.process import ROOT
from millstream.spark.jobs.description.job_file import read_job
from millstream.spark.jobs.description.join_job import JoinJob
from millstream.spark.jobs.description.windows_job import WindowsJob
from millstream.spark.session import NoJava, check_java
from tests.waiting import wait_until

DEMO = [sys.executable, "-m", "demo"]
LONG_S = 1800
"""For a machine that is busy with other tests; the demo has deadlines of its own."""


@pytest.fixture
def java() -> None:
    """Skips a test, and says why, where there is no Java for Spark."""
    try:
        check_java()
    except NoJava as error:
        pytest.skip(str(error))


def live_processes(directory: Path) -> list[str]:
    """The commands that still run and name this directory, as all commands of a demo do, and its JVMs."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(directory) in command and process.name != str(os.getpid()):
            found.append(command)
    return found


@pytest.mark.slow
@pytest.mark.usefixtures("java")
@pytest.mark.timeout(LONG_S)
# Spark gives the process that plans a stream ten seconds to start, which cannot be set: too few where many tests run at once.
@pytest.mark.flaky(reruns=3, only_rerun="connect back")
def test_the_demo_runs_to_its_end_and_every_check_holds(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    flags = ["--events", "2000", "--seconds", "3", "--directory", str(directory)]
    done = subprocess.run([*DEMO, *flags], cwd=ROOT, capture_output=True, text=True, timeout=LONG_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all 12 checks held" in done.stdout
    assert "NOT ok" not in done.stdout
    assert done.stdout.count("100.000%") == 16
    assert "<svg" in (directory / "views-per-page.html").read_text()
    assert "<html" in (directory / "audit.html").read_text()
    wait_until(lambda: live_processes(directory) == [], "everything has ended")


@pytest.mark.slow
@pytest.mark.usefixtures("java")
@pytest.mark.timeout(LONG_S)
def test_an_interrupted_demo_leaves_nothing_running(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    demo = subprocess.Popen([*DEMO, "--directory", str(directory)], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    # The load is the first process of Spark; it is interrupted while that starts.
    wait_until(lambda: (directory / "logs" / "load-1.err").exists() or demo.poll() is not None, "the load is started", deadline_s=300)
    assert len(live_processes(directory)) >= 3
    demo.send_signal(signal.SIGINT)
    _, errors = demo.communicate(timeout=300)
    assert (demo.returncode, "interrupted" in errors) == (130, True), errors
    wait_until(lambda: live_processes(directory) == [], "everything has ended")


def test_a_missing_java_is_said_before_anything_is_started(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"} | {"PATH": str(tmp_path)}
    directory = tmp_path / "run"
    done = subprocess.run(
        [*DEMO, "--directory", str(directory)], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 2
    assert "Java 17" in done.stderr
    assert "apt-get install default-jre-headless" in done.stderr
    assert not directory.exists()


def test_an_interruption_before_anything_is_started_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("demo.__main__.raise_when_interrupted", lambda: None)
    monkeypatch.setattr("demo.__main__.check_java", interrupted)
    assert main([]) == INTERRUPTED


def test_the_demo_needs_only_what_its_set_up_installs() -> None:
    installed = {"demo", "millstream", "deltalake", "numpy", "pyarrow", "rich"}
    imported = {
        name.partition(".")[0]
        for path in (ROOT / "demo").glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        for name in ([alias.name for alias in node.names] if isinstance(node, ast.Import) else [getattr(node, "module", "")])
        if name
    }
    assert imported - installed <= sys.stdlib_module_names


def test_too_few_events_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--events", "10"])
    assert "at least 1000" in capsys.readouterr().err


def test_the_job_files_are_jobs(tmp_path: Path) -> None:
    files = write_job_files(tmp_path, brokers="127.0.0.1:9092", registry="http://127.0.0.1:8081")
    assert isinstance(read_job(windows_file(tmp_path)), WindowsJob)
    assert isinstance(read_job(files["join"]), JoinJob)
