"""What can be set about one log, by Kafka's own names, with the defaults of Kafka 4.2.

A `LogConfig` is a value: a changed option is a new `LogConfig`, handed to `Log.update_config`. Field names are Kafka's option names with
`_` for `.`; `check_records` and `mirror_source` are Millstream's own. Whether a value is allowed is decided where options are parsed.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

LONG_MAX = 2**63 - 1
DAY_MS = 86_400_000


_SETS = ("cleanup_policy", "leader_replication_throttled_replicas", "follower_replication_throttled_replicas")
_DEFAULT_LEVELS = {"gzip": -1, "lz4": 9, "zstd": 3}


@dataclass(frozen=True, slots=True)
class LogConfig:
    """The options of one topic, as its logs see them."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * DAY_MS
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    retention_ms: int = 7 * DAY_MS
    retention_bytes: int = -1
    flush_messages: int = LONG_MAX
    flush_ms: int = LONG_MAX
    max_message_bytes: int = 1_048_588
    message_timestamp_type: str = "CreateTime"
    message_timestamp_before_max_ms: int = LONG_MAX
    message_timestamp_after_max_ms: int = 3_600_000
    cleanup_policy: frozenset[str] = frozenset({"delete"})
    delete_retention_ms: int = DAY_MS
    file_delete_delay_ms: int = 60_000
    preallocate: bool = False
    compression_type: str = "producer"
    compression_gzip_level: int = _DEFAULT_LEVELS["gzip"]
    compression_lz4_level: int = _DEFAULT_LEVELS["lz4"]
    compression_zstd_level: int = _DEFAULT_LEVELS["zstd"]
    min_insync_replicas: int = 1
    unclean_leader_election_enable: bool = False
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = LONG_MAX
    check_records: bool = False
    mirror_source: str = ""
    leader_replication_throttled_replicas: frozenset[str] = frozenset()
    """As `partition:broker`, or `*` for all."""
    follower_replication_throttled_replicas: frozenset[str] = frozenset()

    @classmethod
    def of(cls, values: Mapping[str, object]) -> Self:
        """From Kafka's option names (`segment.bytes`) and typed values; options that are not about logs are left alone."""
        known: dict[str, Any] = {}
        for field in fields(cls):
            name = field.name.replace("_", ".")
            if name in values:
                known[field.name] = values[name]
        for name in _SETS:
            if (elements := known.get(name)) is not None:
                names = elements.split(",") if isinstance(elements, str) else elements
                known[name] = frozenset(element.strip() for element in names if element.strip())
        return cls(**known)

    @property
    def compression_level(self) -> int | None:
        """How thoroughly the broker compresses with `compression_type`; None for codecs without levels."""
        levels = {"gzip": self.compression_gzip_level, "lz4": self.compression_lz4_level, "zstd": self.compression_zstd_level}
        return levels.get(self.compression_type)

    @property
    def is_compression_quick(self) -> bool:
        """Whether the broker compresses at Kafka's default level; others may take thirty times as long."""
        return self.compression_level == _DEFAULT_LEVELS.get(self.compression_type)

    @property
    def max_segment_ms(self) -> int:
        """How long the active segment is written to. It is not compacted: no record may wait in it for longer than for compaction."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.is_compacted else self.segment_ms

    def random_segment_jitter(self) -> int:
        """By how much sooner one segment ends, so that those of many logs do not all end at once."""
        jitter = min(self.segment_jitter_ms, self.max_segment_ms)
        return random.randrange(jitter) if jitter > 0 else 0

    @property
    def is_compacted(self) -> bool:
        """Whether the log keeps only the last record per key, so that every record needs one."""
        return "compact" in self.cleanup_policy

    @property
    def is_deleted(self) -> bool:
        """Whether old segments go by age and size."""
        return "delete" in self.cleanup_policy

    @property
    def is_flushed_by_itself(self) -> bool:
        """Whether a log is flushed after some time or some records, not only when a segment is full."""
        return self.flush_ms < LONG_MAX or self.flush_messages < LONG_MAX

    @property
    def is_log_append_time(self) -> bool:
        """Whether the broker's time is written into the batches."""
        return self.message_timestamp_type == "LogAppendTime"
