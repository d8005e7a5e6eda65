"""A mirror under load while everything around it is killed and cut: in the end the target has each batch once, where the source has it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.brokers import Broker, MillstreamBroker, StartBroker
from tests.cluster.faults.network import CLIENTS, SILENT, Condition, Link, Network
from tests.mirror.mirror_process import MirrorProcess, await_same, batches_of, end_of, mirror_status
from tests.ports import free_port
from tests.topics import EARLIEST, create_topic, list_offset, produce_values, set_option
from tests.waiting import wait_until

pytestmark = pytest.mark.timeout(400)  # Apache Kafka takes its time to start again
PARTITIONS = 2
QUICK = 'topics = "orders"\nrefresh-s = 0.5\ncommit-s = 0.2\n'


@contextmanager
def load(broker: Broker, topic: str) -> Iterator[None]:
    """An idempotent producer that goes on until the end, whatever happens to its broker."""
    is_over = threading.Event()
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True, "linger.ms": 3, "log_level": 0})

    def produce() -> None:
        number = 0
        while not is_over.wait(0.001):
            producer.produce(topic, b"%d" % number, partition=number % PARTITIONS)
            producer.poll(0)
            number += 1

    thread = threading.Thread(target=produce, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        assert producer.flush(60) == 0


def grows(broker: Broker, topic: str) -> None:
    """Wait until something more has come."""
    before = [end_of(broker, topic, partition) for partition in range(PARTITIONS)]
    wait_until(lambda: all(end_of(broker, topic, index) > end + 20 for index, end in enumerate(before)), "more has come")


@pytest.fixture
def network() -> Iterator[Network]:
    made = Network()
    yield made
    made.close()


def offline_behind(network: Network, directory: Path) -> tuple[Broker, str]:
    """A target that is reached through a link, and where."""
    directory.mkdir()
    broker = MillstreamBroker(directory, {})
    broker.port = free_port()
    broker.advertised_port = network.add("offline", broker.port)
    broker.start()
    return broker, f"{broker.host}:{broker.advertised_port}"


def test_nothing_is_missing_and_nothing_twice_whatever_is_killed_or_cut(
    start_broker: StartBroker, network: Network, tmp_path: Path
) -> None:
    live = start_broker()
    offline, address = offline_behind(network, tmp_path / "offline")
    create_topic(live, name="orders", partitions=PARTITIONS)
    (tmp_path / "mirror.toml").write_text(QUICK)
    link = [Link(CLIENTS, "offline")]
    try:
        with MirrorProcess(tmp_path, live.bootstrap_servers, address, "--config", str(tmp_path / "mirror.toml")) as mirror:
            wait_until(lambda: end_of(offline, "orders") == 0, "the topic is there")
            with load(live, "orders"):
                grows(offline, "orders")
                for _ in range(3):
                    mirror.kill()
                    mirror.start()
                    grows(offline, "orders")
                offline.kill()
                offline.start()
                grows(offline, "orders")
                live.kill()
                live.start()
                grows(offline, "orders")
                network.set(link, Condition(is_cut=True))
                grows(live, "orders")
                network.heal()
                grows(offline, "orders")
                network.set(link, SILENT)
                grows(live, "orders")
                network.heal()
                grows(offline, "orders")
            assert await_same(live, offline, "orders", partitions=PARTITIONS) > 100
            assert mirror.stop() == 0
    finally:
        offline.kill()


def test_two_mirrors_at_once_write_everything_once(start_broker: StartBroker, tmp_path: Path) -> None:
    live, offline = start_broker(), MillstreamBroker(tmp_path, {})
    offline.start()
    create_topic(live, name="orders", partitions=PARTITIONS)
    (tmp_path / "mirror.toml").write_text(QUICK)
    (tmp_path / "other").mkdir()
    arguments = (live.bootstrap_servers, offline.bootstrap_servers, "--alone", "--config", str(tmp_path / "mirror.toml"))
    try:
        with MirrorProcess(tmp_path, *arguments), MirrorProcess(tmp_path / "other", *arguments), load(live, "orders"):
            wait_until(lambda: end_of(offline, "orders") >= 0, "the topic is there")
            for _ in range(3):
                grows(offline, "orders")
        with MirrorProcess(tmp_path, *arguments):
            await_same(live, offline, "orders", partitions=PARTITIONS)
    finally:
        offline.kill()


def test_a_source_that_lost_records_stops_the_partition_and_nothing_is_overwritten(start_broker: StartBroker, tmp_path: Path) -> None:
    """Its log is cut behind its back, as an unclean election or an old disk would do it."""
    live, offline = start_broker(), MillstreamBroker(tmp_path, {})
    offline.start()
    create_topic(live, name="orders")
    create_topic(live, name="other")
    (tmp_path / "mirror.toml").write_text(QUICK.replace('"orders"', '"orders|other"'))
    mirror = MirrorProcess(tmp_path, live.bootstrap_servers, offline.bootstrap_servers, "--config", str(tmp_path / "mirror.toml"))
    produce_values(live, "orders", [b"%d" % number for number in range(20)], batch_size=2)
    try:
        with mirror:
            await_same(live, offline, "orders")
            mirror.stop()
            kept = batches_of(offline, "orders")
            live.kill()
            segment = next(live.partition_directory("orders").glob("*.log"))
            segment.write_bytes(segment.read_bytes()[: -2 * len(kept[-1][1])])
            live.start()
            wait_until(lambda: end_of(live, "orders") == 16, "it has recovered")
            mirror.start()
            mirror.wait_for("orders-0 is not mirrored: the target ends at 20 and the source at 16")
            mirror.stop()
            produce_values(live, "orders", [b"another history"] * 6, batch_size=2)
            produce_values(live, "other", [b"goes on"])
            mirror.start()
            mirror.wait_for("orders-0 is not mirrored: the source has lost offsets from 16 on")
            await_same(live, offline, "other")
            wait_until(lambda: any("orders-0" in error for error in mirror_status(offline)["errors"]), "the status has it")
            mirror.stop()
            (tmp_path / "mirror.toml").write_text(QUICK + 'name = "without-commits"\n')
            mirror.start()
            mirror.wait_for("orders-0 is not mirrored: from offset 18 on the target has other records than the source")
            mirror.stop()
            set_option(live, "orders", "cleanup.policy", "compact")
            mirror.start()
            mirror.wait_for("orders-0 is not mirrored: from offset 16 on the target has other records than the source")
            assert batches_of(offline, "orders") == kept
    finally:
        offline.kill()


def test_a_source_that_lost_records_is_noticed_when_the_target_has_none_any_more(start_broker: StartBroker, tmp_path: Path) -> None:
    live, offline = start_broker(), MillstreamBroker(tmp_path, {"log.retention.check.interval.ms": 300, "log.initial.task.delay.ms": 100})
    offline.start()
    create_topic(live, name="orders")
    (tmp_path / "mirror.toml").write_text(QUICK)
    mirror = MirrorProcess(tmp_path, live.bootstrap_servers, offline.bootstrap_servers, "--config", str(tmp_path / "mirror.toml"))
    produce_values(live, "orders", [b"%d" % number for number in range(20)], batch_size=2)
    try:
        with mirror:
            await_same(live, offline, "orders")
            mirror.stop()
            size = len(batches_of(offline, "orders")[-1][1])
            set_option(offline, "orders", "retention.ms", "1")
            with offline.connect() as connection:
                wait_until(lambda: list_offset(connection, "orders", EARLIEST).offset == 20, "the target is empty")
            live.kill()
            segment = next(live.partition_directory("orders").glob("*.log"))
            segment.write_bytes(segment.read_bytes()[: -2 * size])
            live.start()
            wait_until(lambda: end_of(live, "orders") == 16, "it has recovered")
            produce_values(live, "orders", [b"another history"] * 6, batch_size=2)
            mirror.start()
            mirror.wait_for("orders-0 is not mirrored: the source has lost offsets from 16 on")
            assert end_of(offline, "orders") == 20
    finally:
        offline.kill()


def test_what_retention_took_before_it_was_copied_is_left_out_and_said(start_broker: StartBroker, tmp_path: Path) -> None:
    live, offline = start_broker(log_retention_check_interval_ms=500, log_initial_task_delay_ms=100), MillstreamBroker(tmp_path, {})
    offline.start()
    configs = {"segment.bytes": 1 << 20, "retention.bytes": 1 << 20, "file.delete.delay.ms": 100}
    create_topic(live, name="orders", configs=configs)
    (tmp_path / "mirror.toml").write_text(QUICK)
    mirror = MirrorProcess(tmp_path, live.bootstrap_servers, offline.bootstrap_servers, "--config", str(tmp_path / "mirror.toml"))
    produce_values(live, "orders", [b"first"])
    try:
        with mirror:
            await_same(live, offline, "orders")
            mirror.kill()
            produce_values(live, "orders", [bytes(100_000)] * 40, batch_size=5)
            with live.connect() as connection:
                wait_until(lambda: list_offset(connection, "orders", EARLIEST).offset > 1, "retention has deleted something")
            mirror.start()
            mirror.wait_for("the source has deleted the offsets 1 to ")
            wait_until(lambda: end_of(offline, "orders") == 41, "the rest is there")
    finally:
        offline.kill()
