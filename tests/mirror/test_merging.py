"""Merging mirrors: from Millstream into an Apache Kafka, where its jars are, with real brokers."""

import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from millstream.errors import CommandFailed, UsageError
from millstream.mirror.merging.merge_settings import MergeSettings
from millstream.mirror.merging.merged_partition import MergedPartitions
from millstream.mirror.merging.merging import Merging
from millstream.mirror.merging.provenance import HEADER, Provenance
from tests.brokers import IS_KAFKA, Broker, KafkaBroker
from tests.connection import CREATE_PARTITIONS
from tests.mirror.mirror_process import MirrorProcess, mirror_command, mirror_status, reported
from tests.spark.admin import delete_records
from tests.topics import create_topic, fresh_name, produce_values
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    broker = KafkaBroker(tmp_path_factory.mktemp("kafka"), {})
    broker.start()
    yield broker
    broker.stop()


def settings_for(source: Broker, target: Broker, pattern: str, **more: Any) -> MergeSettings:
    base: dict[str, Any] = {"prefix": "live.", "refresh_s": 0.5, "commit_s": 0.3}
    group = fresh_name("millstream-mirror")
    return MergeSettings(source.bootstrap_servers, target.bootstrap_servers, re.compile(pattern), group, **(base | more))


@contextmanager
def merging(settings: MergeSettings, partitions: MergedPartitions | None = None) -> Iterator[Merging]:
    work = Merging(settings, partitions)
    thread = Thread(target=work.run)
    thread.start()
    try:
        yield work
    finally:
        work.stop()
        thread.join(60)
        assert not thread.is_alive()


class Reader:
    """Reads a topic from the beginning, committed records only."""

    def __init__(self, broker: Broker, topic: str, partitions: int) -> None:
        options = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "reader", "isolation.level": "read_committed"}
        options["topic.metadata.refresh.interval.ms"] = "500"
        self._consumer = Consumer({**options, "auto.offset.reset": "earliest", "enable.auto.commit": False, "log_level": 0})
        self._consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
        self.messages: list[Any] = []

    def values(self) -> list[bytes]:
        found = self._consumer.consume(10_000, 0.5)
        self.messages += [message for message in found if message.error() is None]
        return [message.value() for message in self.messages]

    def close(self) -> None:
        self._consumer.close()


@contextmanager
def reading(broker: Broker, topic: str, partitions: int = 1) -> Iterator[Reader]:
    reader = Reader(broker, topic, partitions)
    try:
        yield reader
    finally:
        reader.close()


def test_records_keep_key_time_and_headers_and_say_where_they_come_from(broker: Broker, kafka: Broker) -> None:
    topic = create_topic(broker, partitions=2)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce(topic, b"value", b"key", 1, timestamp=1_700_000_000_123, headers=[("own", b"1")])
    producer.produce(topic, None, b"deleted", 1)
    assert producer.flush(30) == 0
    with merging(settings_for(broker, kafka, re.escape(topic))), reading(kafka, f"live.{topic}", 2) as reader:
        wait_until(lambda: len(reader.values()) == 2, "both records")
        first, second = reader.messages
    assert (first.key(), first.value(), first.partition(), first.timestamp()[1]) == (b"key", b"value", 1, 1_700_000_000_123)
    assert first.headers()[0] == ("own", b"1")
    origin = Provenance.parse(dict(first.headers())[HEADER])
    assert origin is not None
    assert origin[1:] == (topic, 1, 0)
    assert (second.key(), second.value()) == (b"deleted", None)


def test_a_record_that_is_larger_than_librdkafka_sends_by_default_is_merged(broker: Broker, kafka: Broker) -> None:
    topic = create_topic(broker)
    large = bytes(1_020_000)
    produce_values(broker, topic, [large, b"next"], batch_size=1)
    with merging(settings_for(broker, kafka, re.escape(topic))), reading(kafka, f"live.{topic}") as reader:
        wait_until(lambda: reader.values() == [large, b"next"], "both records")


