"""Starts that come to nothing: one sentence if they are refused, and everything is as it was."""

import fcntl
import os
import signal
import socket
from pathlib import Path

from millstream.processes.layout import CHANGE_FILE
from millstream.processes.machine_data import CHILDREN_LOCK
from tests.processes.brokers import ProcessesBroker
from tests.several_directories import partitions_in
from tests.waiting import is_gone, wait_until

PARTITIONS = 6


def test_a_disk_that_is_not_mounted_stops_the_start_with_any_number_of_processes(tmp_path: Path) -> None:
    stopped = ProcessesBroker(tmp_path, processes=2)
    stopped.paths = [tmp_path / "one", tmp_path / "two"]
    stopped.start(deadline_s=120)
    writing = stopped.begin_writing(100, partitions=PARTITIONS)
    writing.finish()
    assert stopped.stop() == 0
    one, two = stopped.paths
    away = two.with_name("away")
    two.rename(away)
    before = [sorted(path.name for path in one.rglob("*"))]
    for processes in (2, 3, 0):
        stopped.processes = processes
        refusal = stopped.refusal()
        assert "data directories of this broker are missing" in refusal
        assert str(two) in refusal
        assert not two.exists()
    assert [sorted(path.name for path in one.rglob("*"))] == before
    away.rename(two)
    # And with the disk that has the tree of znodes.
    one.rename(away)
    assert "coordination tree" in stopped.refusal()
    away.rename(one)
    stopped.processes = 3
    stopped.start(deadline_s=120)
    writing.check()
    assert stopped.stop() == 0
    homes = [[path / f"process.{number}" for path in stopped.paths] for number in (1, 2, 3)]
    assert [sum(name.startswith(writing.topic) for home in of_one for name in partitions_in(home)) for of_one in homes] == [2, 2, 2]


def test_a_change_of_a_later_release_is_not_touched(tmp_path: Path) -> None:
    broker = ProcessesBroker(tmp_path, processes=1)
    broker.start(deadline_s=120)
    assert broker.stop() == 0
    change = broker.data / CHANGE_FILE
    change.write_text('{"version": 99}')
    for processes in (0, 1, 2):
        broker.processes = processes
        assert "version 99 is not known to this release" in broker.refusal()
    assert change.read_text() == '{"version": 99}'


def test_the_directory_of_one_process_is_not_taken_for_that_of_a_zookeepers_broker(tmp_path: Path) -> None:
    broker = ProcessesBroker(tmp_path, processes=1)
    broker.start(deadline_s=120)
    assert broker.stop() == 0
    together = broker.data
    broker.processes, broker.paths = 0, [together / "process.1"]
    assert f"process.1 belongs to one of several processes that share {together}: give --data {together}" in broker.refusal()


def test_a_port_that_is_taken_stops_the_start(tmp_path: Path) -> None:
    broker = ProcessesBroker(tmp_path)
    with socket.create_server((broker.host, 0)) as other:
        broker.port = other.getsockname()[1]
        assert "another program uses this port" in broker.refusal()
        broker.port, broker.advertised_port = 0, 65_535
        assert "ports end with 65535" in broker.refusal()


def test_data_in_use_stops_the_start_of_others(tmp_path: Path) -> None:
    broker = ProcessesBroker(tmp_path / "first", processes=1)
    broker.start(deadline_s=120)
    try:
        for processes in (0, 1):
            other = ProcessesBroker(tmp_path / f"other{processes}", processes=processes)
            other.paths = [broker.data]
            assert "is in use by another broker" in other.refusal()
    finally:
        broker.stop()


def test_a_signal_ends_a_start_that_waits_for_brokers_of_an_earlier_one(tmp_path: Path) -> None:
    broker = ProcessesBroker(tmp_path)
    broker.data.mkdir()
    with (broker.data / CHILDREN_LOCK).open("w") as earlier:
        fcntl.flock(earlier, fcntl.LOCK_EX)
        broker.launch()
        wait_until(lambda: "waiting until the brokers of an earlier start" in broker.output, "it waits")
        assert broker.stop() == 0
    assert broker.output.count("\n") == 1


def test_a_signal_ends_a_start_whose_brokers_are_not_ready(tmp_path: Path) -> None:
    broker = ProcessesBroker(tmp_path)
    broker.launch()
    children = wait_until(lambda: Path(f"/proc/{broker.pid}/task/{broker.pid}/children").read_text().split(), "the first child")
    assert broker.stop() == 0
    assert all(is_gone(int(pid)) for pid in children)
    assert "ready:" not in broker.output
    assert "Traceback" not in broker.output


def test_a_second_signal_does_not_wait_for_a_broker_that_does_not_stop(tmp_path: Path) -> None:
    broker = ProcessesBroker(tmp_path, processes=1)
    broker.start(deadline_s=120)
    [child] = broker.children().values()
    os.kill(child, signal.SIGSTOP)
    try:
        os.kill(broker.pid, signal.SIGINT)
        wait_until(lambda: not is_handled(signal.SIGINT, broker.pid), "the first signal is seen")
        os.kill(broker.pid, signal.SIGINT)
        assert broker.wait() == -signal.SIGINT
    finally:
        os.kill(child, signal.SIGCONT)
    wait_until(lambda: is_gone(child), "the broker ends without its parent")


def is_handled(number: signal.Signals, pid: int) -> bool:
    """Whether the process has a handler for the signal."""
    [handled] = [line.split()[1] for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("SigCgt:")]
    return bool(int(handled, 16) >> (number - 1) & 1)
