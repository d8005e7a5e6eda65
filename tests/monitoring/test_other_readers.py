"""Others that compute lags see the same ones: Kafka's own tool, and the exporters that people run beside Kafka.

The exporters are programs in Go, which `scripts/setup` builds where Go is and its proxy has them. Where it has not (403 Forbidden,
2026-11-17; Burrow the day before) their tests are skipped. Both were built by hand from their repositories on that day (kafka_exporter
15 commits after 1.9.0, KMinion 2.3.5), and these tests passed with them. Burrow of Debian 13 (1.2.1) and
prometheus-kafka-consumer-group-exporter of PyPI (0.5.5) ask with version 0 of ListOffsets, which Kafka 4 does not answer either (KIP-896).
"""

import os
import re
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.go_programs import go_program
from tests.group_offsets import commit, find
from tests.java import run_tool
from tests.monitoring.published import PublishingBroker
from tests.ports import free_port
from tests.topics import create_topic, fresh_name, produce_values
from tests.waiting import wait_until

COMMAND = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


class Exporter(NamedTuple):
    """How one is started, and what it calls the lag of partition 0."""

    program: str
    flags: tuple[str, ...]
    settings: dict[str, str]
    lag: str


EXPORTERS = [
    Exporter(
        "kafka_exporter",
        ("--kafka.server={broker}", "--web.listen-address=127.0.0.1:{port}"),
        {},
        r'kafka_consumergroup_lag\{{consumergroup="{group}",partition="0",topic="{topic}"\}} (\S+)',
    ),
    Exporter(
        "kminion",
        (),
        {"KAFKA_BROKERS": "{broker}", "EXPORTER_HOST": "127.0.0.1", "EXPORTER_PORT": "{port}"},
        r'kminion_kafka_consumer_group_topic_partition_lag\{{group_id="{group}",partition_id="0",topic_name="{topic}"\}} (\S+)',
    ),
]


@pytest.fixture(scope="module")
def lagging(broker: PublishingBroker) -> tuple[str, str]:
    """A group and a topic in which it is six messages behind."""
    topic, group = create_topic(broker), fresh_name("group")
    produce_values(broker, topic, [b"x"] * 10)
    with broker.connect() as connection:
        wait_until(lambda: find(connection, group)[0].error_code == 0, "the coordinator")
        assert commit(connection, group, topic, 4) == 0
    name = f'kafka_consumergroup_lag{{consumergroup="{group}",topic="{topic}",partition="0"}}'
    wait_until(lambda: broker.series().get(name) == 6, "our lag")
    return group, topic


def test_kafkas_tool_sees_the_same_lag(broker: PublishingBroker, lagging: tuple[str, str]) -> None:
    group, topic = lagging
    printed = run_tool(COMMAND, "--bootstrap-server", broker.bootstrap_servers, "--describe", "--group", group)
    [row] = [line.split() for line in printed.splitlines() if topic in line]
    assert row[:6] == [group, topic, "0", "4", "10", "6"]


@pytest.mark.parametrize("exporter", EXPORTERS, ids=lambda exporter: exporter.program)
def test_exporter_sees_the_same_lag(exporter: Exporter, broker: PublishingBroker, lagging: tuple[str, str], tmp_path: Path) -> None:
    group, topic = lagging
    pattern = re.compile(exporter.lag.format(group=re.escape(group), topic=re.escape(topic)))
    with running(exporter, broker.bootstrap_servers, tmp_path / "log.txt") as url:
        wait_until(lambda: [float(value) for value in pattern.findall(read(url))] == [6], "the lag", deadline_s=60)


@contextmanager
def running(exporter: Exporter, broker: str, log: Path) -> Iterator[str]:
    found = go_program(exporter.program)
    port = free_port()
    flags = [flag.format(broker=broker, port=port) for flag in exporter.flags]
    settings = {name: value.format(broker=broker, port=port) for name, value in exporter.settings.items()}
    with log.open("wb") as output:
        process = subprocess.Popen([found, *flags], env=os.environ | settings, stdout=output, stderr=output)
    try:
        yield f"http://127.0.0.1:{port}/metrics"
    finally:
        process.terminate()
        process.wait(timeout=60)


def read(url: str) -> str:
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return str(answer.read().decode())
    except OSError:
        return ""
