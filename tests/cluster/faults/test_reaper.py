"""What a rig leaves behind when it dies is ended, and nothing else."""

import signal
import subprocess
import sys

from tests.cluster.faults.reaper import Reaper


def sleeping() -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])


def test_a_process_that_is_still_watched_when_the_rig_ends_is_killed() -> None:
    watched, forgotten = sleeping(), sleeping()
    try:
        reaper = Reaper()
        for process in (watched, forgotten):
            reaper.watch(process.pid)
        reaper.forget(forgotten.pid)
        reaper.close()
        assert watched.wait(60) == -signal.SIGKILL
        assert forgotten.poll() is None
    finally:
        for process in (watched, forgotten):
            process.kill()
            process.wait(60)
