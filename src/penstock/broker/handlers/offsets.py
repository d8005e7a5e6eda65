"""ListOffsets (2), OffsetForLeaderEpoch (23), DeleteRecords (21): questions about offsets, and moving the start of a log.

ListOffsets 1-11. 2: isolation level. 4: leader epoch. 7: max timestamp (-3, KIP-734). 8: earliest local (-4). 9: last tiered (-5).
10: the client's timeout. 11: earliest pending upload (-6). Without tiered storage everything is local and nothing is tiered.
OffsetForLeaderEpoch 2-4. 3: replica id. 4: flexible. DeleteRecords 0-2. 2: flexible.
"""

from collections import Counter
from typing import Any

from penstock.broker.api import Fields, Request, api
from penstock.broker.failures import as_kafka_error
from penstock.cluster.partition import READ_COMMITTED, Partition
from penstock.cluster.replicas import Replicas
from penstock.coordination.cluster_view import INTERNAL_TOPICS
from penstock.errors import InvalidRequest, InvalidTopic, PolicyViolation, UnsupportedVersion
from penstock.wire.api import ApiKey

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
_FIRST_VERSION = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}

Found = tuple[int, int, int]
"""Timestamp, offset, leader epoch."""
NOTHING: Found = (-1, -1, -1)


class OffsetsFamily:
    """Answers from the logs of the partitions this broker leads."""

    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas

    @api(ApiKey.LIST_OFFSETS, 1, 11)
    def list_offsets(self, request: Request) -> Fields:
        """The offset for a time, or for one of the special times."""
        message = request.decode()
        isolation_level = getattr(message, "isolation_level", 0)
        topics = []
        times_asked = Counter((topic.name, asked.partition_index) for topic in message.topics for asked in topic.partitions)
        for topic in message.topics:
            partitions = []
            for index, asked in {one.partition_index: one for one in topic.partitions}.items():
                if times_asked[topic.name, index] > 1:
                    # As Kafka: a search in the log is not to be had a thousand times for the bytes of one request.
                    partitions.append({"partition_index": index, "error_code": InvalidRequest.code})
                else:
                    partitions.append(self._list_one(topic.name, asked, isolation_level, request.api_version))
            topics.append({"name": topic.name, "partitions": partitions})
        return {"topics": topics}

    def _list_one(self, topic: str, asked: Any, isolation_level: int, version: int) -> dict[str, object]:
        answer: dict[str, object] = {"partition_index": asked.partition_index, "error_code": 0}
        try:
            if version < _FIRST_VERSION.get(asked.timestamp, 0) or asked.timestamp < EARLIEST_PENDING_UPLOAD:
                raise UnsupportedVersion(f"timestamp {asked.timestamp} is not known in version {version}")
            partition = self._replicas.partition(topic, asked.partition_index)
            partition.check_leader(getattr(asked, "current_leader_epoch", -1))
            timestamp, offset, leader_epoch = _find(partition, asked.timestamp, isolation_level)
        except Exception as error:
            return answer | {"error_code": as_kafka_error(error).code}
        return answer | {"timestamp": timestamp, "offset": offset, "leader_epoch": leader_epoch}

    @api(ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, 4)
    def offset_for_leader_epoch(self, request: Request) -> Fields:
        """Where an epoch ended: the largest epoch not above the one asked for, and its end offset (KIP-101, KIP-279)."""
        topics = []
        for topic in request.decode().topics:
            partitions = []
            for asked in topic.partitions:
                try:
                    partition = self._replicas.partition(topic.topic, asked.partition)
                    partition.check_leader(asked.current_leader_epoch)
                    epoch, end_offset = partition.log.end_offset_for_epoch(asked.leader_epoch)
                    answer = {"error_code": 0, "leader_epoch": epoch, "end_offset": end_offset}
                except Exception as error:
                    answer = {"error_code": as_kafka_error(error).code}
                partitions.append({"partition": asked.partition, **answer})
            topics.append({"topic": topic.topic, "partitions": partitions})
        return {"topics": topics}

    @api(ApiKey.DELETE_RECORDS, 0, 2)
    def delete_records(self, request: Request) -> Fields:
        """Move the start of logs forward; -1 means up to the high watermark."""
        topics = []
        for topic in request.decode().topics:
            partitions = []
            for asked in topic.partitions:
                try:
                    partition = self._replicas.partition(topic.name, asked.partition_index)
                    partition.check_leader()
                    _check_deletable(partition)
                    answer = {"low_watermark": partition.delete_records_before(asked.offset), "error_code": 0}
                except Exception as error:
                    answer = {"low_watermark": -1, "error_code": as_kafka_error(error).code}
                partitions.append({"partition_index": asked.partition_index, **answer})
            topics.append({"name": topic.name, "partitions": partitions})
        return {"topics": topics}


def _check_deletable(partition: Partition) -> None:
    if partition.topic in INTERNAL_TOPICS:
        raise InvalidTopic(f"records of {partition.topic} belong to the broker and cannot be deleted")
    if not partition.log.config.is_deleted:
        raise PolicyViolation(f"{partition.topic} is compacted, not deleted from (cleanup.policy); write tombstones instead")


def _find(partition: Partition, timestamp: int, isolation_level: int) -> Found:
    log = partition.log
    if timestamp == LATEST:
        end = partition.last_stable_offset if isolation_level == READ_COMMITTED else partition.high_watermark.value
        return -1, end, partition.state.leader_epoch
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return -1, log.log_start_offset, log.epoch_of(log.log_start_offset)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return NOTHING
    found = log.offset_of_max_timestamp() if timestamp == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp)
    if found is None or found.offset >= partition.high_watermark.value:
        return NOTHING
    return found.timestamp, found.offset, found.leader_epoch
