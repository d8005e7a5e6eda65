"""What a broker costs, read from /proc, and how several rounds become one figure.

CPU is user + system time of the process, of its living descendants and of children it has already waited for, so that work
moved into a child process still counts. The kernel counts in ticks of 10 ms: a measured piece of work should cost at least 20
of them. Memory is the resident set of the same processes.
"""

import os
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import monotonic
from typing import Self

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def process_tree(*roots: int) -> Iterator[int]:
    """The processes and their living descendants."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (fields := _stat_fields(int(entry.name))):
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    waiting = list(roots)
    while waiting:
        pid = waiting.pop()
        yield pid
        waiting.extend(children.get(pid, ()))


def cpu_seconds(*roots: int) -> float:
    """User and system time used so far, in seconds."""
    # In the fields after the command name 11 to 14 are utime, stime and the same of waited-for children (proc(5)).
    return sum(sum(int(field) for field in _stat_fields(pid)[11:15]) for pid in process_tree(*roots)) / TICKS_PER_SECOND


def resident_bytes(*roots: int) -> int:
    """The resident set now."""
    return sum(int(fields[21]) for pid in process_tree(*roots) if (fields := _stat_fields(pid))) * PAGE_BYTES


def peak_resident_bytes(pid: int) -> int:
    """The most that this one process ever had resident."""
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")) * 1024


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


class Stopwatch:
    """Wall time and CPU of one piece of work: `with Stopwatch(pid, ...) as watch: ...`. Processes `beside` are counted apart."""

    def __init__(self, *pids: int, beside: tuple[int, ...] = ()) -> None:
        self.pids = pids
        self.beside = beside
        self.seconds = self.cpu = self.cpu_beside = 0.0

    def __enter__(self) -> Self:
        self.cpu, self.cpu_beside = -cpu_seconds(*self.pids), -cpu_seconds(*self.beside)
        self.seconds = -monotonic()
        return self

    def __exit__(self, *exception: object) -> None:
        self.seconds += monotonic()
        self.cpu += cpu_seconds(*self.pids)
        self.cpu_beside += cpu_seconds(*self.beside)

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
