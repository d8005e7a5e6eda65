"""Kafka's own records of groups, read, written again and replayed; and ours, in the eyes of Kafka's dump tool. Needs Java and the jars."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from millstream.coordinator_shard import CoordinatorRecord
from millstream.groups.classic.records import GroupMetadata, MemberRecord, group_metadata_record
from millstream.groups.consumer.records import (
    ClassicProtocols,
    ConsumerKey,
    ConsumerRecordType,
    CurrentAssignment,
    GroupEpoch,
    MemberMetadata,
    RegularExpression,
    TargetAssignment,
    TargetAssignmentEpoch,
    consumer_record,
)
from millstream.groups.offsets.records import CommittedOffset, OffsetKey, encode_offset_key, encode_offset_value
from millstream.groups.records import decode_record
from millstream.groups.settings import GroupSettings
from millstream.groups.shard import GroupCoordinatorShard
from millstream.wire.batch import split_batches
from millstream.wire.records import Record, decode_records, encode_batch
from tests.brokers import KafkaBroker
from tests.java import run_tool
from tests.waiting import wait_until

pytestmark = pytest.mark.timeout(400)
TOPIC_ID = UUID("00000000-0000-4000-8000-00000000000a")


@pytest.fixture(scope="module")
def kafkas_records(tmp_path_factory: pytest.TempPathFactory) -> list[CoordinatorRecord]:
    """What Apache Kafka wrote for groups of both kinds."""
    directory = tmp_path_factory.mktemp("kafka")
    broker = KafkaBroker(directory, {})
    broker.start()
    try:
        produce(broker.bootstrap_servers)
        for protocol in ("classic", "consumer"):
            consume(broker.bootstrap_servers, protocol)
    finally:
        broker.stop()
    return list(records_of(broker.partition_directory("__consumer_offsets")))


def produce(servers: str) -> None:
    producer = Producer({"bootstrap.servers": servers})
    producer.produce("topic", b"value", partition=0)
    producer.flush()


def consume(servers: str, protocol: str) -> None:
    """Join, read, commit with metadata, and leave; a static member stays in the group."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": f"{protocol}-group",
            "group.instance.id": "instance",
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["topic"])
    wait_until(lambda: consumer.poll(0.1) is not None, "a message", deadline_s=90)
    consumer.commit(offsets=[TopicPartition("topic", 0, 1, metadata="note")], asynchronous=False)
    consumer.close()


def records_of(directory: Path) -> Iterator[CoordinatorRecord]:
    for file in sorted(directory.glob("*.log")):
        for _, batch in split_batches(file.read_bytes()):
            for record in decode_records(batch):
                assert record.key is not None
                yield CoordinatorRecord(record.key, record.value)


def encoded_again(record: CoordinatorRecord) -> CoordinatorRecord:
    match decode_record(record):
        case (OffsetKey() as key, committed):
            value = None if committed is None else encode_offset_value(committed)
            return CoordinatorRecord(encode_offset_key(*key), value)
        case (str() as group_id, metadata):
            return group_metadata_record(group_id, metadata)
        case (ConsumerKey() as consumer_key, value):
            return consumer_record(consumer_key, value)
        case _:
            return record


@pytest.mark.slow
def test_kafkas_records_are_read_and_written_byte_for_byte(kafkas_records: list[CoordinatorRecord]) -> None:
    kinds = {int.from_bytes(record.key[:2], "big") for record in kafkas_records}
    assert {1, 2, 3, 5, 6, 7, 8} <= kinds
    assert [encoded_again(record) for record in kafkas_records] == kafkas_records


