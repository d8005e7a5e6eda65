"""The system calls of a running broker, watched with strace, to show what the kernel is really asked to do."""

import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.brokers import Broker
from tests.waiting import wait_until

_LINE = re.compile(r"^\d+\s+(?P<name>\w+)\((?P<arguments>.*)\)\s+= (?P<result>-?\d+)")


class SystemCall(NamedTuple):
    """One call that returned; descriptors in `arguments` carry their paths."""

    name: str
    arguments: str
    result: int


class Trace:
    """What was seen; complete once the watching has ended."""

    def __init__(self) -> None:
        self.calls: list[SystemCall] = []

    def named(self, *names: str) -> list[SystemCall]:
        """The calls with one of these names."""
        return [call for call in self.calls if call.name in names]


@contextmanager
def watch(broker: Broker, names: str, directory: Path) -> Iterator[Trace]:
    """Watch all threads of the broker while the block runs; skips the test where that is not possible."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("no strace here")
    output, complaints = directory / "strace.txt", directory / "strace-errors.txt"
    with complaints.open("wb") as stderr:
        command = [strace, "-f", "-y", "-e", f"trace={names}", "-o", str(output), "-p", str(broker.pid)]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=stderr)
    try:
        wait_until(lambda: process.poll() is not None or "attached" in complaints.read_text(), "strace attached")
        if process.poll() is not None:
            pytest.skip(f"strace may not watch a process here: {complaints.read_text().strip()}")
        trace = Trace()
        yield trace
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        process.wait(timeout=30)
    for line in _joined(output.read_text(errors="replace").splitlines()):
        found = _LINE.match(line)
        if found:
            trace.calls.append(SystemCall(found["name"], found["arguments"], int(found["result"])))


def _joined(lines: list[str]) -> Iterator[str]:
    """strace cuts a call in two when another thread comes between; put the halves together."""
    begun: dict[str, str] = {}
    for line in lines:
        thread = line.split(maxsplit=1)[0]
        if line.endswith("<unfinished ...>"):
            begun[thread] = line.removesuffix("<unfinished ...>")
        elif "resumed>" in line:
            yield begun.pop(thread, thread + " ") + line.partition("resumed>")[2]
        else:
            yield line
