"""How many cores this process may use: those that it may run on, and no more than the quota of its control group allows (`docker --cpus`).

A quota that is not a whole number is rounded up, as Java does it.
"""

import math
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

ROOT = Path("/")


def usable_cores(root: Path = ROOT) -> int:
    """The number of cores; at least one."""
    cores = len(os.sched_getaffinity(0))
    return max(1, min(cores, math.ceil(min(_quotas(root), default=cores))))


def _quotas(root: Path) -> Iterator[float]:
    """The quotas of this process's control group and of those around it, in cores."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    groups = root / "sys/fs/cgroup"
    for number, controllers, path in (line.split(":", 2) for line in lines if line.count(":") >= 2):
        if number == "0":
            for place in _from_inside_out(groups, path):
                yield from _quota(place / "cpu.max")
        elif "cpu" in controllers.split(","):  # version 1, where each controller has a hierarchy of its own
            for place in _from_inside_out(groups / "cpu", path):
                yield from _quota(place / "cpu.cfs_quota_us", place / "cpu.cfs_period_us")


def _from_inside_out(mount: Path, path: str) -> Iterator[Path]:
    """The directories of a group and of those around it. In a container the mount may be the group itself, and not know its path."""
    group = mount / path.lstrip("/")
    yield from (place for place in (group, *group.parents) if place.is_relative_to(mount))


def _quota(*files: Path) -> Iterator[float]:
    """Quota and period, in one file or in two; nothing where there is no quota."""
    with suppress(OSError, ValueError):  # "max" and -1 are no quota
        quota, period = (int(word) for file in files for word in file.read_text().split())
        if quota > 0 and period > 0:
            yield quota / period
