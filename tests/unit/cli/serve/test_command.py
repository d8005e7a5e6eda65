"""The flags of `serve`, and the running command as a process: its ready line, its stop, its refusals."""

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from millstream.broker.server_options import ServerOptions
from millstream.cli.serve.command import parse_flags, server_options
from millstream.errors import StartupError, UsageError
from millstream.log.directories.known_directories import FoundDirectories, KnownDirectories, check
from tests.unit.cli.conftest import Millstream


def options_of(*arguments: str) -> ServerOptions:
    return server_options(parse_flags(arguments))


def test_without_flags_it_listens_on_loopback_and_keeps_its_data_here() -> None:
    options = options_of()
    assert (options.listen_host, options.listen_port) == ("127.0.0.1", 9092)
    assert (options.coordination_host, options.coordination_port, options.coordination_port_required) == ("127.0.0.1", 2181, False)
    assert options.data == (Path("millstream-data"),)
    assert options.advertise is None
    assert options.options == {}


def test_flags_say_where_it_listens_and_what_it_advertises_to_clients() -> None:
    options = options_of("--listen", "0.0.0.0:0", "--advertise", "broker1.example:9092", "--coordination", "127.0.0.1:0", "--node-id", "7")
    assert (options.listen_host, options.listen_port) == ("0.0.0.0", 0)
    assert options.advertise == ("broker1.example", 9092)
    assert (options.coordination_port, options.coordination_port_required) == (0, True)
    assert options.node_id == 7


def test_a_real_zookeeper_may_take_the_place_of_the_embedded_coordination() -> None:
    assert options_of().zookeeper is None
    assert options_of("--zookeeper", "zk1:2181,zk2:2181/millstream").zookeeper == "zk1:2181,zk2:2181/millstream"


def test_several_data_directories_can_be_given() -> None:
    assert options_of("--data", "a", "--data", "b").data == (Path("a"), Path("b"))


def test_a_directory_is_given_up_as_the_refused_start_writes_it() -> None:
    identifier = "-GNTEU5eSP6kkbh5_bH6CQ"
    with pytest.raises(StartupError) as refused:
        check(KnownDirectories(1, {identifier: "/two"}), FoundDirectories({"A": Path("/one")}), forgotten=())
    flag = str(refused.value).split()[-1]
    assert options_of("--data", "one", flag).forget_directories == (identifier,)


def test_the_same_data_directory_twice_is_refused() -> None:
    with pytest.raises(UsageError, match="twice"):
        options_of("--data", "a", "--data", "./a")


def test_a_flag_wins_over_x_and_x_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=2\nlog.retention.hours=1\nnode.id=5\nlog.dirs=/x,/y\n")
    options = options_of("--config", str(file), "-X", "num.partitions=3", "--node-id", "6")
    assert options.options == {"num.partitions": "3", "log.retention.hours": "1"}
    assert options.node_id == 6
    assert options.data == (Path("/x"), Path("/y"))


STOCK = """\
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""
"""What the `server.properties` that comes with Kafka 4.2 sets, beside the directory; the port is a free one here."""

CARRIED = """\
broker.id=1
log.flush.interval.messages=9223372036854775807
offsets.topic.num.partitions=1
group.initial.rebalance.delay.ms=0
controller.quorum.voters=1@localhost:9094
auto.create.topics.enable=true
default.replication.factor=1
min.insync.replicas=1
log.cleanup.policy=delete
log.preallocate=true
compression.zstd.level=6
log.local.retention.ms=1000
replica.lag.time.max.ms=10000
replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector
broker.rack=a
confluent.support.metrics.enable=false
confluent.license.topic.replication.factor=1
inter.broker.protocol.version=3.9
log.message.format.version=3.0
zookeeper.connection.timeout.ms=18000
"""
"""What compose files, testcontainers, Strimzi and Confluent's images add to it."""


