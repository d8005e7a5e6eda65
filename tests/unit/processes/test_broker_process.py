"""The parent's side of the pipes, with a child that is no broker: it says what the test lets it say."""

import asyncio
import errno
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from millstream.broker.metrics.sample import BROKER, PARTITIONS, encode_part
from millstream.broker.server_options import ServerOptions
from millstream.processes import broker_process
from millstream.processes.broker_process import BrokerProcess
from millstream.processes.pipe import Order
from tests.waiting import eventually

CHILD = """
import os, pathlib, sys, time
from millstream.broker.metrics.sample import encode_part
from millstream.processes.pipe import read_order
read_order(0)
os.write(1, encode_part("ready", []))
for number in range(100):
    while (asked := os.read(0, 1)) == b"a":
        os.write(1, encode_part("alive", []))
    if not asked:
        break
    os.write(1, encode_part("partitions", [number]))
    while not (said := pathlib.Path(sys.argv[1]).read_text()):
        time.sleep(0.01)
    if said == "end":
        break
    os.write(1, encode_part("broker", [number]))
"""


@pytest.fixture
def word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file: as long as it is empty a child says half of a sample, then the rest, or it ends if the file says that."""
    word = tmp_path / "word"
    word.touch()
    monkeypatch.setattr(broker_process, "PROGRAM", ("-c", CHILD, str(word)))
    monkeypatch.setattr(broker_process, "SAMPLE_S", 60)
    return word


async def started(*, lock: Path) -> BrokerProcess:
    with lock.open() as handle:
        process = BrokerProcess(Order(ServerOptions(), "info", "text"), lock=handle.fileno(), on_end=lambda _number: None)
        process.start()
        await process.ready()
    return process


def say(word: Path, text: str) -> None:
    word.write_text(text)


def sample(number: int) -> list[bytes]:
    return [encode_part(PARTITIONS, [number]), encode_part(BROKER, [number])]


async def test_a_sample_that_comes_late_is_not_mixed_with_the_next_one(word: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process = await started(lock=word)
    with monkeypatch.context() as impatient:
        impatient.setattr(broker_process, "SAMPLE_S", 0.01)
        assert await process.sample() == []
    assert await process.sample() == [], "it is not waited for any more"
    say(word, "go on")
    await eventually(lambda: process._sample is None, "the late sample is here")
    assert await process.sample() == sample(1)
    assert await process.sample() == sample(2)
    await process.stop()


async def test_of_a_broker_that_ends_in_the_middle_of_a_sample_there_is_none(word: Path) -> None:
    process = await started(lock=word)
    asked = asyncio.create_task(process.sample())
    await eventually(lambda: bool(process._parts), "half of a sample")
    say(word, "end")
    assert await asked == []
    await process.stop()


SLOWLY_SETTLED = """
import os, pathlib, sys, time
from millstream.broker.metrics.sample import encode_part
from millstream.processes.pipe import read_order
read_order(0)
os.write(1, encode_part("ready", []))
while not pathlib.Path(sys.argv[1]).read_text():
    time.sleep(0.01)
os.write(1, encode_part("settled", []))
os.read(0, 1)
"""


async def test_a_broker_is_ready_before_it_knows_the_others(word: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_process, "PROGRAM", ("-c", SLOWLY_SETTLED, str(word)))
    process = await started(lock=word)
    settled = asyncio.create_task(process.settled())
    await process.ready()
    assert not settled.done()
    say(word, "it knows them")
    await settled
    await process.stop()


async def test_a_broker_is_started_again_when_no_process_could_be_started(word: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process = await started(lock=word)
    assert process.process is not None
    first = process.process.pid
    start = asyncio.create_subprocess_exec
    refusals = [RuntimeError("can't start new thread"), OSError(errno.EMFILE, "Too many open files")]

    async def refuse(*arguments: Any, **options: Any) -> asyncio.subprocess.Process:
        if refusals:
            raise refusals.pop()
        return await start(*arguments, **options)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", refuse)
    with word.open() as lock:
        process._lock = lock.fileno()
        process.process.kill()
        await eventually(lambda: process._is_up and process.process is not None and process.process.pid != first, "it is up again")
    assert not refusals
    await process.stop()


async def test_a_broker_that_gives_no_sign_of_life_is_spoken_of(
    word: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(broker_process, "SIGN_S", 0.01)
    monkeypatch.setattr(broker_process, "STEPS_TO_KILL", 1 << 30)
    process = await started(lock=word)
    child = process.process
    assert child is not None
    os.kill(child.pid, signal.SIGSTOP)
    await eventually(lambda: "broker 1 does not answer for 0.05 s: is it stopped" in caplog.text)
    os.kill(child.pid, signal.SIGCONT)
    await eventually(lambda: "broker 1 answers again" in caplog.text)
    assert process.process is child
    await process.stop()


async def test_a_broker_that_is_stopped_by_a_signal_is_killed_and_started_again(
    word: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    process = await started(lock=word)
    stopped = process.process
    assert stopped is not None
    monkeypatch.setattr(broker_process, "SIGN_S", 0.02)
    os.kill(stopped.pid, signal.SIGSTOP)
    await eventually(lambda: stopped.returncode is not None, "the child is killed")
    monkeypatch.setattr(broker_process, "STEPS_TO_KILL", 1 << 30)
    assert stopped.returncode == -signal.SIGKILL
    await eventually(lambda: process.process is not stopped and process._is_up)
    assert "broker 1 did not answer for 0.6 s and is killed" in caplog.text
    await process.stop()
