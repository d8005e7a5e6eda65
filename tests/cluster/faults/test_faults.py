"""The short version of `scripts/faults`: one of each sort of fault on real processes. It asserts safety, not speed."""

from pathlib import Path

import pytest

from tests.brokers import IS_KAFKA
from tests.cluster.faults.rig import make_rig
from tests.cluster.faults.run import Plan, Run
from tests.cluster.server_process import missing_zookeeper

KINDS = (
    "kill-leader-fast",
    "kill-controller-slow",
    "pause-leader",
    "cut-coordination",
    "one-way-out",
    "coordination-gone",
    "power-cut",
    "full-disk",
    "rolling-restart",
)
SESSION_TIMEOUT_MS = 6_000


@pytest.mark.timeout(1200)
def test_nothing_acknowledged_is_lost_or_doubled_whatever_happens_to_one_broker(tmp_path: Path) -> None:
    reason = None if IS_KAFKA else missing_zookeeper()
    if reason is not None:
        pytest.skip(reason)
    peer = "kafka" if IS_KAFKA else "millstream"
    with make_rig(peer, tmp_path, session_timeout_ms=SESSION_TIMEOUT_MS, needs_a_disk=True) as rig:
        report = Run(rig, Plan(KINDS, attempts=len(KINDS), rate=50)).run()
    print("\n".join(report.lines()))
    assert report.problems == []
    assert report.stuck == []
    assert len(report.cycles) + len(report.skipped) == len(KINDS)
    assert report.acknowledged > 0
