"""DescribeLogDirs (35): what lies where on disk.

Versions 1-4. 3: top-level error. 4: size of the volume and what is free of it (KIP-827).
"""

import os
from collections import defaultdict
from typing import TYPE_CHECKING

from millstream.broker.network.api import Fields, Request, api
from millstream.cluster.replicas import Replicas
from millstream.errors import StorageError
from millstream.files import path_text
from millstream.log.directories.directory import LogDirectory
from millstream.log.directories.manager import LogManager
from millstream.wire.api import ApiKey

if TYPE_CHECKING:
    from millstream.wire.requests.describe_log_dirs import DescribeLogDirsRequest


class LogDirectoriesFamily:
    """Describes the log directories of this broker."""

    def __init__(self, logs: LogManager, replicas: Replicas) -> None:
        self._logs = logs
        self._replicas = replicas

    @api(ApiKey.DESCRIBE_LOG_DIRS, 1, 4)
    def describe_log_dirs(self, request: Request) -> Fields:
        """Sizes and lags, per directory, topic and partition."""
        message: DescribeLogDirsRequest = request.decode()
        asked = message.topics
        wanted = None if asked is None else {(topic.topic, index) for topic in asked for index in topic.partitions}
        return {"error_code": 0, "results": [self._describe(directory, wanted) for directory in self._logs.directories]}

    def _describe(self, directory: LogDirectory, wanted: set[tuple[str, int]] | None) -> dict[str, object]:
        place = {"log_dir": path_text(directory.path)}
        if directory.offline is not None:
            return {**place, "error_code": StorageError.code, "topics": []}
        topics: dict[str, list[dict[str, object]]] = defaultdict(list)
        for log in self._logs:
            if log.directory is directory and (wanted is None or log.topic_partition in wanted):
                lag = max(0, self._replicas.high_watermark_of(log) - log.log_end_offset)
                topics[log.topic].append(
                    {"partition_index": log.partition, "partition_size": log.size_bytes, "offset_lag": lag, "is_future_key": False}
                )
        try:
            volume = os.statvfs(directory.path)
        except OSError:
            return {**place, "error_code": StorageError.code, "topics": []}
        return {
            **place,
            "error_code": 0,
            "topics": [{"name": topic, "partitions": partitions} for topic, partitions in topics.items()],
            "total_bytes": volume.f_blocks * volume.f_frsize,
            "usable_bytes": volume.f_bavail * volume.f_frsize,
        }
