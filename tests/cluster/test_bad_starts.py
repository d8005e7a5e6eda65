"""Starts of a cluster's broker that cannot go well: one sentence, and nothing that was there is touched."""

import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.brokers import IS_KAFKA
from tests.cluster.server_process import ServerProcess
from tests.ports import free_port
from tests.topics import create_topic, produce_values, read_all
from tests.zookeeper_broker import ZooKeeperBroker, tree_of

pytestmark = pytest.mark.skipif(IS_KAFKA, reason="Apache Kafka 4 knows no ZooKeeper")


@pytest.fixture
def broker(zookeeper: ServerProcess, tmp_path: Path) -> Iterator[ZooKeeperBroker]:
    started = ZooKeeperBroker(tmp_path / "broker", zookeeper.address)
    started.start()
    yield started
    started.kill()


def serve(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """A start that ends by itself."""
    command = [str(Path(sys.executable).with_name("millstream")), "serve", "--no-registry", "--listen", "127.0.0.1:0", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def refusal(*arguments: str) -> str:
    """What is said by a start that is refused."""
    done = serve(*arguments)
    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


def test_a_zookeeper_that_is_not_there_is_waited_for_aloud_and_then_given_up(tmp_path: Path) -> None:
    nowhere = f"127.0.0.1:{free_port()}/millstream"
    said = refusal("--zookeeper", nowhere, "--data", str(tmp_path / "data"), "-X", "zookeeper.connection.timeout.ms=3500")
    assert f"no ZooKeeper answers at {nowhere} yet; waiting for it, for 3.5 s" in said
    assert said.splitlines()[-1].startswith(f"millstream: no ZooKeeper answers at {nowhere} within 3.5 s")


def test_a_port_that_is_no_zookeepers_is_no_zookeeper(broker: ZooKeeperBroker, tmp_path: Path) -> None:
    said = refusal("--zookeeper", broker.bootstrap_servers, "--data", str(tmp_path / "data"), "-X", "zookeeper.connection.timeout.ms=2000")
    assert "no ZooKeeper answers" in said
    assert broker.is_running


def test_the_directory_of_another_cluster_is_refused_and_left_alone(broker: ZooKeeperBroker, zookeeper: ServerProcess) -> None:
    topic = create_topic(broker)
    produce_values(broker, topic, [b"kept"])
    broker.stop()
    said = refusal("--zookeeper", f"{zookeeper.address}/{uuid.uuid4().hex}", "--data", str(broker.data), "--node-id", "1")
    assert "belongs to cluster" in said
    assert "is the path after the addresses right?" in said
    assert broker.partition_directory(topic).exists()
    broker.start()
    assert [record.value for record in read_all(broker, topic)] == [b"kept"]


def test_two_paths_in_one_zookeeper_are_two_clusters(broker: ZooKeeperBroker, zookeeper: ServerProcess, tmp_path: Path) -> None:
    other = ZooKeeperBroker(tmp_path / "other", zookeeper.address)
    other.start()
    try:
        topic = create_topic(broker)
        with tree_of(broker.coordination) as tree, tree_of(other.coordination) as other_tree:
            assert tree.get_children("/brokers/ids") == other_tree.get_children("/brokers/ids") == ["1"]
            assert topic not in other_tree.get_children("/brokers/topics")
            assert tree.get("/cluster_id")[0] != other_tree.get("/cluster_id")[0]
    finally:
        other.kill()


def test_credentials_that_are_others_are_refused(zookeeper: ServerProcess, tmp_path: Path) -> None:
    address = f"{zookeeper.address}/{uuid.uuid4().hex}"
    for name, text in (("right", "broker:s3cret"), ("wrong", "broker:other-s3cret"), ("no-colon", "s3cret"), ("open", "broker:s3cret")):
        (tmp_path / name).write_text(f"{text}\n")
        (tmp_path / name).chmod(0o644 if name == "open" else 0o600)
    first = ZooKeeperBroker(tmp_path / "first", zookeeper.address, credentials=tmp_path / "right")
    first.coordination = address
    first.start()
    try:
        create_topic(first)
        assert "s3cret" not in first.output
        assert "s3cret" not in Path(f"/proc/{first.pid}/cmdline").read_text()
        second = ["--zookeeper", address, "--node-id", "2", "--data", str(tmp_path / "second")]
        assert "ZooKeeper does not allow it" in refusal(*second)
        assert "ZooKeeper does not allow it" in refusal(*second, "--zookeeper-credentials", str(tmp_path / "wrong"))
        said = refusal(*second, "--zookeeper-credentials", str(tmp_path / "no-colon"))
        assert "must have one line, user:password" in said
        assert "s3cret" not in said
        assert "cannot be read: No such file" in refusal(*second, "--zookeeper-credentials", str(tmp_path / "missing"))
    finally:
        first.kill()
