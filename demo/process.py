"""A process of the demo: started with its output in files, waited for, stopped by its own id, killed, and started again.

Each is in a session of its own, so that Ctrl-C in the terminal reaches the demo alone, which then stops them in order.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

from demo.interruption import uninterrupted

T = TypeVar("T")

ROOT: Final = Path(__file__).resolve().parents[1]
READY: Final = "ready:"
DEADLINE_S: Final = 300.0
"""For everything that is waited for: on a machine that is busy, too. It only costs time when something is wrong."""
STOP_S: Final = 60.0
_LOOK_S: Final = 0.05
_LAST_LINES: Final = 12


class DemoFailed(Exception):
    """Something did not happen; the text says what."""


class Process:
    """One command, which can have several lives."""

    def __init__(self, name: str, command: Sequence[str], directory: Path, *, environment: Mapping[str, str] | None = None) -> None:
        self.name = name
        self.command = list(command)
        self.lives = 0
        self.exit_code: int | None = None
        """Of the last life, once it has ended."""
        self._directory = directory
        self._environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The id of the present or last life."""
        assert self._process is not None, f"{self.name} was never started"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether it lives."""
        return self._process is not None and self._process.poll() is None

    @property
    def stdout(self) -> Path:
        """What the present or last life printed."""
        return self._directory / f"{self.name}-{self.lives}.out"

    @property
    def stderr(self) -> Path:
        """What the present or last life logged."""
        return self._directory / f"{self.name}-{self.lives}.err"

    def start(self) -> None:
        """Start it, and do not wait."""
        assert not self.is_running, f"{self.name} runs already"
        self.lives += 1
        self._directory.mkdir(parents=True, exist_ok=True)
        with self.stdout.open("wb") as out, self.stderr.open("wb") as err, uninterrupted():
            self._process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=self._environment, cwd=ROOT, start_new_session=True
            )

    def await_ready(self) -> dict[str, str]:
        """Wait until it says that it is ready; the addresses that it says so with, by their names."""
        words = wait_for(lambda: self.line_of(self.stdout, READY), f"{self.name} is ready", needs=[self]).split()[1:]
        return dict(zip(words[::2], words[1::2], strict=False))

    def line_of(self, file: Path, text: str) -> str:
        """The first whole line with this text in it that the process has written; empty if there is none yet."""
        lines = file.read_text(errors="replace").splitlines(keepends=True)
        return next((line for line in lines if text in line and line.endswith("\n")), "")

    def stop(self) -> int:
        """Ask it to end, and wait; what of it has not ended by then is killed, a JVM that it started, too."""
        code = self._end(signal.SIGTERM)
        self._kill_group()
        return code

    def kill(self) -> None:
        """The end without warning, of this process alone: kill -9."""
        self._end(signal.SIGKILL)

    def wait(self, *, deadline_s: float = DEADLINE_S) -> int:
        """Wait until it ends by itself; the exit code."""
        wait_for(lambda: not self.is_running, f"{self.name} has ended", deadline_s=deadline_s)
        return self._ended()

    def last_lines(self) -> str:
        """The end of what it logged, for people."""
        lines = self.stderr.read_text(errors="replace").splitlines() or ["(it has logged nothing)"]
        return "\n".join(f"    {line}" for line in lines[-_LAST_LINES:])

    def _end(self, number: signal.Signals) -> int:
        if self._process is None:
            return 0
        if self.is_running:
            self._process.send_signal(number)
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._kill_group()
        return self._ended()

    def _kill_group(self) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def _ended(self) -> int:
        assert self._process is not None
        self.exit_code = self._process.wait()
        return self.exit_code


def wait_for(
    condition: Callable[[], T], what: str, *, needs: Iterable[Process] = (), every_s: float = _LOOK_S, deadline_s: float = DEADLINE_S
) -> T:
    """Ask until the condition is true, and return what it gave; `DemoFailed` if a process that it needs ends, or after the deadline."""
    needed = list(needs)
    end = time.monotonic() + deadline_s
    while True:
        result = condition()
        if result:
            return result
        for process in needed:
            # What it did before it ended counts.
            if not process.is_running and not (result := condition()):
                raise DemoFailed(
                    f"{process.name} has ended while the demo waited for this: {what}. Its log ends with\n{process.last_lines()}"
                )
        if result:
            return result
        if time.monotonic() > end:
            logs = "".join(f"\nThe log of {process.name} ends with\n{process.last_lines()}" for process in needed)
            raise DemoFailed(f"this did not happen within {deadline_s:g} s: {what}.{logs}")
        time.sleep(every_s)
