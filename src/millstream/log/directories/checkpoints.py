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
"""

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path

from millstream.files import Files

RECOVERY_POINT = "recovery-point-offset-checkpoint"
LOG_START_OFFSET = "log-start-offset-checkpoint"
HIGH_WATERMARK = "replication-offset-checkpoint"
CLEANER_OFFSET = "cleaner-offset-checkpoint"
ALL = (RECOVERY_POINT, LOG_START_OFFSET, HIGH_WATERMARK, CLEANER_OFFSET)

TopicPartition = tuple[str, int]

_VERSION = "0"
_logger = logging.getLogger(__name__)


def read_checkpoint(files: Files, path: Path) -> dict[TopicPartition, int]:
    """The offsets in the file, by topic and partition."""
    try:
        return {
            (topic, int(partition)): int(offset)
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
