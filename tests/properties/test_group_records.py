"""The records of groups: what is written is read, and whatever bytes are read, only `MalformedFrame` comes out."""

from contextlib import suppress
from typing import Any

import hypothesis.strategies as st
from hypothesis import given

from millstream.coordinator_shard import CoordinatorRecord
from millstream.errors import MalformedFrame
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

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(max_size=20)
NULLABLE = st.none() | TEXT
BYTES = st.binary(max_size=200)
TIMEOUT = st.integers(0, 2**31 - 1)
NAMES = st.lists(TEXT, max_size=4).map(tuple)
ASSIGNMENT = st.lists(st.tuples(st.uuids(), st.lists(INT32, max_size=4).map(tuple)), max_size=3).map(tuple)

MEMBERS = st.builds(MemberRecord, TEXT, NULLABLE, TEXT, TEXT, TIMEOUT, TIMEOUT, BYTES, BYTES)
METADATA = st.builds(GroupMetadata, TEXT, INT32, NULLABLE, NULLABLE, INT64, st.lists(MEMBERS, max_size=3).map(tuple))
OFFSETS = st.builds(CommittedOffset, INT64, INT32, TEXT, INT64, st.just(-1), st.binary(min_size=16, max_size=16))
CLASSIC = st.builds(ClassicProtocols, INT32, st.lists(st.tuples(TEXT, BYTES), max_size=3).map(tuple))
VALUES: dict[ConsumerRecordType, st.SearchStrategy[Any]] = {
    ConsumerRecordType.GROUP_METADATA: st.builds(GroupEpoch, INT32, INT64),
    ConsumerRecordType.MEMBER_METADATA: st.builds(
        MemberMetadata, NULLABLE, NULLABLE, TEXT, TEXT, NAMES, NULLABLE, INT32, NULLABLE, st.none() | CLASSIC
    ),
    ConsumerRecordType.TARGET_ASSIGNMENT: st.builds(TargetAssignmentEpoch, INT32),
    ConsumerRecordType.TARGET_ASSIGNMENT_MEMBER: st.builds(TargetAssignment, ASSIGNMENT),
    ConsumerRecordType.CURRENT_ASSIGNMENT: st.builds(CurrentAssignment, INT32, INT32, st.integers(-128, 127), ASSIGNMENT, ASSIGNMENT),
    ConsumerRecordType.REGULAR_EXPRESSION: st.builds(RegularExpression, NAMES, INT64, INT64),
}
CONSUMER_RECORDS = st.sampled_from(ConsumerRecordType).flatmap(lambda kind: st.tuples(st.just(kind), VALUES[kind]))


@given(group_id=TEXT, topic=TEXT, partition=INT32, committed=OFFSETS)
def test_offsets_are_read_as_they_were_written(group_id: str, topic: str, partition: int, committed: CommittedOffset) -> None:
    record = CoordinatorRecord(encode_offset_key(group_id, topic, partition), encode_offset_value(committed))
    assert decode_record(record) == (OffsetKey(group_id, topic, partition), committed)


@given(group_id=TEXT, metadata=st.none() | METADATA)
def test_classic_groups_are_read_as_they_were_written(group_id: str, metadata: GroupMetadata | None) -> None:
    assert decode_record(group_metadata_record(group_id, metadata)) == (group_id, metadata)


@given(group_id=TEXT, name=TEXT, record=CONSUMER_RECORDS)
def test_consumer_groups_are_read_as_they_were_written(group_id: str, name: str, record: tuple[ConsumerRecordType, Any]) -> None:
    kind, value = record
    has_name = kind not in (ConsumerRecordType.GROUP_METADATA, ConsumerRecordType.TARGET_ASSIGNMENT)
    key = ConsumerKey(kind, group_id, name if has_name else "")
    assert decode_record(consumer_record(key, value)) == (key, value)


KINDS = st.sampled_from([0, 1, 2, 3, 5, 6, 7, 8, 16]).map(lambda kind: kind.to_bytes(2, "big"))
VERSIONS = st.integers(0, 4).map(lambda version: version.to_bytes(2, "big"))


@given(kind=KINDS, key=st.binary(max_size=40), version=VERSIONS, value=st.binary(max_size=80))
def test_bytes_that_make_no_sense_are_malformed_and_nothing_else(kind: bytes, key: bytes, version: bytes, value: bytes) -> None:
    with suppress(MalformedFrame):
        decode_record(CoordinatorRecord(kind + key, version + value))


@given(kind=KINDS, version=VERSIONS, value=st.binary(max_size=80))
def test_values_that_make_no_sense_are_malformed_and_nothing_else(kind: bytes, version: bytes, value: bytes) -> None:
    with suppress(MalformedFrame):
        decode_record(CoordinatorRecord(kind + b"\x00\x01g\x00\x01t\x00\x00\x00\x00", version + value))
