"""Processes of the demo: what is said when one does not do what it should."""

import os
import signal
import sys
from pathlib import Path

import pytest

from demo.process import DemoFailed, Process, wait_for
from tests.waiting import is_gone

READY = "import signal, sys; print('ready: broker 127.0.0.1:1 registry 127.0.0.1:2', flush=True); signal.pause()"


def python(tmp_path: Path, code: str) -> Process:
    return Process("worker", [sys.executable, "-c", code], tmp_path)


def test_a_process_says_its_addresses_and_ends_by_its_own_id(tmp_path: Path) -> None:
    process = python(tmp_path, READY)
    process.start()
    assert process.await_ready() == {"broker": "127.0.0.1:1", "registry": "127.0.0.1:2"}
    assert os.getsid(process.pid) == process.pid, "Ctrl-C in the terminal would reach it"
    assert process.stop() == process.exit_code == -signal.SIGTERM
    assert is_gone(process.pid)


def test_a_process_that_ends_too_early_is_named_with_its_last_words(tmp_path: Path) -> None:
    process = python(tmp_path, "import sys; sys.exit('no port is free')")
    process.start()
    with pytest.raises(DemoFailed, match=r"(?s)worker has ended .* worker is ready\. .*no port is free"):
        process.await_ready()
    assert process.wait() == 1


def test_what_a_process_did_before_it_ended_counts(tmp_path: Path) -> None:
    process = python(tmp_path, "print('ready: audit', flush=True)")
    process.start()
    process.wait()
    assert process.await_ready() == {}


def test_what_does_not_happen_is_said_with_the_log(tmp_path: Path) -> None:
    process = python(tmp_path, READY)
    process.start()
    try:
        process.await_ready()
        with pytest.raises(DemoFailed, match=r"within 0.1 s: pigs fly\.\nThe log of worker ends with"):
            wait_for(lambda: False, "pigs fly", needs=[process], deadline_s=0.1)
    finally:
        process.kill()


def test_a_second_life_has_files_of_its_own(tmp_path: Path) -> None:
    process = python(tmp_path, READY)
    for _ in range(2):
        process.start()
        process.await_ready()
        process.kill()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["worker-1.err", "worker-1.out", "worker-2.err", "worker-2.out"]
