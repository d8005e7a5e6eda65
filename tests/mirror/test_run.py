"""`millstream mirror run` between two clusters, both real processes; the source is Apache Kafka where `MILLSTREAM_TEST_PEER` says so."""

import gzip
import itertools
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from uuid import UUID

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from kio.schema.errors import ErrorCode

from millstream import SimpleConsumer
from millstream.audit.reports.report import ANY_BUCKET, Kind
from millstream.audit.reports.report_json import decode_report
from millstream.mirror.clusters.side import Side
from millstream.mirror.clusters.topic_admin import set_options
from tests.batches import Record, encode_batch, encode_block, encode_record
from tests.brokers import IS_KAFKA, Broker, MillstreamBroker
from tests.clients.transactional import transact
from tests.connection import CREATE_PARTITIONS, DELETE_RECORDS, DESCRIBE_CONFIGS, INCREMENTAL_ALTER_CONFIGS, METADATA
from tests.mirror.appending import mirror_append, mirrored_batch, own_connection
from tests.mirror.mirror_process import MirrorProcess, await_same, batches_of, end_of, mirror_status
from tests.topics import create_topic, delete_topic, fresh_name, produce, produce_values, topic_id
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def offline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """The target."""
    own = MillstreamBroker(tmp_path_factory.mktemp("offline"), {})
    own.start()
    yield own
    own.kill()


@pytest.fixture(scope="module")
def mirror(broker: Broker, offline: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MirrorProcess]:
    """Copies every topic whose name begins with `m-`."""
    directory = tmp_path_factory.mktemp("mirror")
    (directory / "mirror.toml").write_text('topics = "m-.*"\nrefresh-s = 0.5\ncommit-s = 0.5\n')
    config = ("--config", str(directory / "mirror.toml"))
    with MirrorProcess(directory, broker.bootstrap_servers, offline.bootstrap_servers, *config) as running:
        yield running


def options(broker: Broker, topic: str) -> dict[str, str]:
    """The options that are set on a topic."""
    with broker.connect() as connection:
        resources = [{"resource_type": 2, "resource_name": topic, "configuration_keys": None}]
        [found] = connection.ask(DESCRIBE_CONFIGS, 4, {"resources": resources}).results
        return {config.name: config.value for config in found.configs if config.config_source == 1}


def mirrored_topic(broker: Broker, *, partitions: int = 1, **configs: object) -> str:
    named = {name.replace("_", "."): value for name, value in configs.items()}
    return create_topic(broker, name=fresh_name("m"), partitions=partitions, configs=named)


@pytest.mark.usefixtures("mirror")
def test_every_batch_is_copied_with_its_offset_and_bytes_however_it_was_produced(broker: Broker, offline: Broker) -> None:
    topic = mirrored_topic(broker, partitions=3, retention_ms=86_400_000)
    for number, codec in enumerate(("none", "gzip", "snappy", "lz4", "zstd")):
        producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "compression.type": codec,
                "enable.idempotence": number % 2 == 0,
                "linger.ms": 5,
            }
        )
        for index in range(500):
            producer.produce(topic, b"%d" % index * 20, key=b"%d" % index, headers={"codec": codec}, timestamp=1_700_000_000_000 + index)
        assert producer.flush(30) == 0
    assert await_same(broker, offline, topic, partitions=3) > 10
    assert options(offline, topic)["retention.ms"] == "86400000"
    assert options(offline, topic)["mirror.source"].endswith(f"/{topic}")
    with offline.connect() as connection:
        refused = produce(connection, topic, encode_batch([b"x"]))
    assert refused.error_code == ErrorCode.policy_violation


@pytest.mark.usefixtures("mirror")
def test_transactions_are_copied_with_what_was_aborted_and_their_markers(broker: Broker, offline: Broker) -> None:
    topic = mirrored_topic(broker)
    transact(broker.bootstrap_servers, topic, [([b"one"], True), ([b"gone"], False), ([b"two"], True)], transactional_id=fresh_name("id"))
    assert await_same(broker, offline, topic) == 6
    assert sum(header.attributes & 0x20 > 0 for header, _ in batches_of(offline, topic)) == 3
    with SimpleConsumer(offline.bootstrap_servers) as simple:
        wait_until(lambda: simple.latest(topic, 0) == 6, "the markers")
        assert [(message.offset, message.payload) for message in simple.fetch(topic, 0, 0, max_wait_ms=1)] == [(0, b"one"), (4, b"two")]


