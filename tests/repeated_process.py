"""A process that tests end, in one way or another, and start again."""

import signal
import subprocess
from pathlib import Path
from typing import Self

from tests.waiting import wait_until

ROOT = Path(__file__).parents[1]
END_S = 30


class RepeatedProcess:
    """One command, life after life; what all of them write goes to one file."""

    def __init__(self, command: list[str], output: Path) -> None:
        self._command = command
        self._output = output
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def output(self) -> str:
        """What all of its lives have written."""
        return self._output.read_text()

    @property
    def pid(self) -> int:
        """Process id of the present or last life."""
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process lives."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Begin a life."""
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(self.arguments(), stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, cwd=ROOT)

    def arguments(self) -> list[str]:
        """What the next life is started with."""
        return self._command

    def wait(self) -> int:
        """Wait until it ends by itself; the exit code."""
        assert self._process is not None
        return self._process.wait(timeout=END_S)

    def stop(self) -> int:
        """Ask it to end; the exit code."""
        return self._end(signal.SIGTERM)

    def kill(self) -> None:
        """The end without warning."""
        self._end(signal.SIGKILL)

    def wait_for(self, text: str) -> None:
        """Wait until it has written this."""
        wait_until(lambda: text in self.output, f"the process says {text!r}:\n{self.output}")

    def _end(self, number: signal.Signals) -> int:
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(number)
        return self._process.wait(timeout=END_S)
