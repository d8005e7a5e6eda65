"""Java's consumer with both protocols and Kafka's own group command, where their jars are."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.brokers import Broker
from tests.clients.consumer_protocol import describe_consumer_group
from tests.clients.group_requests import commit_alone, committed_offset, describe
from tests.clients.numbered import Numbered
from tests.java import java_command, run_tool
from tests.topics import create_topic, fresh_name
from tests.waiting import wait_until

TOOLS = "org.apache.kafka.tools"
COMMAND = f"{TOOLS}.consumer.group.ConsumerGroupCommand"


class JavaConsumer:
    """A running VerifiableConsumer: it says in JSON what it is assigned, what it got and what it committed."""

    def __init__(self, process: "subprocess.Popen[bytes]", output: Path) -> None:
        self.process = process
        self.output = output

    @property
    def events(self) -> list[dict[str, Any]]:
        """Everything it has said."""
        lines = self.output.read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}\n")]

    @property
    def committed(self) -> int:
        """The sum of the offsets that it committed last in each partition."""
        offsets: dict[int, int] = {}
        for event in self.events:
            if event["name"] == "offsets_committed" and event["success"]:
                offsets |= {one["partition"]: one["offset"] for one in event["offsets"]}
        return sum(offsets.values())


@contextmanager
def java_consumer(broker: Broker, directory: Path, *, topic: str, group: str, protocol: str) -> Iterator[JavaConsumer]:
    """A consumer that runs while the block does."""
    output = directory / f"{fresh_name('consumer')}.txt"
    arguments = ["--bootstrap-server", broker.bootstrap_servers, "--topic", topic, "--group-id", group, "--group-protocol", protocol]
    arguments += ["--reset-policy", "earliest"]
    if protocol == "classic":
        arguments += ["--session-timeout", "6000"]
    with output.open("wb") as stream:
        process = subprocess.Popen(java_command(f"{TOOLS}.VerifiableConsumer", *arguments), stdout=stream, stderr=subprocess.DEVNULL)
    try:
        yield JavaConsumer(process, output)
        process.terminate()
        process.wait(timeout=30)
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_java_consumers_divide_a_topic_and_commit_all_of_it(group_broker: Broker, tmp_path: Path, protocol: str) -> None:
    messages = Numbered(group_broker, create_topic(group_broker, partitions=4), partitions=4)
    group = fresh_name("group")
    settings: dict[str, Any] = {"topic": messages.topic, "group": group, "protocol": protocol}
    with java_consumer(group_broker, tmp_path, **settings) as one, java_consumer(group_broker, tmp_path, **settings) as other:
        messages.write(50)
        wait_until(lambda: _committed(group_broker, group, messages) == 200, "everything is committed", deadline_s=120)
        wait_until(lambda: min(len(_assigned(one)), len(_assigned(other))) == 2, "an even division", deadline_s=120)
        messages.write(50)
        wait_until(lambda: _committed(group_broker, group, messages) == 400, "everything is committed", deadline_s=120)
        assert _assigned(one) | _assigned(other) == {0, 1, 2, 3}
        described = run_tool(COMMAND, "--bootstrap-server", group_broker.bootstrap_servers, "--describe", "--group", group)
        rows = [line.split() for line in described.splitlines() if messages.topic in line]
        assert sorted((row[2], row[3], row[4], row[5]) for row in rows) == [(str(n), "100", "100", "0") for n in range(4)]
    assert {event["name"] for event in one.events} >= {"startup_complete", "partitions_assigned", "records_consumed", "shutdown_complete"}
    assert _committed(group_broker, group, messages) == 400


def test_java_consumers_move_from_one_protocol_to_the_other_and_back(group_broker: Broker, tmp_path: Path) -> None:
    messages = Numbered(group_broker, create_topic(group_broker, partitions=2), partitions=2)
    group = fresh_name("group")
    settings: dict[str, Any] = {"topic": messages.topic, "group": group}

    def write_and_wait() -> None:
        messages.write(20)
        wait_until(lambda: _committed(group_broker, group, messages) == messages.total, "everything is committed", deadline_s=120)

    with java_consumer(group_broker, tmp_path, **settings, protocol="classic") as old:
        write_and_wait()
        with java_consumer(group_broker, tmp_path, **settings, protocol="consumer") as new:
            wait_until(lambda: len(_assigned(old)) == len(_assigned(new)) == 1, "an even division", deadline_s=120)
            write_and_wait()
            with group_broker.connect() as connection:
                assert {member.member_type for member in describe_consumer_group(connection, group).members} == {0, 1}
        write_and_wait()
        assert _assigned(old) == {0, 1}
        with group_broker.connect() as connection:
            assert describe(connection, group).group_state == "Stable", "a classic group again"


def _assigned(consumer: JavaConsumer) -> set[int]:
    owned: set[int] = set()
    for event in consumer.events:
        if event["name"] == "partitions_assigned":
            owned |= {one["partition"] for one in event["partitions"]}
        elif event["name"] == "partitions_revoked":
            owned -= {one["partition"] for one in event["partitions"]}
    return owned


def _committed(broker: Broker, group: str, messages: Numbered) -> int:
    with broker.connect() as connection:
        found = [committed_offset(connection, group, messages.topic, partition=partition) for partition in messages.counts]
    return sum(offset for offset in found if offset > 0)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_console_consumer_reads_in_a_group_and_goes_on_the_next_time(group_broker: Broker, topic_of_ten: str, protocol: str) -> None:
    group = fresh_name("group")
    arguments = ["--bootstrap-server", group_broker.bootstrap_servers, "--topic", topic_of_ten, "--group", group, "--from-beginning"]
    arguments += ["--command-property", f"group.protocol={protocol}", "--max-messages"]
    first = run_tool(f"{TOOLS}.consumer.ConsoleConsumer", *arguments, "4").split()
    second = run_tool(f"{TOOLS}.consumer.ConsoleConsumer", *arguments, "6").split()
    assert first == [f"0:{number}" for number in range(4)]
    assert second == [f"0:{number}" for number in range(4, 10)]


@pytest.fixture
def topic_of_ten(group_broker: Broker) -> str:
    messages = Numbered(group_broker, create_topic(group_broker), partitions=1)
    messages.write(10)
    return messages.topic


def test_group_command_lists_resets_and_deletes(group_broker: Broker, topic_of_ten: str) -> None:
    group = fresh_name("group")
    with group_broker.connect() as connection:
        commit_alone(connection, group, topic_of_ten, 3)
        server = ["--bootstrap-server", group_broker.bootstrap_servers]
        assert group in run_tool(COMMAND, *server, "--list").split()
        assert "Empty" in run_tool(COMMAND, *server, "--describe", "--state", "--group", group)
        resetting = ["--reset-offsets", "--group", group, "--topic", topic_of_ten, "--to-latest", "--execute"]
        assert "10" in run_tool(COMMAND, *server, *resetting)
        assert committed_offset(connection, group, topic_of_ten) == 10
        assert "Successful" in run_tool(COMMAND, *server, "--delete-offsets", "--group", group, "--topic", topic_of_ten)
        assert committed_offset(connection, group, topic_of_ten) == -1
        commit_alone(connection, group, topic_of_ten, 3)
        run_tool(COMMAND, *server, "--delete", "--group", group)
        assert group not in run_tool(COMMAND, *server, "--list").split()