def test_a_merge_goes_on_where_it_was_and_follows_new_partitions(broker: Broker, kafka: Broker) -> None:
    topic = create_topic(broker)
    settings = settings_for(broker, kafka, re.escape(topic))
    produce_values(broker, topic, [b"a", b"b"])
    with reading(kafka, f"live.{topic}") as reader:
        with merging(settings):
            wait_until(lambda: reader.values() == [b"a", b"b"], "the first records")
        produce_values(broker, topic, [b"c"])
        with merging(settings), reading(kafka, f"live.{topic}", 2) as wider:
            wait_until(lambda: reader.values() == [b"a", b"b", b"c"], "the record in between")
            with broker.connect() as connection:
                connection.ask(CREATE_PARTITIONS, 3, {"topics": [{"name": topic, "count": 2}], "timeout_ms": 30_000})
            produce_values(broker, topic, [b"d"], partition=1)
            wait_until(lambda: sorted(wider.values()) == [b"a", b"b", b"c", b"d"], "the record of the new partition")


def commit_at(broker: Broker, settings: MergeSettings, topic: str, offset: int) -> None:
    """Set where a merge of the topic goes on."""
    group = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": settings.group})
    group.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    group.close()


def test_offsets_that_are_gone_at_the_source_are_reported(broker: Broker, kafka: Broker, caplog: pytest.LogCaptureFixture) -> None:
    topic = create_topic(broker)
    settings = settings_for(broker, kafka, re.escape(topic))
    produce_values(broker, topic, [b"%d" % number for number in range(10)], batch_size=1)
    commit_at(broker, settings, topic, 2)
    delete_records(broker, topic, before=7)
    partitions = MergedPartitions()
    with merging(settings, partitions), reading(kafka, f"live.{topic}") as reader:
        wait_until(lambda: reader.values() == [b"7", b"8", b"9"], "what is left")
        wait_until(lambda: [one.confirmed_to for one in partitions.now()] == [10], "that is known")
        assert [one.skipped_offsets for one in partitions.now()] == [5]
    assert f"offsets 2 to 6 of {topic}-0 are gone at the source" in caplog.text


def test_a_partition_whose_offsets_went_back_is_stopped_and_others_go_on(broker: Broker, kafka: Broker) -> None:
    one, other = create_topic(broker), create_topic(broker)
    settings = settings_for(broker, kafka, f"{one}|{other}")
    produce_values(broker, one, [b"a", b"b"])
    produce_values(broker, other, [b"c"])
    commit_at(broker, settings, one, 100)
    partitions = MergedPartitions()
    with merging(settings, partitions), reading(kafka, f"live.{other}") as reader, reading(kafka, f"live.{one}") as stopped:
        wait_until(lambda: reader.values() == [b"c"], "the other topic")
        wait_until(lambda: "stopped" in [each.state for each in partitions.now()], "it is stopped")
        [found] = [each for each in partitions.now() if each.state == "stopped"]
        assert found.name.topic == one
        assert "ends at 2 at the source, and was merged up to 100" in str(found.error)
        produce_values(broker, other, [b"d"])
        wait_until(lambda: reader.values() == [b"c", b"d"], "the other topic goes on")
        assert stopped.values() == []


@pytest.mark.parametrize("exactly_once", [False, True])
def test_a_record_that_the_target_does_not_take_stops_its_partition_and_others_go_on(
    broker: Broker, kafka: Broker, exactly_once: bool
) -> None:
    one, other = create_topic(broker), create_topic(broker)
    create_topic(kafka, name=f"live.{one}", configs={"max.message.bytes": 10_000})
    produce_values(broker, one, [b"a", random.randbytes(20_000), b"b"], batch_size=1)
    produce_values(broker, other, [b"c"])
    partitions = MergedPartitions()
    settings = settings_for(broker, kafka, f"{one}|{other}", exactly_once=exactly_once)
    with merging(settings, partitions), reading(kafka, f"live.{other}") as reader, reading(kafka, f"live.{one}") as stopped:
        wait_until(lambda: "stopped" in [each.state for each in partitions.now()], "it is stopped", deadline_s=60)
        [found] = [each for each in partitions.now() if each.state == "stopped"]
        assert found.name.topic == one
        assert "does not take a record" in str(found.error)
        produce_values(broker, other, [b"d"])
        wait_until(lambda: reader.values()[-1:] == [b"d"], "the other topic goes on", deadline_s=60)
        assert set(stopped.values()) <= {b"a"}


