"""What a broker costs, read from /proc, and how several rounds become one figure.

CPU is user + system time of the process, of its living descendants and of children it has already waited for, so that work
moved into a child process still counts. The kernel counts in ticks of 10 ms: a measured piece of work should cost at least 20
of them. Memory is the resident set of the same processes.
"""

import os
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Self

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def process_tree(root_pid: int) -> Iterator[int]:
    """The process and its living descendants."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (fields := _stat_fields(int(entry.name))):
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    waiting = [root_pid]
    while waiting:
        pid = waiting.pop()
        yield pid
        waiting.extend(children.get(pid, ()))


def cpu_seconds(root_pid: int) -> float:
    """User and system time used so far, in seconds."""
    # In the fields after the command name 11 to 14 are utime, stime and the same of waited-for children (proc(5)).
    return sum(sum(int(field) for field in _stat_fields(pid)[11:15]) for pid in process_tree(root_pid)) / TICKS_PER_SECOND


def resident_bytes(root_pid: int) -> int:
    """The resident set now."""
    return sum(int(fields[21]) for pid in process_tree(root_pid) if (fields := _stat_fields(pid))) * PAGE_BYTES


def bytes_read(root_pid: int) -> int:
    """Bytes that the processes have read from files so far, from the disk or the page cache (and, with some runtimes, from sockets)."""
    total = 0
    for pid in process_tree(root_pid):
        try:
            lines = Path(f"/proc/{pid}/io").read_text().splitlines()
        except OSError:
            continue
        total += next(int(line.split()[1]) for line in lines if line.startswith("rchar"))
    return total


def _stat_fields(pid: int) -> list[str]:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return []
    # The command name is in parentheses and may itself hold spaces and parentheses.
    return text[text.rindex(")") + 2 :].split()


@dataclass(slots=True)
class Stopwatch:
    """Wall time and broker CPU of one piece of work: `with Stopwatch(pid) as watch: ...`."""

    pid: int
    seconds: float = 0.0
    cpu: float = 0.0

    def __enter__(self) -> Self:
        self.cpu = -cpu_seconds(self.pid)
        self.seconds = -monotonic()
        return self

    def __exit__(self, *exception: object) -> None:
        self.seconds += monotonic()
        self.cpu += cpu_seconds(self.pid)

    def rate(self, count: int) -> float:
        """Things per second."""
        return count / self.seconds

    def cpu_per_million(self, count: int) -> float:
        """Broker CPU seconds per million things."""
        return self.cpu / count * 1_000_000


def percentile(values: Sequence[float], percent: float) -> float:
    """The nearest-rank percentile."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def median(values: Sequence[float]) -> float:
    """The middle value."""
    return statistics.median(values)
