import os
from pathlib import Path

import pytest

from millstream.processes.cores import usable_cores


@pytest.fixture(autouse=True)
def _eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(8)))


def machine(root: Path, own_groups: str, **files: str) -> Path:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(own_groups)
    for name, content in files.items():
        file = root / "sys/fs/cgroup" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    return root


def test_without_a_quota_it_is_the_cores_that_the_process_may_run_on(tmp_path: Path) -> None:
    assert usable_cores(tmp_path / "no control groups") == 8
    assert usable_cores(machine(tmp_path, "0::/service\n", **{"service/cpu.max": "max 100000\n"})) == 8


def test_the_quota_of_a_container_is_rounded_up(tmp_path: Path) -> None:
    assert usable_cores(machine(tmp_path, "0::/\n", **{"cpu.max": "250000 100000\n"})) == 3


def test_the_smallest_quota_of_a_group_and_of_those_around_it_counts(tmp_path: Path) -> None:
    quotas = {"slice/cpu.max": "200000 100000\n", "slice/service/cpu.max": "600000 100000\n"}
    assert usable_cores(machine(tmp_path, "0::/slice/service\n", **quotas)) == 2


def test_quotas_of_version_1_count_also_where_a_container_does_not_see_its_path(tmp_path: Path) -> None:
    quotas = {"cpu/cpu.cfs_quota_us": "50000\n", "cpu/cpu.cfs_period_us": "100000\n"}
    assert usable_cores(machine(tmp_path, "4:cpu,cpuacct:/docker/0a1b\n1:name=systemd:/\n", **quotas)) == 1


def test_no_quota_of_version_1_is_minus_one(tmp_path: Path) -> None:
    quotas = {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}
    assert usable_cores(machine(tmp_path, "4:cpu:/\n", **quotas)) == 8