def test_exactly_once_whoever_comes_later_takes_over_in_the_middle_of_a_transaction(broker: Broker, kafka: Broker) -> None:
    topic = create_topic(broker, partitions=2)
    settings = settings_for(broker, kafka, re.escape(topic), exactly_once=True, commit_s=0.2)
    expected = [b"%d" % number for number in range(6_000)]
    first, said = Merging(settings), []

    def run_first() -> None:
        with pytest.raises(CommandFailed) as raised:
            first.run()
        said.append(str(raised.value))

    thread = Thread(target=run_first)
    thread.start()
    with reading(kafka, f"live.{topic}", 2) as reader:
        for partition in range(2):
            produce_values(broker, topic, expected[partition:2_000:2], partition=partition)
        wait_until(reader.values, "the first transaction", deadline_s=60)
        for partition in range(2):
            produce_values(broker, topic, expected[2_000 + partition :: 2], partition=partition)
        with merging(settings):
            wait_until(lambda: len(reader.values()) >= len(expected), "all records", deadline_s=60)
            # One that has nothing to write learns of its successor with the next record.
            produce_values(broker, topic, [b"6000"])
            thread.join(60)
            first.stop()
            wait_until(lambda: len(reader.values()) > len(expected), "the last record", deadline_s=60)
            assert sorted(reader.values(), key=int) == [*expected, b"6000"]
    assert "another process with the name of this mirror has taken over" in said[0]


@pytest.mark.skipif(IS_KAFKA, reason="the two of Apache Kafka that tests start have one cluster id")
def test_clusters_that_merge_each_other_do_not_send_records_round_in_circles(broker: Broker, kafka: Broker) -> None:
    topic = create_topic(broker)
    create_topic(kafka, name=topic)
    there = settings_for(broker, kafka, re.escape(topic), prefix="")
    back = settings_for(kafka, broker, re.escape(topic), prefix="")
    produce_values(broker, topic, [b"here"])
    produce_values(kafka, topic, [b"there"])
    with merging(there), merging(back), reading(broker, topic) as first, reading(kafka, topic) as second:
        wait_until(lambda: {*first.values()} == {*second.values()} == {b"here", b"there"}, "both records at both sides")
        produce_values(broker, topic, [b"last"])
        wait_until(lambda: b"last" in second.values(), "a record after them")
        assert (len(first.values()), len(second.values())) == (3, 3)


def test_exactly_once_from_apache_kafka_into_millstream(broker: Broker, kafka: Broker) -> None:
    topic = create_topic(kafka, partitions=2)
    expected = [b"%d" % number for number in range(1_000)]
    for partition in range(2):
        produce_values(kafka, topic, expected[partition::2], partition=partition)
    settings = settings_for(kafka, broker, re.escape(topic), exactly_once=True)
    with merging(settings), reading(broker, f"live.{topic}", 2) as reader:
        wait_until(lambda: len(reader.values()) >= len(expected), "all records", deadline_s=60)
        assert sorted(reader.values(), key=int) == expected


def test_one_cluster_is_merged_into_itself_only_with_a_prefix(broker: Broker) -> None:
    with pytest.raises(UsageError, match="are the same cluster: merging in it needs a --prefix"):
        Merging(settings_for(broker, broker, "nothing", prefix="")).run()


