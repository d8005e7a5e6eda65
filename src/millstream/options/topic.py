"""The options of a topic: all that Kafka 4.2 has, with Kafka's defaults, and Millstream's own.

Where nothing is set on the topic the value comes from the first broker option among the synonyms that is set, then from the default.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType

from millstream.options.option import MAX_LONG, Check, Option, OptionType, OptionValue, at_least, between, one_of, some_of
from millstream.options.without_effect import NO_REMOTE_STORAGE

COMPRESSION_TYPES = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")
CLEANUP_POLICIES = ("compact", "delete")
SMALLEST_SEGMENT_BYTES = 1024 * 1024

_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS
_WEEK_MS = 7 * _DAY_MS

_THROTTLED_REPLICA = re.compile(r"[0-9]+:[0-9]+")


def _are_throttled_replicas(value: OptionValue) -> bool:
    return value == ("*",) or (isinstance(value, tuple) and all(_THROTTLED_REPLICA.fullmatch(one) for one in value))


THROTTLED = Check("a list of partition:broker, or *", _are_throttled_replicas)
GZIP_LEVELS = Check("-1 (gzip's default) or a number from 1 to 9", lambda value: value == -1 or value in range(1, 10))

_SEGMENTS = (
    Option(
        "segment.bytes",
        OptionType.INT,
        str(1024**3),
        "Size at which a segment file is closed and the next one begun.",
        at_least(SMALLEST_SEGMENT_BYTES),
        synonyms=("log.segment.bytes",),
    ),
    Option(
        "segment.ms",
        OptionType.LONG,
        str(_WEEK_MS),
        "Age at which a segment is closed even if it is not full, so that retention and compaction can get at it.",
        at_least(1),
        synonyms=("log.roll.ms", "log.roll.hours"),
    ),
    Option(
        "segment.jitter.ms",
        OptionType.LONG,
        "0",
        "The most that is taken off `segment.ms` at random, so that segments of many partitions are not all closed at once.",
        at_least(0),
        synonyms=("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ),
    Option(
        "segment.index.bytes",
        OptionType.INT,
        str(10 * 1024 * 1024),
        "Size at which the offset or time index of a segment is full, which closes the segment.",
        at_least(4),
        synonyms=("log.index.size.max.bytes",),
    ),
    Option(
        "index.interval.bytes",
        OptionType.INT,
        "4096",
        "Bytes of records between two entries of the index: fewer make lookups more exact and the index bigger. More than 262144 are taken "
        "as 262144: lookups would take too long.",
        at_least(0),
        synonyms=("log.index.interval.bytes",),
    ),
    Option(
        "file.delete.delay.ms",
        OptionType.LONG,
        "60000",
        "Time between renaming a file to `.deleted` and removing it.",
        at_least(0),
        synonyms=("log.segment.delete.delay.ms",),
    ),
    Option(
        "preallocate",
        OptionType.BOOLEAN,
        "false",
        "Make the file of a new segment as long as `segment.bytes` at once, and cut it to its records when it is closed.",
        synonyms=("log.preallocate",),
    ),
    Option(
        "internal.segment.bytes",
        OptionType.INT,
        None,
        "Overrides `segment.bytes` without its lower bound, for tests that need many small segments.",
        at_least(1),
        is_internal=True,
    ),
)

_RETENTION = (
    Option(
        "cleanup.policy",
        OptionType.LIST,
        "delete",
        "What happens to old records: `delete` drops segments by age and size, `compact` is for topics of which the last"
        " record of every key counts (records then need a key), both do both, an empty list keeps everything.",
        some_of(*CLEANUP_POLICIES),
        synonyms=("log.cleanup.policy",),
    ),
    Option(
        "retention.ms",
        OptionType.LONG,
        str(_WEEK_MS),
        "Age at which a segment may be deleted, whether it was consumed or not; -1 keeps segments of any age.",
        at_least(-1),
        synonyms=("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    ),
    Option(
        "retention.bytes",
        OptionType.LONG,
        "-1",
        "Size of a partition above which its oldest segments are deleted; negative means no limit.",
        synonyms=("log.retention.bytes",),
    ),
    Option(
        "delete.retention.ms",
        OptionType.LONG,
        str(_DAY_MS),
        "How long compaction keeps the marker of a deleted key, so that readers have time to see it.",
        at_least(0),
        synonyms=("log.cleaner.delete.retention.ms",),
    ),
    Option(
        "min.cleanable.dirty.ratio",
        OptionType.DOUBLE,
        "0.5",
        "Share of a compacted log that has to be uncompacted before compaction runs.",
        between(0, 1),
        synonyms=("log.cleaner.min.cleanable.ratio",),
    ),
    Option(
        "min.compaction.lag.ms",
        OptionType.LONG,
        "0",
        "Time for which a record is safe from compaction.",
        at_least(0),
        synonyms=("log.cleaner.min.compaction.lag.ms",),
    ),
    Option(
        "max.compaction.lag.ms",
        OptionType.LONG,
        str(MAX_LONG),
        "Time after which a record has to be considered for compaction, whatever the dirty ratio is.",
        at_least(1),
        synonyms=("log.cleaner.max.compaction.lag.ms",),
    ),
)

_RECORDS = (
    Option(
        "max.message.bytes",
        OptionType.INT,
        "1048588",
        "The biggest record batch a producer may send, as it is on the wire (compressed, if it is).",
        at_least(0),
        synonyms=("message.max.bytes",),
    ),
    Option(
        "message.timestamp.type",
        OptionType.STRING,
        "CreateTime",
        "Whose time a record carries: the producer's (`CreateTime`) or the broker's at the append (`LogAppendTime`).",
        one_of(*TIMESTAMP_TYPES),
        synonyms=("log.message.timestamp.type",),
    ),
    Option(
        "message.timestamp.before.max.ms",
        OptionType.LONG,
        str(MAX_LONG),
        "How far before the broker's time a record's timestamp may lie.",
        at_least(0),
        synonyms=("log.message.timestamp.before.max.ms",),
    ),
    Option(
        "message.timestamp.after.max.ms",
        OptionType.LONG,
        str(_HOUR_MS),
        "How far after the broker's time a record's timestamp may lie.",
        at_least(0),
        synonyms=("log.message.timestamp.after.max.ms",),
    ),
    Option(
        "compression.type",
        OptionType.STRING,
        "producer",
        "Codec in which batches are stored; `producer` keeps each as it came, any other recompresses batches that differ.",
        one_of(*COMPRESSION_TYPES),
        synonyms=("compression.type",),
    ),
    Option(
        "compression.gzip.level",
        OptionType.INT,
        "-1",
        "Level at which the broker compresses with gzip, where `compression.type` makes it.",
        GZIP_LEVELS,
        synonyms=("compression.gzip.level",),
    ),
    Option(
        "compression.lz4.level",
        OptionType.INT,
        "9",
        "Level at which the broker compresses with lz4, where `compression.type` makes it; 9 is the fast way.",
        between(1, 17),
        synonyms=("compression.lz4.level",),
    ),
    Option(
        "compression.zstd.level",
        OptionType.INT,
        "3",
        "Level at which the broker compresses with zstd, where `compression.type` makes it.",
        between(-131_072, 22),
        synonyms=("compression.zstd.level",),
    ),
    Option(
        "check.records",
        OptionType.BOOLEAN,
        "false",
        "Decompress each batch and check every record before it is stored, as Kafka does, not only the header of the batch and the first "
        "bytes of its records (Millstream's own option; costs several times the CPU, see docs/adr/0021).",
        synonyms=("log.check.records",),
    ),
)

_DURABILITY = (
    Option(
        "flush.messages",
        OptionType.LONG,
        str(MAX_LONG),
        "Number of records after which the log has to be on disk; with 1 every acknowledged record is.",
        at_least(1),
        synonyms=("log.flush.interval.messages",),
    ),
    Option(
        "flush.ms",
        OptionType.LONG,
        str(MAX_LONG),
        "Time after which records that are not on disk yet are put there.",
        at_least(0),
        synonyms=("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    ),
    Option(
        "min.insync.replicas",
        OptionType.INT,
        "1",
        "In-sync replicas that have to be there for a produce with acks=all to be accepted.",
        at_least(1),
        synonyms=("min.insync.replicas",),
    ),
    Option(
        "unclean.leader.election.enable",
        OptionType.BOOLEAN,
        "false",
        "Whether a replica that is not in sync may become leader when no other is left, which can lose records.",
        synonyms=("unclean.leader.election.enable",),
    ),
)

_MIRRORING = (
    Option(
        "mirror.source",
        OptionType.STRING,
        "",
        "Where a mirror copies the topic from: cluster id, topic id and topic, with slashes between them (Millstream's own option, set by "
        "`millstream mirror`). While it is set the topic takes no records but the mirror's; `millstream mirror promote` removes it.",
        is_own=True,
    ),
)

_THROTTLING = (
    Option(
        "leader.replication.throttled.replicas",
        OptionType.LIST,
        "",
        "Replicas (`partition:broker`, that of the leader, or `*` for all) that are sent no faster than the broker's"
        " `leader.replication.throttled.rate`, except to followers that are in sync.",
        THROTTLED,
        may_have_gaps=True,
    ),
    Option(
        "follower.replication.throttled.replicas",
        OptionType.LIST,
        "",
        "Replicas (`partition:broker`, that of the follower, or `*` for all) that are copied no faster than the broker's"
        " `follower.replication.throttled.rate` while they are behind.",
        THROTTLED,
        may_have_gaps=True,
    ),
)

_WITHOUT_EFFECT = (
    Option(
        "remote.storage.enable",
        OptionType.BOOLEAN,
        "false",
        "Keep old segments in remote storage. Millstream has none.",
        is_fixed=True,
    ),
    Option(
        "remote.log.copy.disable",
        OptionType.BOOLEAN,
        "false",
        "Stop copying segments to remote storage.",
        without_effect=NO_REMOTE_STORAGE,
    ),
    Option(
        "remote.log.delete.on.disable",
        OptionType.BOOLEAN,
        "false",
        "Delete the remote segments when remote storage is switched off.",
        without_effect=NO_REMOTE_STORAGE,
    ),
    Option(
        "local.retention.ms",
        OptionType.LONG,
        "-2",
        "Local retention by age where remote storage is on; -2 means the same as `retention.ms`.",
        at_least(-2),
        synonyms=("log.local.retention.ms",),
        without_effect=NO_REMOTE_STORAGE,
    ),
    Option(
        "local.retention.bytes",
        OptionType.LONG,
        "-2",
        "Local retention by size where remote storage is on; -2 means the same as `retention.bytes`.",
        at_least(-2),
        synonyms=("log.local.retention.bytes",),
        without_effect=NO_REMOTE_STORAGE,
    ),
)

TOPIC_OPTIONS: Mapping[str, Option] = MappingProxyType(
    {
        option.name: option
        for option in sorted(
            (*_SEGMENTS, *_RETENTION, *_RECORDS, *_DURABILITY, *_MIRRORING, *_THROTTLING, *_WITHOUT_EFFECT),
            key=lambda option: option.name,
        )
    }
)
"""Every option of a topic, by name, in alphabetical order."""
