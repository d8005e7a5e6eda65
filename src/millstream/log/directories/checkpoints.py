"""Kafka's checkpoint files: a version, a count, and so many lines.

    0                                0
    2                                1
    orders 0 1517                    0 0
    orders 1 99                      (leader-epoch-checkpoint, see leader_epochs)

Of the first form each log directory has four, a number per partition in each:

    recovery-point-offset-checkpoint   everything below is synced: recovery after a crash starts in that segment
    log-start-offset-checkpoint        where DeleteRecords put the start, when that is inside a segment
    replication-offset-checkpoint      the high watermark, written by whoever leads or follows
    cleaner-offset-checkpoint          how far compaction came

A checkpoint is replaced whole. A damaged or missing one reads as empty: each number has a safe default (recover everything, start at the
first segment), so nothing but time is lost; records that DeleteRecords hid inside a segment show up again.

The directory of a log has one more small file, `partition.metadata`: to which topic, by id, it belongs. A topic that was deleted and
created again has the same name and another id.

    version: 0
    topic_id: pIyqLJ8xTRqQoZ0jBOSLWg        the 16 bytes in URL-safe base64 without padding, as Kafka prints ids
"""

import base64
import logging
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path

from millstream.files import Files
from millstream.topic_partition import TopicPartition

RECOVERY_POINT = "recovery-point-offset-checkpoint"
LOG_START_OFFSET = "log-start-offset-checkpoint"
HIGH_WATERMARK = "replication-offset-checkpoint"
CLEANER_OFFSET = "cleaner-offset-checkpoint"
PARTITION_METADATA = "partition.metadata"
ALL = (RECOVERY_POINT, LOG_START_OFFSET, HIGH_WATERMARK, CLEANER_OFFSET)

_VERSION = "0"
_logger = logging.getLogger(__name__)


def read_checkpoint(files: Files, path: Path) -> dict[TopicPartition, int]:
    """The offsets in the file, by topic and partition."""
    try:
        return {
            TopicPartition(topic, int(partition)): int(offset)
            for topic, partition, offset in (line.split() for line in parse_lines(files.read_bytes(path)))
        }
    except FileNotFoundError:
        return {}
    except ValueError as error:
        _logger.warning("%s is damaged (%s) and is not used", path, error)
        return {}


def write_checkpoint(files: Files, path: Path, offsets: Mapping[TopicPartition, int]) -> None:
    """Replace the file's content."""
    lines = (f"{topic} {partition} {offset}" for (topic, partition), offset in sorted(offsets.items()))
    files.write_atomically(path, render_lines(lines))


def render_lines(lines: Iterable[str]) -> bytes:
    """Version, count and lines."""
    rows = list(lines)
    return "\n".join((_VERSION, str(len(rows)), *rows, "")).encode()


def parse_lines(content: bytes) -> list[str]:
    """The lines behind version and count; ValueError if they do not add up."""
    version, count, *lines = content.decode().splitlines() or ("", "")
    if version != _VERSION:
        raise ValueError(f"version {version!r}")
    if len(lines) != int(count):
        raise ValueError(f"{count} lines promised, {len(lines)} found")
    return lines


def id_to_text(identifier: uuid.UUID) -> str:
    """The id as Kafka prints it."""
    return base64.urlsafe_b64encode(identifier.bytes).rstrip(b"=").decode()


def id_from_text(text: str) -> uuid.UUID:
    """The id from Kafka's text; ValueError if it is none."""
    return uuid.UUID(bytes=base64.urlsafe_b64decode(text + "=="))


def render_partition_metadata(topic_id: uuid.UUID) -> bytes:
    """The content of `partition.metadata`."""
    return f"version: 0\ntopic_id: {id_to_text(topic_id)}\n".encode()


def read_topic_id(files: Files, directory: Path) -> uuid.UUID | None:
    """The topic id on disk; None when the file is missing or was not completely written before a crash."""
    try:
        lines = files.read_bytes(directory / PARTITION_METADATA).decode().splitlines()
        fields = dict(line.split(": ", 1) for line in lines)
        return id_from_text(fields["topic_id"]) if fields["version"] == "0" else None
    except (FileNotFoundError, ValueError, KeyError):
        return None