def test_exactly_once_after_the_process_was_killed(broker: Broker, kafka: Broker, tmp_path: Path) -> None:
    topic = create_topic(broker, partitions=2)
    file = tmp_path / "mirror.toml"
    file.write_text(
        f'name = "{topic}"\ntopics = "{topic}"\nmerge = true\nprefix = "k."\nexactly-once = true\ncommit-s = 0.2\nrefresh-s = 0.5\n'
    )
    process = MirrorProcess(tmp_path, broker.bootstrap_servers, kafka.bootstrap_servers, "--config", str(file))
    expected = [b"%d" % number for number in range(9_000)]
    with process, reading(kafka, f"k.{topic}", 2) as reader:
        for life in range(3):
            for partition in range(2):
                produce_values(broker, topic, expected[3_000 * life + partition : 3_000 * (life + 1) : 2], partition=partition)
            wait_until(lambda life=life: len(reader.values()) > 3_000 * life, f"records of life {life}", deadline_s=60)  # type: ignore[misc]
            process.kill()
            process.start()
        wait_until(lambda: len(reader.values()) >= len(expected), "all records", deadline_s=60)
        assert sorted(reader.values(), key=int) == expected
        mirror_command(kafka, "pause", "--name", topic)
        wait_until(lambda: is_reported(kafka, topic, state="paused", lag_messages=0), "it is paused", deadline_s=60)
        produce_values(broker, topic, [b"9000"])
        wait_until(lambda: is_reported(kafka, topic, state="paused", lag_messages=1), "the lag", deadline_s=60)
        mirror_command(kafka, "resume", "--name", topic)
        wait_until(lambda: len(reader.values()) > len(expected), "it goes on", deadline_s=60)


def is_reported(target: Broker, mirror: str, **wanted: object) -> bool:
    """Whether the mirror says so of its first partition."""
    found = reported(target, mirror)
    return found is not None and any({name: getattr(one, name) for name in wanted} == wanted for one in found.partitions[:1])


def test_a_merging_mirror_reports_how_it_goes_and_can_be_paused(broker: Broker, kafka: Broker, tmp_path: Path) -> None:
    topic = create_topic(broker, partitions=2)
    options = ("--merge", "--prefix", "p.", "--topics", topic, "--name", topic)
    process = MirrorProcess(tmp_path, broker.bootstrap_servers, kafka.bootstrap_servers, *options)
    produce_values(broker, topic, [b"%d" % number for number in range(10)])

    with process, reading(kafka, f"p.{topic}") as reader:
        wait_until(lambda: len(reader.values()) == 10, "the first records", deadline_s=60)
        at_the_end = {"state": "copying", "source_end": 10, "target_end": 10, "lag_messages": 0, "lag_bytes": 0}
        wait_until(lambda: is_reported(kafka, topic, **at_the_end), "the status", deadline_s=60)
        assert f"paused: {topic} of the mirror {topic}" in mirror_command(kafka, "pause", "--name", topic, "--topics", topic)
        wait_until(lambda: is_reported(kafka, topic, state="paused"), "it is paused", deadline_s=60)
        produce_values(broker, topic, [b"%d" % number for number in range(10, 15)])
        wait_until(lambda: is_reported(kafka, topic, state="paused", lag_messages=5), "the lag", deadline_s=60)
        assert process.stop() == 0
        assert [one["state"] for one in mirror_status(kafka, "--name", topic)["processes"]] == ["ended"]
        produce_values(broker, topic, [b"%d" % number for number in range(15, 18)])
        at_source = mirror_status(kafka, "--name", topic, "--from", broker.bootstrap_servers)["partitions"][0]
        assert (at_source["source_end"], at_source["target_end"], at_source["lag_messages"]) == (18, 10, 8)
        process.start()
        wait_until(lambda: is_reported(kafka, topic, state="paused", lag_messages=8), "it is paused still", deadline_s=60)
        assert len(reader.values()) == 10
        assert topic in mirror_command(kafka, "resume", "--name", topic)
        wait_until(lambda: len(reader.values()) == 18, "it goes on", deadline_s=60)
        assert reader.values() == [b"%d" % number for number in range(18)]
