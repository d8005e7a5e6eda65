"""The cleaner as a process: orders in, answers out, no faster than allowed, and gone when its broker is."""

import subprocess
import sys

import pytest

from millstream.log.compaction.cleaner_process import Throttle
from millstream.log.compaction.cleaning import Cleaning
from millstream.log.compaction.cleaning_order import CleanedGroup, CleaningResult, answer_from_line
from millstream.log.log import Log
from tests.unit.log.compacted import extent_of, write
from tests.unit.log.conftest import NOW_MS, OpenLog

COMMAND = [sys.executable, "-P", "-m", "millstream.log.compaction.cleaner_process"]


@pytest.fixture
def filled(open_log: OpenLog) -> Log:
    log = open_log(cleanup_policy="compact", segment_bytes=1000)
    for number in range(60):
        write(log, (b"k%d" % (number % 4), b"%d" % number * 20))
    log.roll(now_ms=NOW_MS)
    return log


def order_line(log: Log) -> bytes:
    cleaning = Cleaning(log, extent_of(log), now_ms=NOW_MS, dedupe_buffer_bytes=1 << 20, io_buffer_bytes=1 << 16)
    return cleaning.order.to_line()


def test_each_order_is_answered_with_groups_and_a_result(filled: Log) -> None:
    line = order_line(filled)
    done = subprocess.run(COMMAND, input=line + line, capture_output=True, timeout=60, check=True)
    answers = [answer_from_line(answer) for answer in done.stdout.splitlines()]
    results = [answer for answer in answers if isinstance(answer, CleaningResult)]
    assert [(result.end_offset, result.error, result.records_after) for result in results] == [(60, None, 4)] * 2
    assert isinstance(answers[0], CleanedGroup)
    assert (filled.path / f"{answers[0].base_offsets[0]:020d}.log.cleaned").stat().st_size == answers[0].size_bytes
    assert done.stderr == b""


def test_files_that_are_gone_are_worth_another_try_and_damage_is_not(filled: Log) -> None:
    line = order_line(filled)
    first = filled.path / f"{0:020d}.log"
    content = bytearray(first.read_bytes())
    content[16] = 9
    first.write_bytes(content)
    damaged = subprocess.run(COMMAND, input=line, capture_output=True, timeout=60, check=True).stdout
    first.unlink()
    gone = subprocess.run(COMMAND, input=line, capture_output=True, timeout=60, check=True).stdout
    answers = [answer_from_line(damaged), answer_from_line(gone)]
    assert all(isinstance(answer, CleaningResult) and answer.error for answer in answers)
    assert [isinstance(answer, CleaningResult) and answer.is_temporary for answer in answers] == [False, True]


def test_it_imports_nothing_of_the_broker() -> None:
    code = "import sys, millstream.log.compaction.cleaner_process; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True).stdout.split()
    assert [name for name in modules if name.startswith(("millstream.broker", "millstream.cluster", "asyncio", "kio"))] == []


def test_work_takes_as_long_as_the_rate_says() -> None:
    now = 0.0
    waits: list[float] = []

    def wait(seconds: float) -> None:
        nonlocal now
        waits.append(seconds)
        now += seconds

    throttle = Throttle(1000, wait=wait, monotonic=lambda: now)
    throttle.spend(500)
    throttle.spend(500)
    assert waits == [0.5, 0.5]
    now += 3.0  # The work itself took long: nothing to wait for.
    throttle.spend(1000)
    assert waits[-1] == 0.0
