"""`millstream produce` and `consume` against a real broker, ours or Apache Kafka: round trips, times, followed files, interruptions."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.batches import encode_batch
from tests.brokers import Broker
from tests.topics import create_topic, fresh_name, produce, read_all
from tests.unit.cli.conftest import Millstream, millstream
from tests.waiting import wait_until

__all__ = ["millstream"]

START_MS = 1_700_000_000_000


@pytest.fixture
def timed(broker: Broker) -> str:
    """Ten records, `{"n": 0}` to `{"n": 9}`, one minute apart."""
    name = create_topic(broker)
    with broker.connect() as connection:
        batch = encode_batch([b'{"n": %d}' % number for number in range(10)], timestamp=START_MS, timestamp_step=60_000)
        assert produce(connection, name, batch).error_code == 0
    return name


def values(broker: Broker, topic: str) -> list[bytes | None]:
    return [record.value for record in read_all(broker, topic)]


LINES = b"""\
{"key": "k", "value": "v", "headers": [["a", "1"], ["a", null], ["b", {"base64": "/w=="}]], "timestamp": 1700000000000, "partition": 1}
{"key": null, "value": null, "partition": 0, "timestamp": 1700000000001}
{"key": {"base64": "gA=="}, "value": {"base64": "/wA="}, "partition": 1, "timestamp": 1700000000002}
{"key": "", "value": "", "partition": 0, "timestamp": 1700000000003}
"""


def test_what_consume_writes_produce_takes_to_the_byte(millstream: Millstream, brokers: list[str], broker: Broker) -> None:
    first, second = create_topic(broker, partitions=2), create_topic(broker, partitions=2)
    sent = millstream("produce", first, "-i", "json", *brokers, stdin=LINES)
    assert sent.code == 0, sent.err
    written = millstream("consume", first, "--output", "json", *brokers)
    assert millstream("produce", second, "-i", "json", *brokers, stdin=written.out.encode()).code == 0
    again = millstream("consume", second, "--output", "json", *brokers)
    assert sorted(written.out.replace(first, second).splitlines()) == sorted(again.out.splitlines())
    assert len(again.documents) == 4
    (full,) = [record for record in again.documents if record["key"] == "k"]
    assert (full["partition"], full["headers"], full["timestamp"]) == (1, [["a", "1"], ["a", None], ["b", {"base64": "/w=="}]], START_MS)
    assert [record["value"] for record in again.documents if record["key"] is None] == [None]


def test_partition_of_a_line_that_the_topic_lacks_is_said_and_can_be_left_to_the_key(
    millstream: Millstream, brokers: list[str], broker: Broker
) -> None:
    name, line = create_topic(broker), b'{"key": "k", "value": "v", "partition": 7}'
    refused = millstream("produce", name, "-i", "json", *brokers, stdin=line)
    assert (refused.code, refused.err.count("\n")) == (1, 1)
    assert "--by-key" in refused.err
    assert millstream("produce", name, "-i", "json", "--by-key", *brokers, stdin=line).code == 0
    assert values(broker, name) == [b"v"]


@pytest.mark.parametrize(
    ("arguments", "numbers"),
    [
        (["--from", f"@{START_MS + 180_000}", "--to", f"@{START_MS + 300_000}"], range(3, 5)),
        (["--from", "@2023-11-14T22:18:20Z", "--to", "@2023-11-14T23:20:20+01:00"], range(5, 7)),
        (["--to", "3"], range(3)),
        (["--from", "-2"], range(8, 10)),
        (["--from", "-1d"], range(0)),
        (["--where", "n >= 7", "--where", "n != 8"], [7, 9]),
        (["--grep", "[13]}"], [1, 3]),
        (["--grep", "[13]}", "-n", "1"], [1]),
    ],
    ids=str,
)
def test_records_are_chosen_by_position_time_and_content(
    millstream: Millstream, brokers: list[str], timed: str, arguments: list[str], numbers: "range | list[int]"
) -> None:
    outcome = millstream("consume", timed, *arguments, *brokers)
    assert outcome.code == 0, outcome.err
    assert outcome.out.splitlines() == [f'{{"n": {number}}}' for number in numbers]


def test_offsets_that_are_not_there_are_said(millstream: Millstream, brokers: list[str], timed: str) -> None:
    outcome = millstream("consume", timed, "--from", "99", *brokers)
    assert (outcome.code, outcome.out) == (0, "")
    assert outcome.err == f"millstream: offset 99 is past the end of {timed}-0, whose next offset is 10\n"
    assert millstream("consume", timed, "--from", "10", *brokers).err == ""


def test_records_are_written_in_any_format(millstream: Millstream, brokers: list[str], timed: str) -> None:
    outcome = millstream("consume", timed, "-n", "2", "-f", r"%t %p %o [%k] %T %v\n", *brokers)
    assert outcome.out == f'{timed} 0 0 [] {START_MS} {{"n": 0}}\n{timed} 0 1 [] {START_MS + 60_000} {{"n": 1}}\n'


def test_how_much_was_searched_is_said(millstream: Millstream, brokers: list[str], timed: str) -> None:
    assert millstream("consume", timed, "--grep", "7", *brokers).err == "1 of 10 records matched\n"


def test_a_new_topic_is_said_and_what_may_have_been_meant(millstream: Millstream, brokers: list[str]) -> None:
    name = fresh_name("page-views")
    assert millstream("produce", name, "v", *brokers).err.startswith(f"created {name}")
    mistyped = name.replace("views", "viws")
    assert millstream("produce", mistyped, "v", *brokers).err.startswith(f"created {mistyped}; did you mean {name}?\n")
    assert millstream("produce", mistyped, "v", *brokers).err.startswith("sent 1 record")


class Running:
    """A `millstream` process."""

    def __init__(self, *arguments: str, stderr: Path) -> None:
        command = [str(Path(sys.executable).with_name("millstream")), *arguments]
        self.stderr = stderr
        with stderr.open("ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=log)

    def end(self, number: int) -> int:
        self.process.send_signal(number)
        return self.process.wait(60)

    @property
    def said(self) -> str:
        return self.stderr.read_text()


@pytest.fixture
def started() -> Iterator[list[Running]]:
    """What a test starts; whatever still runs at its end is killed."""
    running: list[Running] = []
    yield running
    for one in running:
        if one.process.poll() is None:
            one.end(signal.SIGKILL)
        assert one.process.stdin is not None
        one.process.stdin.close()


def test_interruption_says_what_was_sent(broker: Broker, brokers: list[str], tmp_path: Path, started: list[Running]) -> None:
    name = create_topic(broker)
    running = Running("produce", name, *brokers, stderr=tmp_path / "stderr")
    started.append(running)
    assert running.process.stdin is not None
    running.process.stdin.write(b"one\ntwo\n")
    running.process.stdin.flush()
    wait_until(lambda: len(values(broker, name)) == 2, "two records")
    assert running.end(signal.SIGINT) == 130
    assert running.said == f"interrupted: sent 2 records to {name}: partition 0 offsets 0-1\n"


def test_files_are_followed_through_rotation_and_a_kill_and_no_line_is_lost(
    broker: Broker, brokers: list[str], tmp_path: Path, started: list[Running]
) -> None:
    name = create_topic(broker)
    log, other = tmp_path / "app.log", tmp_path / "other.log"
    expected: Counter[bytes] = Counter()

    def write(path: Path, *lines: bytes) -> None:
        expected.update(lines)
        with path.open("ab") as file:
            file.writelines(line + b"\n" for line in lines)

    def follow() -> Running:
        arguments = ["produce", name, "--follow", str(log), str(other), "--state", str(tmp_path / "state.json"), *brokers]
        started.append(Running(*arguments, stderr=tmp_path / "stderr"))
        return started[-1]

    def arrived(line: bytes) -> None:
        wait_until(lambda: line in values(broker, name), f"{line!r} in the topic", deadline_s=60)

    write(log, *(b"log %d" % number for number in range(1_000)))
    write(other, b"other 0")
    running = follow()
    arrived(b"log 999")
    write(log, b"half")
    running.end(signal.SIGKILL)
    log.rename(tmp_path / "app.log.1")
    write(log, b"new 0")
    with (tmp_path / "app.log.1").open("ab") as rotated:
        rotated.write(b"late\n")
    expected.update([b"late"])
    running = follow()
    arrived(b"new 0")
    arrived(b"late")
    other.write_bytes(b"")
    write(other, b"cut")
    arrived(b"cut")
    wait_until(lambda: '"inode"' in (tmp_path / "state.json").read_text(), "a state")
    time_of_stop = time.monotonic()
    assert running.end(signal.SIGTERM) == 0
    assert time.monotonic() - time_of_stop < 30
    sent = Counter(value for value in values(broker, name) if value is not None)
    assert expected.keys() == sent.keys()
    assert all(sent[line] >= count for line, count in expected.items())
    again = follow()
    write(log, b"last")
    arrived(b"last")
    assert again.end(signal.SIGINT) == 0
    assert Counter(value for value in values(broker, name) if value is not None) == sent + Counter([b"last"])
    assert "Traceback" not in again.said
    assert f"sent 1 record to {name}" in again.said


def test_lines_before_one_that_cannot_be_sent_are_sent_once_however_often_it_is_started(
    broker: Broker, millstream: Millstream, brokers: list[str], tmp_path: Path
) -> None:
    name, log = create_topic(broker), tmp_path / "app.log"
    log.write_bytes(b'{"value": "first"}\n{"value": "second"}\nno JSON\n{"value": "third"}\n')
    for _ in range(2):
        outcome = millstream("produce", name, "-i", "json", "--follow", str(log), "--state", str(tmp_path / "state.json"), *brokers)
        assert outcome.code == 2
        assert "'no JSON' is no JSON" in outcome.err
    assert values(broker, name) == [b"first", b"second"]


def test_bytes_that_are_no_text_are_sent_as_they_were_typed(broker: Broker, millstream: Millstream, brokers: list[str]) -> None:
    name, typed = create_topic(broker), os.fsdecode(b"caf\xe9")
    assert millstream("produce", name, typed, "-k", typed, "-H", f"name={typed}", *brokers).code == 0
    outcome = millstream("consume", name, "--output", "json", *brokers)
    assert [outcome.documents[0][part] for part in ("key", "value")] == [{"base64": "Y2Fm6Q=="}] * 2
    assert outcome.documents[0]["headers"] == [["name", {"base64": "Y2Fm6Q=="}]]
    refused = "millstream: 'caf\\udce9' is no UTF-8 text.\n"
    for arguments in (["produce", typed, "v"], ["group", "describe", typed], ["consume", name, "--grep", typed]):
        assert millstream(*arguments, *brokers) == (2, "", refused)


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["--follow"], "needs files"),
        (["--follow", "x", "-a", "1"], "leave out --acks"),
        (["v", "--state", "x"], "belongs to --follow"),
        (["-i", "json", "-k", "k"], "stand in the lines"),
        (["v", "--by-key"], "belongs to --input json"),
        (["v", "--value-schema", "x"], "belongs to --value-format avro"),
        (["v", "--value-format", "avro"], "--registry"),
    ],
    ids=str,
)
def test_flags_that_do_not_go_together_are_refused(
    millstream: Millstream, monkeypatch: pytest.MonkeyPatch, arguments: list[str], hint: str
) -> None:
    monkeypatch.delenv("MILLSTREAM_REGISTRY", raising=False)
    outcome = millstream("produce", "t", *arguments)
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert hint in outcome.err
