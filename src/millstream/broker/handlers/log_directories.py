"""DescribeLogDirs (35): what lies where on disk. AlterReplicaLogDirs (34): what is to lie elsewhere (KIP-113).

DescribeLogDirs: versions 1-4. 3: top-level error. 4: size of the volume and what is free of it (KIP-827).
AlterReplicaLogDirs: versions 1-2. 2: compact.
"""

import os
from collections import defaultdict
from collections.abc import AsyncIterator, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Final

from millstream.admin_errors import LogDirNotFound, ReplicaNotAvailable
from millstream.broker.failures import as_kafka_error
from millstream.broker.network.api import Fields, Later, Request, api
from millstream.broker.network.outbox import Chunk
from millstream.broker.network.session import Session
from millstream.broker.storage.loop_turns import TaskTurns, in_turns
from millstream.cluster.replicas import Replicas
from millstream.cluster.topic_access import Operation
from millstream.errors import NotLeaderOrFollower, StorageError, UnknownTopicOrPartition
from millstream.files import path_text
from millstream.log.directories.directory import LogDirectory
from millstream.log.directories.manager import LogManager
from millstream.log.log import Log
from millstream.topic_partition import TopicPartition
from millstream.wire.api import ApiKey
from millstream.wire.last_array import framed_with_elements, with_elements
from millstream.wire.message_writer import message_writer
from millstream.wire.schema import schema_at

if TYPE_CHECKING:
    from millstream.broker.storage.log_moves import LogMoves
    from millstream.wire.requests.alter_replica_log_dirs import AlterReplicaLogDirsRequest
    from millstream.wire.requests.describe_log_dirs import DescribeLogDirsRequest

FIRST_FLEXIBLE_ALTER: Final = 2
Topics = dict[str, list[Fields]]
"""Partitions in a directory, by topic."""


