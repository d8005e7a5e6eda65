"""A `server.properties` that was written for Kafka, given to `--config`: what development set-ups carry is taken, the rest is listed.

The files have the keys and values of those that Kafka's releases carry in `config/`: 3.x with ZooKeeper, 3.x and 4.x without.
"""

from pathlib import Path

import pytest

from tests.brokers import MillstreamBroker
from tests.unit.cli.conftest import Millstream

COMMON = """
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs={data}
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.retention.check.interval.ms=300000
"""
ZOOKEEPER = f"""
broker.id=0
{COMMON}
zookeeper.connect=localhost:2181
zookeeper.connection.timeout.ms=18000
group.initial.rebalance.delay.ms=0
"""
KRAFT = f"""
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
{COMMON}
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
log.segment.bytes=1073741824
"""
STOCK = {
    "3.x with ZooKeeper": ZOOKEEPER,
    "3.x": KRAFT + "controller.quorum.voters=1@localhost:9093\n",
    "4.x": KRAFT + "controller.quorum.bootstrap.servers=localhost:9093\n",
}
SECURED = """
process.roles=broker
advertised.listeners=PLAINTEXT_HOST://localhost:9092,SSL://localhost:9093
listener.security.protocol.map=PLAINTEXT_HOST:PLAINTEXT,SSL:SSL
ssl.keystore.location=/etc/kafka/secrets/kafka.keystore.jks
ssl.keystore.password=secret
zookeeper.connect=zk1:2181,zk2:2181
num.partitions=3
"""


class Configured(MillstreamBroker):
    """`millstream serve --config`, on the data directory that the file names."""

    @property
    def data_directories(self) -> list[Path]:
        return []

    def command(self) -> list[str]:
        command = super().command()
        del command[command.index("--node-id") : command.index("--node-id") + 2]
        return [*command, "--config", str(self.directory / "server.properties")]


@pytest.mark.parametrize("name", STOCK)
def test_the_files_of_kafkas_releases_are_taken(name: str, tmp_path: Path) -> None:
    broker = Configured(tmp_path, {})
    (tmp_path / "server.properties").write_text(STOCK[name].format(data=broker.data))
    broker.start()
    try:
        assert broker.data.is_dir()
        passed_over = [line for line in broker.output.splitlines() if "passed over" in line]
        said = (
            "millstream: passed over: zookeeper.connect=localhost:2181, because this broker keeps its coordination in itself "
            "(--zookeeper HOST:PORT/PATH joins a cluster in a ZooKeeper)"
        )
        assert passed_over == ([said] if "ZooKeeper" in name else [])
    finally:
        assert broker.stop() == 0


def test_what_cannot_be_obeyed_is_listed_one_per_line(millstream: Millstream, tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(SECURED)
    outcome = millstream("serve", "--config", str(file))
    first, *lines = outcome.err.splitlines()
    assert (outcome.code, first) == (2, f"millstream: 5 of the options in {file} cannot be obeyed:")
    names = ["advertised.listeners", "process.roles", "ssl.keystore.location", "ssl.keystore.password", "zookeeper.connect"]
    assert all(line.startswith("  ") and name in line for line, name in zip(lines, names, strict=True)), lines
    assert "secret" not in outcome.err


def test_one_mistake_of_a_file_names_the_file(millstream: Millstream, tmp_path: Path) -> None:
    file = tmp_path / "hostname"
    file.write_text("vm\n")
    assert millstream("serve", "--config", str(file)).err == f"millstream: {file}: unknown broker option 'vm'\n"
    both = millstream("serve", "--config", str(file), "-X", "num.partitions=3")
    assert both.err == "millstream: unknown broker option 'vm'\n"
