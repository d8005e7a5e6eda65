"""Several processes of one mirror, commands to them, and what they copy beside records; all real processes."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from kazoo.client import KazooClient

from tests.batches import encode_batch
from tests.brokers import Broker, MillstreamBroker
from tests.mirror.mirror_process import MILLSTREAM, MirrorProcess, await_same, end_of, mirror_command, mirror_status, reported
from tests.topics import create_topic, fresh_name, produce, produce_values
from tests.waiting import wait_until

PARTITIONS = 6


@pytest.fixture(scope="module")
def offline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MillstreamBroker]:
    own = MillstreamBroker(tmp_path_factory.mktemp("offline"), {})
    own.start()
    yield own
    own.kill()


def settings(tmp_path: Path, pattern: str) -> tuple[str, ...]:
    file = tmp_path / "mirror.toml"
    file.write_text(f'name = "{fresh_name("shared")}"\ntopics = "{pattern}"\nrefresh-s = 0.5\ncommit-s = 0.5\n')
    return "--config", str(file)


def name_of(arguments: tuple[str, ...]) -> str:
    return Path(arguments[1]).read_text().split('"')[1]


def produce_everywhere(broker: Broker, topic: str, text: bytes) -> None:
    for partition in range(PARTITIONS):
        produce_values(broker, topic, [b"%s-%d" % (text, number) for number in range(200)], partition=partition, batch_size=20)


@pytest.mark.parametrize("group", ["of Kafka", "of the paper"])
def test_two_processes_share_the_partitions_and_one_takes_over_when_the_other_is_killed(
    broker: Broker, offline: MillstreamBroker, tmp_path: Path, group: str
) -> None:
    topic = create_topic(broker, name=fresh_name("s"), partitions=PARTITIONS)
    arguments = settings(tmp_path, topic)
    if group == "of the paper":
        arguments += zookeepers(broker, offline)
    servers = broker.bootstrap_servers, offline.bootstrap_servers
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    with (
        MirrorProcess(tmp_path / "first", *servers, *arguments) as first,
        MirrorProcess(tmp_path / "second", *servers, *arguments) as second,
    ):
        half = f"this process copies {PARTITIONS // 2} partition(s) now"
        for process in (first, second):
            process.wait_for(half)
        produce_everywhere(broker, topic, b"before")
        await_same(broker, offline, topic, partitions=PARTITIONS)
        produce_everywhere(broker, topic, b"while")
        first.kill()
        produce_everywhere(broker, topic, b"after")
        second.wait_for(f"this process copies {PARTITIONS} partition(s) now")
        await_same(broker, offline, topic, partitions=PARTITIONS)
        assert second.stop() == 0


def zookeepers(broker: Broker, offline: MillstreamBroker) -> tuple[str, ...]:
    if not isinstance(broker, MillstreamBroker):
        pytest.skip("Apache Kafka 4 has no ZooKeeper")
    return "--from-zookeeper", broker.coordination, "--to-zookeeper", offline.coordination


def test_offsets_of_the_papers_groups_go_from_znode_to_znode(broker: Broker, offline: MillstreamBroker, tmp_path: Path) -> None:
    topic = create_topic(broker, name=fresh_name("z"))
    produce_values(broker, topic, [b"%d" % number for number in range(100)])
    trees = zookeepers(broker, offline)
    path = f"/consumers/{fresh_name('search')}/offsets/{topic}/0"
    servers = broker.bootstrap_servers, offline.bootstrap_servers
    with znodes(trees[1]) as source, znodes(trees[3]) as target:
        source.create(path, b"40", makepath=True)
        with MirrorProcess(tmp_path, *servers, *settings(tmp_path, topic), *trees, "--alone"):
            wait_until(lambda: target.exists(path) and target.get(path)[0] == b"40", "the offset at the target")


@contextmanager
def znodes(place: str) -> Iterator[KazooClient]:
    client = KazooClient(hosts=place)
    client.start()
    try:
        yield client
    finally:
        client.stop()
        client.close()


def test_a_mirror_pauses_goes_on_and_lets_go_of_a_promoted_topic(broker: Broker, offline: Broker, tmp_path: Path) -> None:
    topic = create_topic(broker, name=fresh_name("p"))
    arguments = settings(tmp_path, topic)
    name = name_of(arguments)
    mirror = MirrorProcess(tmp_path, broker.bootstrap_servers, offline.bootstrap_servers, *arguments, "--alone")
    with mirror:
        produce_values(broker, topic, [b"copied"])
        await_same(broker, offline, topic)
        assert f"paused: {topic} of the mirror {name}" in mirror_command(offline, "pause", "--name", name, "--topics", topic)
        wait_until(lambda: state_of(offline, name) == "paused", "the mirror pauses")
        produce_values(broker, topic, [b"later"])
        wait_until(lambda: lag_of(offline, name) == 1, "the lag is reported although nothing is fetched")
        mirror.kill()
        [partition] = mirror_status(offline, "--name", name, "--from", broker.bootstrap_servers)["partitions"]
        assert (partition["source_end"], partition["target_end"], partition["lag_messages"]) == (2, 1, 1), (
            "although no process reports it any more"
        )
        assert partition["lag_seconds"] < 60 < partition["lag_bytes"]
        mirror.start()  # a pause outlives the process
        wait_until(lambda: state_of(offline, name) == "paused" and "copied from offset 1 on" in mirror.output, "it still does")
        assert end_of(offline, topic) == 1
        assert topic in mirror_command(offline, "resume", "--name", name)
        await_same(broker, offline, topic)
        promoted = json.loads(mirror_command(offline, "promote", "--topics", topic, "--json"))
        assert (promoted["topic"], promoted["partition"], promoted["log_end_offset"]) == (topic, 0, 2)
        with offline.connect() as connection:
            assert produce(connection, topic, encode_batch([b"own"])).base_offset == 2
        produce_values(broker, topic, [b"not copied"])
        mirror.wait_for("it was made there, or promoted")
        assert end_of(offline, topic) == 3


def state_of(offline: Broker, name: str) -> str | None:
    found = reported(offline, name)
    return found.partitions[-1].state if found is not None and found.partitions else None


def lag_of(offline: Broker, name: str) -> int | None:
    found = reported(offline, name)
    return found.partitions[-1].lag_messages if found is not None and found.partitions else None


def test_a_topic_that_is_no_mirror_is_not_promoted(offline: Broker) -> None:
    own = create_topic(offline, name=fresh_name("own"))
    done = subprocess.run(
        [MILLSTREAM, "mirror", "promote", "--topics", own, "--to", offline.bootstrap_servers],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 1
    assert f"no mirrored topic at {offline.bootstrap_servers} matches '{own}'" in done.stderr


def committed(broker: Broker, group: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
    try:
        [found] = consumer.committed([TopicPartition(topic, 0)], timeout=30)
        return int(found.offset)
    finally:
        consumer.close()


def commit(broker: Broker, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def test_offsets_of_groups_follow_forward_and_a_group_in_use_is_left_alone(broker: Broker, offline: Broker, tmp_path: Path) -> None:
    topic = create_topic(broker, name=fresh_name("g"))
    produce_values(broker, topic, [b"%d" % number for number in range(100)])
    idle, busy = fresh_name("idle"), fresh_name("busy")
    commit(broker, idle, topic, 40)
    commit(broker, busy, topic, 40)
    with MirrorProcess(tmp_path, broker.bootstrap_servers, offline.bootstrap_servers, *settings(tmp_path, topic), "--alone"):
        await_same(broker, offline, topic)
        wait_until(lambda: committed(offline, idle, topic) == committed(offline, busy, topic) == 40, "the offsets are copied")
        member = Consumer({"bootstrap.servers": offline.bootstrap_servers, "group.id": busy, "enable.auto.commit": False})
        member.subscribe([topic])
        wait_until(lambda: member.poll(0.1) is not None, "a member at the target")
        commit(broker, idle, topic, 20)
        commit(broker, busy, topic, 90)
        commit(broker, idle, topic, 70)
        wait_until(lambda: committed(offline, idle, topic) == 70, "the offset goes forward")
        assert committed(offline, busy, topic) == 40
        member.close()