class LogDirectoriesFamily:
    """Describes the log directories of this broker, and lets partitions move between them."""

    def __init__(self, logs: LogManager, replicas: Replicas, moves: "LogMoves | None") -> None:
        """`moves` is None where there is one directory."""
        self._logs = logs
        self._replicas = replicas
        self._moves = moves

    @api(ApiKey.DESCRIBE_LOG_DIRS, 1, 4)
    def describe_log_dirs(self, request: Request) -> Later:
        """Sizes and lags, per directory, topic and partition."""
        return self._describe_all(request.decode())

    @api(ApiKey.ALTER_REPLICA_LOG_DIRS, 1, 2)
    def alter_replica_log_dirs(self, request: Request) -> Coroutine[Any, Any, Sequence[Chunk]]:
        """Let partitions move; the answer says that it was begun. One that is named twice moves to the last directory."""
        return self._begin_moves(request, request.decode())

    # -- moving

    async def _begin_moves(self, request: Request, message: "AlterReplicaLogDirsRequest") -> Sequence[Chunk]:
        """In turns, and encoded one by one: a request may name a hundred thousand partitions, though hardly any that is here."""
        from millstream.wire.responses.alter_replica_log_dirs import (  # a broker starts sooner without it
            ALTER_REPLICA_LOG_DIR_PARTITION_RESULT,
            ALTER_REPLICA_LOG_DIR_TOPIC_RESULT,
        )

        version, is_flexible = request.api_version, request.api_version >= FIRST_FLEXIBLE_ALTER
        encode_partition = message_writer(schema_at(ALTER_REPLICA_LOG_DIR_PARTITION_RESULT, version, is_flexible=is_flexible))
        encode_topic = message_writer(schema_at(ALTER_REPLICA_LOG_DIR_TOPIC_RESULT, version, is_flexible=is_flexible))
        turns = TaskTurns()
        topics: list[bytes] = []
        for topic, paths in (await _asked_by_topic(message, turns)).items():
            partitions: list[bytes] = []
            for index, path in paths.items():
                await turns.share()
                try:
                    await self._begin_move(request.session, TopicPartition(topic, index), path)
                    code = 0
                except Exception as error:
                    code = as_kafka_error(error).code
                partitions.append(encode_partition({"partition_index": index, "error_code": code}))
            topics.append(with_elements(encode_topic({"topic_name": topic, "partitions": []}), partitions, is_flexible=is_flexible))
        return [framed_with_elements(request.encode({"results": []}), topics, is_flexible=is_flexible)]

    async def _begin_move(self, session: Session, name: TopicPartition, path: str) -> None:
        target = next((directory for directory in self._logs.directories if path_text(directory.path) == path), None)
        if target is None:
            raise LogDirNotFound(f"{path} is none of the data directories of this broker")
        target.check_online()
        try:
            partition = self._replicas.partition_for(session, Operation.DESCRIBE, *name)
        except (NotLeaderOrFollower, UnknownTopicOrPartition) as error:
            # It may be about to come here: kafka-reassign-partitions asks before it moves a replica.
            self._logs.prefer(name, target)
            if isinstance(error, NotLeaderOrFollower):
                raise ReplicaNotAvailable(str(error)) from error
            raise
        if self._moves is not None:
            await self._moves.begin(partition.log, target)

    # -- describing

    async def _describe_all(self, message: "DescribeLogDirsRequest") -> Fields:
        """In turns, and each log once, with the copy that is made of it: it may go from one directory to another meanwhile."""
        turns = TaskTurns()
        found: dict[LogDirectory, Topics] = {directory: defaultdict(list) for directory in self._logs.directories}
        async for log in self._asked_logs(message, turns):
            lag = max(0, self._replicas.high_watermark_of(log) - log.log_end_offset)
            found[log.directory][log.topic].append(_shown(log.partition, log.size_bytes, lag, is_future=False))
            move = None if self._moves is None else self._moves.of(log)
            if move is not None:
                lag = max(0, log.log_end_offset - move.future.end_offset)
                found[move.target][log.topic].append(_shown(log.partition, move.future.size_bytes, lag, is_future=True))
        return {"error_code": 0, "results": [_described(directory, topics) for directory, topics in found.items()]}

    async def _asked_logs(self, message: "DescribeLogDirsRequest", turns: TaskTurns) -> AsyncIterator[Log]:
        """The logs that are asked for, each of them once; all if none is named."""
        if message.topics is None:
            async for some in in_turns(list(self._logs), turns):
                for log in some:
                    if not log.is_closed:
                        yield log
            return
        seen: set[Log] = set()
        for topic in message.topics:
            await turns.share()
            async for indexes in in_turns(topic.partitions, turns):
                for index in indexes:
                    found = self._logs.get(topic.topic, index)
                    if found is not None and found not in seen:
                        seen.add(found)
                        yield found


async def _asked_by_topic(message: "AlterReplicaLogDirsRequest", turns: TaskTurns) -> dict[str, dict[int, str]]:
    """Per topic and partition the directory that was named last."""
    asked: dict[str, dict[int, str]] = defaultdict(dict)
    for directory in message.dirs:
        for topic in directory.topics:
            await turns.share()
            async for indexes in in_turns(topic.partitions, turns):
                asked[topic.name].update(dict.fromkeys(indexes, directory.path))
    return asked


def _shown(index: int, size_bytes: int, lag: int, *, is_future: bool) -> Fields:
    return {"partition_index": index, "partition_size": size_bytes, "offset_lag": lag, "is_future_key": is_future}


def _described(directory: LogDirectory, topics: Topics) -> Fields:
    """One directory, with what was found in it."""
    place = {"log_dir": path_text(directory.path)}
    failed = {**place, "error_code": StorageError.code, "topics": []}
    if directory.offline is not None:
        return failed
    try:
        volume = os.statvfs(directory.path)
    except OSError:
        return failed
    return {
        **place,
        "error_code": 0,
        "topics": [{"name": topic, "partitions": partitions} for topic, partitions in topics.items()],
        "total_bytes": volume.f_blocks * volume.f_frsize,
        "usable_bytes": volume.f_bavail * volume.f_frsize,
    }