@pytest.mark.slow
def test_kafkas_groups_come_back_by_replaying_its_records(kafkas_records: list[CoordinatorRecord]) -> None:
    coordinator = GroupCoordinatorShard(GroupSettings())
    for record in kafkas_records:
        coordinator.apply(record)
    coordinator.loaded(0)
    assert {(group["group_id"], group["group_type"]) for group in coordinator.list_groups()} == {
        ("classic-group", "classic"),
        ("consumer-group", "consumer"),
    }
    for group_id in ("classic-group", "consumer-group"):
        shown: Any = coordinator.fetch_offsets(group_id, [("topic", None, [0])])
        assert shown["topics"][0]["partitions"][0]["committed_offset"] == 1
        assert shown["topics"][0]["partitions"][0]["metadata"].rstrip("\0") == "note"  # confluent-kafka sends the end of its C string
    described: Any = coordinator.describe("classic-group")
    assert [member["group_instance_id"] for member in described["members"]] == ["instance"]
    assert described["group_state"] == "Stable"


OWN_RECORDS = [
    CoordinatorRecord(encode_offset_key("g", "t", 3), encode_offset_value(CommittedOffset(7, 2, "note", 11))),
    CoordinatorRecord(encode_offset_key("g", "t", 4), encode_offset_value(CommittedOffset(8, -1, "", 12, topic_id=TOPIC_ID.bytes))),
    CoordinatorRecord(encode_offset_key("g", "t", 5), encode_offset_value(CommittedOffset(9, -1, "", 13, expire_timestamp_ms=14))),
    group_metadata_record(
        "g",
        GroupMetadata("consumer", 5, "range", "m", 99, (MemberRecord("m", "i", "c", "/h", 300, 200, b"\x00\x00\x00\x00\x00\x00", b""),)),
    ),
    consumer_record(ConsumerKey(ConsumerRecordType.GROUP_METADATA, "g"), GroupEpoch(4, 77)),
    consumer_record(
        ConsumerKey(ConsumerRecordType.MEMBER_METADATA, "g", "m"),
        MemberMetadata("i", "rack", "c", "/h", ("t",), "t.*", 30, "range", ClassicProtocols(10, (("range", b"x"),))),
    ),
    consumer_record(ConsumerKey(ConsumerRecordType.TARGET_ASSIGNMENT, "g"), TargetAssignmentEpoch(6)),
    consumer_record(ConsumerKey(ConsumerRecordType.TARGET_ASSIGNMENT_MEMBER, "g", "m"), TargetAssignment(((TOPIC_ID, (1, 2)),))),
    consumer_record(
        ConsumerKey(ConsumerRecordType.CURRENT_ASSIGNMENT, "g", "m"), CurrentAssignment(4, 3, 1, ((TOPIC_ID, (1,)),), ((TOPIC_ID, (2,)),))
    ),
    consumer_record(ConsumerKey(ConsumerRecordType.REGULAR_EXPRESSION, "g", "t.*"), RegularExpression(("t",), 5, 6)),
]


@pytest.mark.slow
def test_kafkas_dump_tool_reads_our_records(tmp_path: Path) -> None:
    file = tmp_path / "00000000000000000000.log"
    file.write_bytes(encode_batch([Record(offset, 0, *record) for offset, record in enumerate(OWN_RECORDS)]))
    dumped = run_tool("kafka.tools.DumpLogSegments", "--offsets-decoder", "--files", str(file))
    values = [json.loads(text)["data"] for text in re.findall(r"payload: (\{.*\})$", dumped, re.MULTILINE)]
    assert len(values) == len(OWN_RECORDS)
    assert (values[0]["offset"], values[0]["leaderEpoch"], values[0]["metadata"]) == (7, 2, "note")
    assert values[1]["topicId"] == "AAAAAAAAQACAAAAAAAAACg"
    assert values[2]["expireTimestamp"] == 14
    assert (values[3]["generation"], values[3]["members"][0]["groupInstanceId"]) == (5, "i")
    assert (values[4]["epoch"], values[4]["metadataHash"]) == (4, 77)
    assert values[5]["classicMemberMetadata"]["supportedProtocols"][0]["name"] == "range"
    assert values[6]["assignmentEpoch"] == 6
    assert values[7]["topicPartitions"][0]["partitions"] == [1, 2]
    assert (values[8]["state"], values[8]["partitionsPendingRevocation"][0]["partitions"]) == (1, [2])
    assert values[9]["topics"] == ["t"]
