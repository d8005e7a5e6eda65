"""Commits that come again: the lane reads, keeps and writes exactly what the handler does."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.groups.commands import CommitOffsets, PartitionOffset, TopicOffsets
from millstream.groups.offsets.repeated_commit import RepeatedCommit
from millstream.groups.offsets.store import OffsetStore
from millstream.wire.api import ApiKey
from millstream.wire.frames import read_request_header
from millstream.wire.offset_commit import HIGHEST_VERSION, CommitShape, decode_request
from millstream.wire.records import batch_of, encode_key_values
from tests.framed_requests import framed_request

NOW_MS = 1_700_000_000_000
INT64 = st.integers(-(2**63), 2**63 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
positions = st.builds(PartitionOffset, st.integers(0, 2**31 - 1), INT64, INT32, st.none() | st.text(max_size=5) | st.just("x" * 200))
committed_topics = st.lists(
    st.builds(TopicOffsets, st.text(min_size=1, max_size=10), st.none() | st.uuids(), st.lists(positions, min_size=1, max_size=5)),
    min_size=1,
    max_size=3,
)
commands = st.builds(
    CommitOffsets,
    group_id=st.text(max_size=20),
    member_id=st.text(max_size=10),
    generation_or_member_epoch=INT32,
    topics=committed_topics,
    retention_ms=st.none(),
)


@given(command=commands, data=st.data())
def test_repeated_commit_writes_and_keeps_what_a_first_one_does(command: CommitOffsets, data: st.DataObject) -> None:
    count = sum(len(topic.partitions) for topic in command.topics)
    offsets = tuple(data.draw(st.lists(INT64, min_size=count, max_size=count)))
    epochs = tuple(data.draw(st.lists(INT32, min_size=count, max_size=count)))
    ordinary, short = OffsetStore(), OffsetStore()
    topics = _with_numbers(command, offsets, epochs).topics
    _, records = ordinary.commit(command.group_id, topics, now_ms=NOW_MS, retention_ms=None, metadata_max=4096, size_max=2**20)
    repeated = RepeatedCommit(command)
    short.commit_again(repeated, offsets, epochs, now_ms=NOW_MS)
    encoded = repeated.encode_records(offsets, epochs, now_ms=NOW_MS)
    assert batch_of(encoded, count=repeated.count, timestamp=NOW_MS) == encode_key_values(records, timestamp=NOW_MS)
    assert list(short.items(command.group_id)) == list(ordinary.items(command.group_id))


def _with_numbers(command: CommitOffsets, offsets: tuple[int, ...], epochs: tuple[int, ...]) -> CommitOffsets:
    numbers = iter(zip(offsets, epochs, strict=True))
    changed = []
    for topic in command.topics:
        partitions = []
        for one in topic.partitions:
            offset, epoch = next(numbers)
            partitions.append(one._replace(offset=offset, leader_epoch=epoch))
        changed.append(topic._replace(partitions=partitions))
    return command._replace(topics=changed)


def _frame(command: CommitOffsets, version: int, correlation_id: int) -> bytes:
    fields: dict[str, Any] = {
        "group_id": command.group_id,
        "generation_id_or_member_epoch": command.generation_or_member_epoch,
        "member_id": command.member_id,
        "group_instance_id": None,
        "topics": [
            {
                "name": topic.topic,
                "topic_id": topic.topic_id,
                "partitions": [
                    {
                        "partition_index": one.partition,
                        "committed_offset": one.offset,
                        "committed_leader_epoch": one.leader_epoch,
                        "committed_metadata": one.metadata,
                    }
                    for one in topic.partitions
                ],
            }
            for topic in command.topics
        ],
    }
    return framed_request(ApiKey.OFFSET_COMMIT, version, correlation_id=correlation_id, client_id="me", request=fields)[4:]


@pytest.mark.parametrize("version", range(6, HIGHEST_VERSION + 1))
@settings(max_examples=25)
@given(command=commands, data=st.data())
def test_shape_finds_the_numbers_of_a_request_that_looks_like_it_and_refuses_all_others(
    version: int, command: CommitOffsets, data: st.DataObject
) -> None:
    first = memoryview(_frame(command, version, 1))
    shape = CommitShape.of(
        first, version, decode_request(first, version, start=read_request_header(first).body_start), answer=bytes(4) + b"0001" + b"rest"
    )
    assert shape is not None
    count = sum(len(topic.partitions) for topic in command.topics)
    offsets = tuple(data.draw(st.lists(INT64, min_size=count, max_size=count)))
    epochs = tuple(data.draw(st.lists(INT32, min_size=count, max_size=count)))
    frame = _frame(_with_numbers(command, offsets, epochs), version, 77)
    assert shape.match(memoryview(frame)) == (77, offsets, epochs)
    assert shape.answer(77) == bytes(4) + (77).to_bytes(4, "big") + b"rest"
    assert shape.match(memoryview(frame + b"\x00")) is None
    place = data.draw(st.integers(0, len(frame) - 1))
    changed = bytearray(frame)
    changed[place] ^= 1 << data.draw(st.integers(0, 7))
    found = shape.match(memoryview(changed))
    if found is not None:  # a number was hit: everything else has to be as it was
        assert _frame(_with_numbers(command, found.offsets, found.leader_epochs), version, found.correlation_id) == bytes(changed)