@pytest.mark.usefixtures("mirror")
def test_partitions_and_options_that_change_later_follow(broker: Broker, offline: Broker) -> None:
    topic = mirrored_topic(broker, retention_ms=86_400_000)
    produce_values(broker, topic, [b"a", b"b"])
    await_same(broker, offline, topic)
    with broker.connect() as connection:
        entry = {"name": topic, "count": 3, "assignments": None}
        connection.ask(CREATE_PARTITIONS, 3, {"topics": [entry], "timeout_ms": 10_000, "validate_only": False})
        changes = [
            {"name": "retention.ms", "config_operation": 1, "value": None},
            {"name": "max.message.bytes", "config_operation": 0, "value": "2000000"},
        ]
        resource = {"resource_type": 2, "resource_name": topic, "configs": changes}
        connection.ask(INCREMENTAL_ALTER_CONFIGS, 1, {"resources": [resource], "validate_only": False})
    wait_until(lambda: end_of(broker, topic, 2) == 0, "the partition is there")
    produce_values(broker, topic, [b"c"], partition=2)
    await_same(broker, offline, topic, partitions=3)
    wait_until(lambda: options(offline, topic).keys() == {"max.message.bytes", "mirror.source"}, "the options follow")


def test_what_cannot_be_mirrored_is_said_and_left_alone_while_the_rest_goes_on(
    broker: Broker, offline: Broker, mirror: MirrorProcess
) -> None:
    own = create_topic(offline, name=fresh_name("m-own"))
    produce_values(offline, own, [b"made here"])
    create_topic(broker, name=own)
    produce_values(broker, own, [b"made there"])
    mirror.wait_for(f"the topic {own} is not mirrored: the target has a topic of this name that is not a mirror")
    anew = mirrored_topic(broker)
    produce_values(broker, anew, [b"first", b"life"])
    await_same(broker, offline, anew)
    delete_topic(broker, anew)
    wait_until(lambda: _is_gone(broker, anew), "it is deleted")
    create_topic(broker, name=anew)
    produce_values(broker, anew, [b"second", b"life", b"more"])
    mirror.wait_for(f"the topic {anew} is not mirrored: the topic was deleted at the source and created anew")
    assert (end_of(offline, anew), end_of(offline, own)) == (2, 1)
    other = mirrored_topic(broker)
    produce_values(broker, other, [b"goes on"])
    await_same(broker, offline, other)


async def test_an_option_that_the_target_refuses_keeps_no_other_from_being_set(offline: Broker) -> None:
    topic = create_topic(offline, name=fresh_name("picky"))
    side = Side(offline.bootstrap_servers)
    try:
        refused = await set_options(side, topic, {"retention.ms": "60000", "colour": "red", "segment.ms": "0", "flush.ms": "9"})
    finally:
        side.close()
    assert refused.keys() == {"colour", "segment.ms"}
    assert all(refused.values()), "each with a reason"
    assert options(offline, topic) == {"retention.ms": "60000", "flush.ms": "9"}


def _is_gone(broker: Broker, topic: str) -> bool:
    with broker.connect() as connection:
        asked = {"topics": [{"name": topic, "topic_id": None}], "allow_auto_topic_creation": False}
        return bool(connection.ask(METADATA, 12, asked).topics[0].error_code)


@pytest.mark.usefixtures("mirror")
def test_the_status_says_how_far_it_is_behind(broker: Broker, offline: Broker) -> None:
    topic = mirrored_topic(broker, partitions=2)
    produce_values(broker, topic, [b"x" * 100] * 10)
    await_same(broker, offline, topic, partitions=2)

    def partition() -> dict[str, object] | None:
        found = [one for one in mirror_status(offline)["partitions"] if one["topic"] == topic and one["partition"] == 0]
        return found[0] if found and found[0]["target_end"] == 10 else None

    wait_until(partition, "it is reported")
    reported = partition()
    assert reported is not None
    expected = {"state": "copying", "source_end": 10, "lag_messages": 0, "lag_bytes": 0, "lag_seconds": 0.0, "error": None}
    assert {name: reported[name] for name in expected} == expected
    document = mirror_status(offline)
    assert {"lag_messages", "lag_bytes", "lag_seconds", "messages_per_second", "bytes_per_second", "errors"} <= document.keys()
    assert [process["state"] for process in document["processes"]] == ["running"]
    without_source = mirror_status(offline, "--from", "127.0.0.1:1")
    assert [one["topic"] for one in without_source["partitions"]] == [one["topic"] for one in document["partitions"]]


def test_a_cluster_cannot_be_its_own_mirror_and_a_loop_is_refused(broker: Broker, offline: Broker, tmp_path: Path) -> None:
    with MirrorProcess(tmp_path, offline.bootstrap_servers, offline.bootstrap_servers, "--topics", ".*") as own:
        assert own.wait() == 2
        assert "are the same cluster" in own.output
    if not isinstance(broker, MillstreamBroker):
        return
    topic = mirrored_topic(broker)
    produce_values(broker, topic, [b"a"])
    (tmp_path / "there").mkdir()
    (tmp_path / "back").mkdir()
    there = MirrorProcess(tmp_path / "there", broker.bootstrap_servers, offline.bootstrap_servers, "--topics", topic, "--name", "there")
    back = MirrorProcess(tmp_path / "back", offline.bootstrap_servers, broker.bootstrap_servers, "--topics", topic, "--name", "back")
    with there:
        await_same(broker, offline, topic)
        with back:
            back.wait_for(f"the topic {topic} is not mirrored: a loop")


