"""Ends what a rig leaves behind when it is killed itself: a process of its own that waits for the end of its standard input.

The rig writes one line for each thing it starts and ends: `+pid`, `-pid`, `+/path/of/a/mount`, `-/path/of/a/mount`. A rig that ends in
order has taken everything back; then there is nothing to do. Processes are ended by their ids, and only those that were named.
"""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

_PROJECT = Path(__file__).parents[3]


class Reaper:
    """The rig's end of it."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.cluster.faults.reaper"]
        # In a session of its own: Ctrl-C ends the rig, and the reaper after it.
        self._process = subprocess.Popen(command, cwd=_PROJECT, stdin=subprocess.PIPE, text=True, start_new_session=True)

    def watch(self, what: int | Path) -> None:
        """End this process, or unmount this directory, if the rig dies."""
        self._write(f"+{what}")

    def forget(self, what: int | Path) -> None:
        """It has ended, or is not mounted any more."""
        self._write(f"-{what}")

    def began(self, pid: int, _: str) -> None:
        """End this process if the rig dies."""
        self.watch(pid)

    def ended(self, pid: int) -> None:
        """It has ended."""
        self.forget(pid)

    def close(self) -> None:
        """End what is still being watched."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait(60)

    def _write(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()


def main() -> None:
    """Read to the end, then clean up."""
    watched: dict[str, None] = {}
    for line in sys.stdin:
        name = line[1:].rstrip("\n")
        if line.startswith("+"):
            watched[name] = None
        else:
            watched.pop(name, None)
    processes = [name for name in watched if name.isdigit()]
    for name in processes:
        with contextlib.suppress(OSError):
            os.kill(int(name), signal.SIGKILL)
    for name in watched:
        if name not in processes:
            subprocess.run(["umount", "-l", name], check=False, capture_output=True, timeout=60)


if __name__ == "__main__":
    main()
