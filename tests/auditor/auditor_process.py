"""The commands of the audit: `run` as a process, `report` in this one."""

import io
import json
import signal
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from millstream.cli.app import make_app
from millstream.cli.main import exit_code
from millstream.errors import MillstreamError
from tests.waiting import wait_until

MILLSTREAM = str(Path(sys.executable).with_name("millstream"))
Found = dict[str, Any]


class AuditorProcess:
    """`millstream audit run`, until it is ended."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._output = directory / "stdout.txt"
        self._log = directory / "stderr.txt"
        with self._output.open("wb") as stdout, self._log.open("wb") as stderr:
            self.process = subprocess.Popen([MILLSTREAM, "audit", "run", *arguments], stdout=stdout, stderr=stderr)
        wait_until(lambda: "ready:" in self._output.read_text() or self.process.poll() is not None, "the auditor is ready")

    @property
    def log(self) -> str:
        """What it logged."""
        return self._log.read_text()

    def kill(self) -> None:
        """The end without warning."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(30)

    def stop(self) -> int:
        """Ask it to end; returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)


def audit_report(brokers: str, *arguments: str, expected_code: int = 0) -> str:
    """What `millstream audit report` prints; in this process, which has everything loaded."""
    printed = io.StringIO()
    with redirect_stdout(printed):
        try:
            code = make_app("audit")(["audit", "report", "--brokers", brokers, *arguments], standalone_mode=False) or 0
        except MillstreamError as error:
            print(error)
            code = exit_code(error)
    assert code == expected_code, printed.getvalue()
    return printed.getvalue()


def rows_of(brokers: str, topic: str, *arguments: str) -> dict[str, Found]:
    """The rows of one bucket of a topic, by tier."""
    lines = audit_report(brokers, "--json", "--topic", topic, *arguments).splitlines()
    return {row["tier"]: row for row in map(json.loads, lines)}
