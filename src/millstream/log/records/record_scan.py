"""Going over the records of a batch that a producer sent: do they fill it, and does each obey the topic? In slices, and nothing is kept.

A batch is broken (`InvalidRecord`) if its records do not add up (`record_walk`): clients would stop at it. A producer numbers its records
0, 1, 2 ..., and growing offsets within the range of the batch are just these. A record that is well formed and breaks a rule of the topic
is named by its number (KIP-467), and so are all others that do; Kafka's rules are a key where the topic is compacted, and a time within
`message.timestamp.before.max.ms` and `.after.max.ms` of the broker's.

A record costs somewhat less than a microsecond. Whoever has an event loop to look after takes slices.
"""

from millstream.buffer import Buffer
from millstream.errors import InvalidRecord, InvalidTimestamp, RecordError
from millstream.log.config import LogConfig
from millstream.log.records.record_walk import RecordWalk, WalkedRecords
from millstream.wire.batch import NO_TIMESTAMP, BatchHeader

MAX_NAMED = 10_000
"""Most records that are named, of a batch and of a request: librdkafka's batches have no more. The batch is refused anyway, so nobody looks
for further ones."""
_ANY_TIME = 2**64


class RecordRules:
    """What a topic asks of each record of a batch."""

    __slots__ = ("_base_timestamp", "_earliest", "_latest", "_needs_key", "_plain_until")

    def __init__(self, header: BatchHeader, config: LogConfig, *, now_ms: int) -> None:
        self._needs_key = config.is_compacted
        self._base_timestamp = base = header.base_timestamp
        self._earliest = now_ms - config.message_timestamp_before_max_ms
        self._latest = now_ms + config.message_timestamp_after_max_ms
        if config.is_log_append_time:
            self._earliest, self._latest = -_ANY_TIME, _ANY_TIME
        # In zigzag: whatever the sign, a delta up to this one is right.
        self._plain_until = min(2 * (self._latest - base), 2 * (base - self._earliest) - 1)

    def are_broken(self, walked: WalkedRecords) -> bool:
        """Whether any of the records has to be looked at more closely; most often none has."""
        return (self._needs_key and bool(walked.keyless)) or max(walked.timestamp_deltas, default=-1) > self._plain_until

    def broken(self, walked: WalkedRecords, *, first: int) -> list[tuple[bool, RecordError]]:
        """The records that break a rule, in order, and whether it is that of times; `first` is the number of the first that was walked."""
        keyless = set(walked.keyless) if self._needs_key else ()
        found: list[tuple[bool, RecordError]] = []
        for number, delta in enumerate(walked.timestamp_deltas, first):
            timestamp = self._base_timestamp + ((delta >> 1) ^ -(delta & 1))
            if number in keyless:
                found.append((False, RecordError(number, "it has no key, which a compacted topic needs")))
            elif timestamp != NO_TIMESTAMP and not self._earliest <= timestamp <= self._latest:
                message = f"its timestamp {timestamp} is not between {self._earliest} and {self._latest}"
                found.append((True, RecordError(number, message)))
        return found


class RecordScan:
    """How far the records of one batch have been looked at."""

    __slots__ = ("_bad", "_count", "_has_wrong_time", "_rules", "_walk")

    def __init__(self, payload: Buffer, header: BatchHeader, rules: RecordRules) -> None:
        self._walk = RecordWalk(payload, header.record_count, last_offset_delta=header.last_offset_delta, looks_into_headers=True)
        self._rules = rules
        self._count = header.record_count
        self._bad: list[RecordError] = []
        self._has_wrong_time = False

    @property
    def number(self) -> int:
        """How many records have been looked at."""
        return self._walk.number

    def advance(self, most: int) -> bool:
        """Look at up to `most` further records, or about as many headers; whether that was the last. Raises what the producer is told."""
        first = self._walk.number
        walked = self._walk.advance(most)
        if self._rules.are_broken(walked):
            for is_wrong_time, error in self._rules.broken(walked, first=first):
                self._bad.append(error)
                self._has_wrong_time |= is_wrong_time
            if len(self._bad) >= MAX_NAMED:
                raise self._refusal()
        if not self._walk.is_done:
            return False
        self._walk.check_end()
        if self._bad:
            raise self._refusal()
        return True

    def _refusal(self) -> InvalidRecord | InvalidTimestamp:
        """As in Kafka, one wrong time makes it an error of times."""
        del self._bad[MAX_NAMED:]
        kind = InvalidTimestamp if self._has_wrong_time else InvalidRecord
        first = self._bad[0]
        error = kind(f"{len(self._bad)} of {self._count} records are refused; number {first.batch_index}: {first.message}")
        error.record_errors = self._bad
        return error