def test_options_of_kafkas_own_file_say_where_it_listens(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(STOCK + CARRIED)
    options = options_of("--config", str(file))
    assert (options.listen_host, options.listen_port, options.advertise) == ("127.0.0.1", 0, ("localhost", 9092))
    given = options_of("--config", str(file), "--listen", "127.0.0.1:1", "--advertise", "broker1.example:2")
    assert (given.listen_port, given.advertise) == (1, ("broker1.example", 2))


def test_what_kafka_4_passes_over_is_passed_over_with_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert options_of("-X", "confluent.balancer.enable=true", "-X", "inter.broker.protocol.version=3.9").options == {}
    assert "passed over, as Kafka 4 does: confluent.balancer.enable, inter.broker.protocol.version" in capsys.readouterr().err


def test_the_older_name_of_the_node_id_will_do() -> None:
    assert options_of("-X", "broker.id=4").node_id == options_of("-X", "broker.id=4", "-X", "node.id=4").node_id == 4
    with pytest.raises(UsageError, match="two names of one thing"):
        options_of("-X", "broker.id=4", "-X", "node.id=5")


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["--lisen", "127.0.0.1:0"], "did you mean --listen"),
        (["--listen=nowhere"], "HOST:PORT"),
        (["--advertise", "here:0"], "port 0"),
        (["--advertise", "0.0.0.0:9092"], "cannot connect to 0.0.0.0"),
        (["--advertise", ":9092"], "cannot connect to 0.0.0.0"),
        (["-X", "num.partitions"], "NAME=VALUE"),
        (["--node-id", "-1"], "node id"),
        (["--node-id", "one"], "--node-id"),
        (["-X", "node.id=one"], "node id"),
        (["--config", "/nowhere/server.properties"], "/nowhere/server.properties"),
        (["--log-level", "loud"], "--log-level"),
        (["--log-level", "info", "--log-level", "group=debug"], "an area is one of audit, "),
        (["--log-format", "xml"], "--log-format"),
        (["--metrics", "nowhere"], "--metrics needs HOST:PORT"),
        (["--metrics-interval", "nan"], "--metrics-interval takes seconds from 0.1"),
        (["--slow-request-ms", "-1"], "--slow-request-ms takes milliseconds"),
        (["--listen"], "--listen"),
        (["--zookeeper", "nowhere"], "--zookeeper needs HOST:PORT"),
        (["--zookeeper", "zk:2181/"], "one path such as /millstream"),
        (["--zookeeper", "zk:2181//millstream"], "one path such as /millstream"),
        (["--zookeeper", "zk:2181/a/../b"], "one path such as /millstream"),
        (["--zookeeper", "zk1:2181/a,zk2:2181/a/"], "one path such as /millstream"),
        (["--zookeeper", "zk:0"], "a ZooKeeper has a port"),
        (["--zookeeper", "zk1:2181,,zk2:2181"], "--zookeeper needs HOST:PORT"),
        (["--zookeeper-credentials", "file"], "give --zookeeper too"),
        (["--no-registry", "-X", "zookeeper.session.timeout.ms=0"], "zookeeper.session.timeout.ms"),
        (["--no-registry", "-X", "zookeeper.connect=zk:2181"], "use --zookeeper"),
        (["--zookeeper", "zk:2181", "--coordination", "127.0.0.1:0"], "give one of the two"),
        (["--processes", "two"], "--processes"),
        (["--no-registry", "--processes", "-1"], "--processes takes a number from 0 (as many as cores) to 64, and got -1"),
        (["--no-registry", "--processes", "65"], "to 64, and got 65"),
        (["--processes", "2", "--zookeeper", "zk:2181"], "give one of the two"),
        (["--processes", "2", "--node-id", "1"], "leave --node-id, node.id and broker.id out"),
        (["--processes", "2", "-X", "broker.id=1"], "leave --node-id, node.id and broker.id out"),
        (["extra"], "extra"),
    ],
)
def test_a_wrong_flag_is_reported_in_one_line(millstream: Millstream, arguments: list[str], hint: str) -> None:
    outcome = millstream("serve", *arguments)
    assert outcome.code == 2
    assert outcome.out == ""
    assert outcome.err.count("\n") == 1
    assert hint in outcome.err


Starter = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Starter]:
    """Starts `millstream serve` on free ports and a directory of the test's own."""
    processes = []

    def run(*arguments: str) -> subprocess.Popen[str]:
        flags = ["--listen", "127.0.0.1:0", "--coordination", "127.0.0.1:0", *arguments]
        flags += [] if "--data" in arguments else ["--data", str(tmp_path / "data")]
        command = [sys.executable, "-m", "millstream.cli.main", "serve", *flags]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        processes.append(process)
        return process

    yield run
    for process in processes:
        process.kill()
        process.communicate()


def ready_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def test_the_ready_line_says_where_the_data_is_in_one_word(start: Starter, tmp_path: Path) -> None:
    first, second = tmp_path / "one disk", tmp_path / "100%"
    words = ready_line(start("--data", str(first), "--data", str(second))).removeprefix("ready:").split()
    assert dict(zip(words[::2], words[1::2], strict=True))["data"] == f"{tmp_path}/one%20disk,{tmp_path}/100%25"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_says_where_it_is_ready_and_a_signal_stops_it_cleanly(start: Starter, number: signal.Signals) -> None:
    process = start()
    assert re.fullmatch(r"ready: broker 127\.0\.0\.1:\d+ coordination 127\.0\.0\.1:\d+( \S+ \S+)*\n", ready_line(process))
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (0, ""), err
    assert "Traceback" not in err


def test_it_starts_with_what_development_set_ups_carry(start: Starter, tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(STOCK + CARRIED)
    assert ready_line(start("--config", str(file))).startswith("ready:")


def refusal(process: subprocess.Popen[str]) -> str:
    """The last line of a broker that did not start."""
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (1, ""), err
    assert "Traceback" not in err
    return err.splitlines()[-1]


def test_a_taken_port_is_reported(start: Starter) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert address in refusal(start("--listen", address))


def test_a_taken_coordination_port_is_reported_when_it_was_asked_for(start: Starter) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert address in refusal(start("--coordination", address))


def test_a_data_directory_in_use_is_reported(start: Starter, tmp_path: Path) -> None:
    first = start()
    assert ready_line(first)
    assert str(tmp_path / "data") in refusal(start())
    assert first.poll() is None


def test_a_data_directory_that_cannot_be_made_is_reported(start: Starter, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    assert str(tmp_path / "file") in refusal(start("--data", str(tmp_path / "file" / "data")))


def test_an_unknown_option_is_reported_with_the_one_that_was_probably_meant(start: Starter) -> None:
    process = start("-X", "log.retention.hour=1")
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (2, ""), err
    assert "log.retention.hours" in err.splitlines()[-1]
    assert "Traceback" not in err
