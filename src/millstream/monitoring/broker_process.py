"""What Linux says of the broker's process, or of several, under the names that every Prometheus client uses."""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from millstream.monitoring.exposition import family
from millstream.monitoring.families import PROCESS_FAMILIES

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_CPU_FIELDS: Final = slice(11, 13)
_START_FIELD: Final = 19
_RESIDENT_FIELD: Final = 21
"""Positions in /proc/PID/stat after the name of the program, which is in brackets and may contain anything."""


def process_families(processes: Mapping[str, int]) -> str:
    """As Prometheus' text, of processes by their labels; nothing where there is no /proc, or of a process that has ended."""
    series: dict[str, list[tuple[str, float]]] = {}
    for label, pid in processes.items():
        with suppress(OSError):
            for name, value in _values(Path("/proc"), pid).items():
                series.setdefault(name, []).append((label, value))
    return "".join(family(name, *PROCESS_FAMILIES[name], values) for name, values in series.items())


def _values(proc: Path, pid: int) -> dict[str, float]:
    fields = (proc / str(pid) / "stat").read_text().rpartition(")")[2].split()
    booted = next(line.split()[1] for line in (proc / "stat").read_text().splitlines() if line.startswith("btime"))
    limits = (proc / str(pid) / "limits").read_text().splitlines()
    max_fds = next(line.split()[3] for line in limits if line.startswith("Max open files"))
    return {
        "process_cpu_seconds_total": sum(map(int, fields[_CPU_FIELDS])) / _TICKS,
        "process_resident_memory_bytes": int(fields[_RESIDENT_FIELD]) * _PAGE,
        "process_open_fds": len(os.listdir(proc / str(pid) / "fd")),
        "process_max_fds": float("inf") if max_fds == "unlimited" else int(max_fds),
        "process_start_time_seconds": int(booted) + int(fields[_START_FIELD]) / _TICKS,
    }