@pytest.mark.skipif(IS_KAFKA, reason="the first mirror of the chain writes to Millstream")
@pytest.mark.usefixtures("mirror")
def test_a_chain_of_mirrors_keeps_transactions_markers_compression_and_gaps(broker: Broker, offline: Broker) -> None:
    upstream = f"east/{UUID(int=7)}/orders"
    topic = mirrored_topic(broker, mirror_source=upstream)
    transaction = {"producer_id": 4711, "producer_epoch": 2}
    records = gzip.compress(encode_record(0, b"a") + encode_record(1, b"b"))
    batches = [
        encode_block(records, 2, timestamp=5, max_timestamp=9, base_offset=40, attributes=1 | 8),
        mirrored_batch(b"t", at=50, attributes=0x10, base_sequence=0, **transaction),
        encode_block(
            encode_record(0, bytes(6), key=bytes(4)), 1, timestamp=5, max_timestamp=5, base_offset=51, attributes=0x30, **transaction
        ),
        mirrored_batch(b"after a gap", at=90),
    ]
    with own_connection(broker) as connection:
        assert mirror_append(connection, topic_id(broker, topic), *batches, expected_end=0, source=upstream).error_code == 0
    assert await_same(broker, offline, topic) == len(batches)
    assert batches_of(offline, topic)[0][0].base_offset == 40


@pytest.mark.skipif(not IS_KAFKA, reason="a target that is not Millstream")
def test_a_target_that_cannot_keep_offsets_is_refused_and_nothing_is_created_there(broker: Broker, offline: Broker, tmp_path: Path) -> None:
    topic = create_topic(offline, name=fresh_name("refused"))
    with MirrorProcess(tmp_path, offline.bootstrap_servers, broker.bootstrap_servers, "--topics", topic, "--alone") as mirror:
        assert mirror.wait() == 2
        assert "cannot keep offsets, because it is not Millstream; --merge copies" in mirror.output
    assert _is_gone(broker, topic)


def test_a_source_whose_records_were_deleted_up_to_the_middle_of_a_batch_is_copied(broker: Broker, offline: Broker, tmp_path: Path) -> None:
    topic = create_topic(broker, name=fresh_name("deleted"))
    produce_values(broker, topic, [b"%d" % number for number in range(20)], batch_size=10)
    with broker.connect() as connection:
        deleted = {"name": topic, "partitions": [{"partition_index": 0, "offset": 15}]}
        connection.ask(DELETE_RECORDS, 2, {"topics": [deleted], "timeout_ms": 9000})
    with MirrorProcess(tmp_path, broker.bootstrap_servers, offline.bootstrap_servers, "--topics", topic, "--alone"):
        assert await_same(broker, offline, topic) == 1


def test_a_limit_holds_the_mirror_back(broker: Broker, offline: Broker, tmp_path: Path) -> None:
    topic = create_topic(broker, name=fresh_name("limited"))
    produce_values(broker, topic, list(itertools.repeat(b"x" * 10_000, 300)), batch_size=5)
    began = monotonic()
    arguments = ("--topics", topic, "--name", "slow", "--limit-bytes", "700000")
    with MirrorProcess(tmp_path, broker.bootstrap_servers, offline.bootstrap_servers, *arguments):
        await_same(broker, offline, topic)
    assert monotonic() - began > 3.5, "three megabytes"


def test_the_audit_is_told_which_offsets_the_target_has(broker: Broker, offline: Broker, tmp_path: Path) -> None:
    topic = create_topic(broker, name=fresh_name("audited"), partitions=2)
    produce_values(broker, topic, [b"x"] * 30, partition=1, batch_size=7)
    arguments = ("--topics", topic, "--name", "audited", "--audit", "offline-mirror")
    with MirrorProcess(tmp_path, broker.bootstrap_servers, offline.bootstrap_servers, *arguments) as mirror:
        await_same(broker, offline, topic, partitions=2)
        assert mirror.stop() == 0
    values = [record.value or b"" for partition in range(8) for record in read_audit(broker, partition)]
    reports = [report for report in map(decode_report, values) if report.topic == topic and report.origin.kind is Kind.MIRROR]
    assert {(report.origin.tier, report.origin.target != "") for report in reports} == {("offline-mirror", True)}
    counts = [count for report in reports for count in report.counts]
    assert (sum(count.count for count in counts), {(count.bucket, count.partition) for count in counts}) == (30, {(ANY_BUCKET, 1)})
    assert sum(len(count.offsets) for count in counts if count.offsets is not None) == 30
    assert reports[-1].is_last


def read_audit(broker: Broker, partition: int) -> list[Record]:
    """The reports are compressed: read by a client."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "audit-reader", "enable.partition.eof": True})
    consumer.assign([TopicPartition("_audit", partition, OFFSET_BEGINNING)])
    records = []
    while (message := consumer.poll(20)) is not None and message.error() is None:
        records.append(Record(message.offset() or 0, 0, message.key(), message.value()))
    consumer.close()
    return records
