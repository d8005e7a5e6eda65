"""A commit of the same positions again and again, with other offsets: what consumers do all day.

Who commits, which partitions and what metadata stay the same, so the records stay the same as well, but for three numbers in each:

    ... key ... version | offset, leader epoch | metadata | commit timestamp | topic id ... key ... version | offset, ...
    ------- same -------   differs              -- same -   differs            ------------ same ----------   differs

They are encoded by one call, whatever their number. The bytes are those that `OffsetStore.commit` and `encode_key_values` make.
"""

from collections.abc import Iterator
from itertools import repeat
from struct import Struct
from typing import Final, NamedTuple

from millstream.groups.commands import CommitOffsets
from millstream.groups.offsets.records import NO_EXPIRY, CommittedOffset, encode_offset_key, encode_offset_value, topic_id_bytes
from millstream.wire.primitives import ZERO_UUID
from millstream.wire.records import encode_record

_VERSION_SIZE: Final = 2
_OFFSET_AND_EPOCH_SIZE: Final = 12
_TIME_SIZE: Final = 8
_PER_RECORD: Final = 5
"""Arguments for each record: what stands before, offset, epoch, metadata, time."""

_make_tuple = tuple.__new__


class RepeatedTopic(NamedTuple):
    """The partitions of one topic in the commit, and which of its numbers are theirs."""

    topic: str
    partitions: list[int]
    metadata: list[str]
    topic_id: bytes
    numbers: slice

    def committed(self, offsets: tuple[int, ...], leader_epochs: tuple[int, ...], *, now_ms: int) -> dict[int, CommittedOffset]:
        """The positions by partition."""
        fields = zip(
            offsets[self.numbers], leader_epochs[self.numbers], self.metadata, repeat(now_ms), repeat(NO_EXPIRY), repeat(self.topic_id)
        )
        return dict(zip(self.partitions, map(_make_tuple, repeat(CommittedOffset), fields), strict=True))


class RepeatedCommit:
    """The commit that `command` was, to be made again by the same member."""

    __slots__ = ("_arguments", "_layout", "command", "count", "topics")

    def __init__(self, command: CommitOffsets) -> None:
        assert command.retention_ms is None, "records with a retention of their own look different"
        self.command = command
        self.topics = _repeated_topics(command)
        self.count = 0
        self._arguments: list[object] = []
        layout = [">"]
        between = b""
        for head, metadata, tail in _records(command):
            between += head
            layout.append(f"{len(between)}sqi{len(metadata)}sq")
            self._arguments += (between, 0, 0, metadata, 0)
            between = tail
            self.count += 1
        self._arguments.append(between)
        self._layout = Struct("".join([*layout, f"{len(between)}s"]))

    def encode_records(self, offsets: tuple[int, ...], leader_epochs: tuple[int, ...], *, now_ms: int) -> bytes:
        """The records of the commit with these numbers, one after the other as they stand in a batch."""
        arguments = self._arguments
        arguments[1::_PER_RECORD] = offsets
        arguments[2::_PER_RECORD] = leader_epochs
        arguments[4::_PER_RECORD] = [now_ms] * self.count
        return self._layout.pack(*arguments)


def _repeated_topics(command: CommitOffsets) -> list[RepeatedTopic]:
    topics = []
    first = 0
    for name, topic_id, partitions in command.topics:
        last = first + len(partitions)
        metadata = [one.metadata or "" for one in partitions]
        topics.append(RepeatedTopic(name, [one.partition for one in partitions], metadata, topic_id_bytes(topic_id), slice(first, last)))
        first = last
    return topics


def _records(command: CommitOffsets) -> Iterator[tuple[bytes, bytes, bytes]]:
    """Of each record what stands before its numbers, between them and the time, and after the time."""
    number = 0
    for name, topic_id, partitions in command.topics:
        for one in partitions:
            committed = CommittedOffset(0, 0, one.metadata or "", 0, NO_EXPIRY, topic_id_bytes(topic_id))
            value = encode_offset_value(committed)
            without_id = encode_offset_value(committed._replace(topic_id=ZERO_UUID))
            record = encode_record(number, encode_offset_key(command.group_id, name, one.partition), value)
            numbers_at = len(record) - len(value) - 1 + _VERSION_SIZE
            metadata_at = numbers_at + _OFFSET_AND_EPOCH_SIZE
            time_at = metadata_at + len(without_id) - _VERSION_SIZE - _OFFSET_AND_EPOCH_SIZE - _TIME_SIZE - 1
            yield record[:numbers_at], record[metadata_at:time_at], record[time_at + _TIME_SIZE :]
            number += 1
