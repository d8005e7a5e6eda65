"""Looking into a batch where the topic wants it: keys on compacted topics, another codec, records that must be well formed.

Off the hot path: this is the only place where an append costs time per record. A batch of a megabyte may hold a million records and
unfold to a hundred megabytes, so the work is cut into steps that its owner takes when there is time (`broker.storage.record_turns`):

    unfold    decompress; native code that lets other threads run
    walk      go over some records; a microsecond each, in Python
    result    compress again where the topic has a codec of its own; native code

What cannot be decompressed is an `InvalidRecord`: clients try again what is called corrupt, and this does not get better. A batch is
broken, too, if its records do not add up (`wire.records`): clients would stop at it. A producer numbers its records 0, 1, 2 ..., and
growing offsets within the range of the batch are just these.

A record that is well formed and breaks a rule of the topic is named by its number (KIP-467), and so are all others that do; Kafka's rules
are a key where the topic is compacted, and a time within `message.timestamp.before.max.ms` and `.after.max.ms` of the broker's.
"""

from itertools import islice
from typing import Final, NamedTuple, Self

from millstream.buffer import Buffer
from millstream.errors import CorruptMessage, InvalidRecord, InvalidTimestamp, MessageTooLarge, RecordError
from millstream.log.config import LogConfig
from millstream.wire.batch import HEADER_SIZE, NO_TIMESTAMP, BatchHeader, read_header, with_log_append_time
from millstream.wire.compression import MAX_DECOMPRESSED_BYTES, Codec, UnfoldsTooFar, codec_of
from millstream.wire.records import decompressed, recompressed, walk_headers, walk_records

MAX_NAMED: Final = 10_000
"""Most records that are named, of a batch and of a request: librdkafka's batches have no more. The batch is refused anyway, so further ones
are not looked for."""
MAX_HEADERS: Final = 1_000
"""Most headers of one record that are looked into: there could be half a million, which no client writes."""
_CODECS: Final = {"uncompressed": Codec.NONE, "gzip": Codec.GZIP, "snappy": Codec.SNAPPY, "lz4": Codec.LZ4, "zstd": Codec.ZSTD}
_SMALL_BYTES: Final = 1024 * 1024
_ALL_TIMES: Final = 1 << 66


class CheckedBatch(NamedTuple):
    """A batch as it is to be stored, and the options by which it was found good."""

    batch: Buffer
    header: BatchHeader
    config: LogConfig


def is_needed(config: LogConfig) -> bool:
    """Whether batches of this topic have to be looked into at all."""
    return config.is_compacted or config.check_records or config.compression_type != "producer"


def kept_codecs(config: LogConfig) -> frozenset[Codec]:
    """The codecs that the topic leaves batches in."""
    return frozenset(Codec) if config.compression_type == "producer" else frozenset({_CODECS[config.compression_type]})


def checked(batch: Buffer, header: BatchHeader, *, config: LogConfig, now_ms: int) -> CheckedBatch:
    """The batch as it is to be stored, here and now; raises if one of its records breaks the rules of the topic."""
    check = RecordCheck(batch, header, config=config, now_ms=now_ms)
    if check.is_needed:
        check.unfold()
        while not check.walk(header.record_count):
            pass
    return check.result()


def as_stored(
    batch: Buffer, header: BatchHeader, *, config: LogConfig, now_ms: int, known: CheckedBatch | None
) -> tuple[Buffer, BatchHeader, int]:
    """The batch as the topic wants it stored, with its header and the time that the broker gave it, if it did.

    `known` is what came out of a check with the options of then. Markers of transactions are not looked into, and never compressed.
    """
    if not header.is_control:
        if known is None or known.config is not config:
            known = checked(batch, header, config=config, now_ms=now_ms)
        batch, header, _ = known
    if not config.is_log_append_time:
        return batch, header, NO_TIMESTAMP
    batch = with_log_append_time(batch, now_ms=now_ms)
    return batch, read_header(batch), now_ms


class RecordCheck:
    """One batch on its way to be stored. The batch must stay as it is until the end."""

    __slots__ = ("_batch", "_codec", "_config", "_is_walked", "_now_ms", "_payload", "_scan", "header")

    def __init__(self, batch: Buffer, header: BatchHeader, *, config: LogConfig, now_ms: int) -> None:
        self.header = header
        self._batch = batch
        self._config = config
        self._now_ms = now_ms
        self._codec = header.codec if config.compression_type == "producer" else _CODECS[config.compression_type]
        self._is_walked = config.is_compacted or config.check_records
        self._payload: Buffer = b""
        self._scan: RecordScan | None = None

    @classmethod
    def to_name_records(cls, batch: Buffer, *, config: LogConfig, now_ms: int) -> Self:
        """For a batch that is refused for what its header says: which of its records are to blame?"""
        header = read_header(batch)
        check = cls(batch, header, config=config, now_ms=now_ms)
        check._codec, check._is_walked = header.codec, True
        return check

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to do for this batch."""
        return self._is_walked or self.is_recompressed

    @property
    def is_recompressed(self) -> bool:
        """Whether the topic wants another codec than the producer took."""
        return self._codec != self.header.codec

    @property
    def is_quick(self) -> bool:
        """Whether a small batch takes little time: no topic's own level makes its compression a long one."""
        return not self.is_recompressed or self._config.is_compression_quick

    @property
    def unfolded_bytes(self) -> int:
        """Size of the records without compression, once they are unfolded."""
        return len(self._payload)

    def unfold(self, limit: int | None = None) -> Buffer:
        """Decompress the records; `UnfoldsTooFar` if they have more than `limit` bytes, which may then be tried without one."""
        try:
            payload = decompressed(self._batch, self.header, limit=MAX_DECOMPRESSED_BYTES if limit is None else limit)
        except UnfoldsTooFar as error:
            raise InvalidRecord(str(error)) if limit is None else error from None
        except CorruptMessage as error:
            raise InvalidRecord(str(error)) from None
        # Looking at single bytes of `bytes` is quicker; to copy a large batch would hold up other threads.
        self._payload = bytes(payload) if len(payload) <= _SMALL_BYTES else payload
        if self._is_walked:
            self._scan = RecordScan(self._payload, self.header, config=self._config, now_ms=self._now_ms)
        return self._payload

    def walk(self, most: int) -> bool:
        """Look at up to `most` further records; whether all have been looked at. Raises the error for its producer."""
        return self._scan is None or self._scan.advance(most)

    def result(self) -> CheckedBatch:
        """The batch as it is to be stored."""
        if not self.is_recompressed:
            return CheckedBatch(self._batch, self.header, self._config)
        if self._codec == Codec.NONE:
            self._check_size(HEADER_SIZE + len(self._payload))  # Not to copy, several times, what will be refused.
        stored = recompressed(self.header, self._payload, codec=codec_of(self._codec), level=self._config.compression_level)
        self._check_size(len(stored))
        return CheckedBatch(stored, read_header(stored), self._config)

    def _check_size(self, size: int) -> None:
        if size > self._config.max_message_bytes:
            raise MessageTooLarge(f"stored as {self._config.compression_type} the batch has {size} bytes")


class RecordScan:
    """How far the records of one batch have been looked at, in slices; nothing of them is kept. A record costs about a microsecond."""

    __slots__ = ("_bad", "_count", "_earliest", "_has_wrong_time", "_latest", "_needs_key", "_payload", "_walk", "number")

    def __init__(self, payload: Buffer, header: BatchHeader, *, config: LogConfig, now_ms: int) -> None:
        self._payload = payload
        self._walk = walk_records(payload, header)
        self._count = header.record_count
        self._needs_key = config.is_compacted
        self._earliest = now_ms - config.message_timestamp_before_max_ms
        self._latest = now_ms + config.message_timestamp_after_max_ms
        if config.is_log_append_time:
            self._earliest, self._latest = -_ALL_TIMES, _ALL_TIMES
        self._bad: list[RecordError] = []
        self._has_wrong_time = False
        self.number = 0
        """How many records have been looked at."""

    def advance(self, most: int) -> bool:
        """Look at up to `most` further records, or about as many headers; whether that was the last. Raises the error for its producer."""
        payload, needs_key, earliest, latest = self._payload, self._needs_key, self._earliest, self._latest
        headers_left = most
        number = self.number
        for _, timestamp, key_start, _, _, headers_start, end in islice(self._walk, most):
            if not earliest <= timestamp <= latest or (needs_key and key_start < 0):
                self._judge(number, timestamp, has_key=key_start >= 0)
            number += 1
            if payload[headers_start] or headers_start + 1 != end:
                for _ in islice(walk_headers(payload, headers_start, end), MAX_HEADERS + 1):
                    headers_left -= 1
                if headers_left <= 0:
                    break
        self.number = number
        if len(self._bad) >= MAX_NAMED:
            raise self._refusal()
        if number < self._count:
            return False
        next(self._walk, None)  # raises if the records end before the batch does
        if self._bad:
            raise self._refusal()
        return True

    def _judge(self, number: int, timestamp: int, *, has_key: bool) -> None:
        if self._needs_key and not has_key:
            self._bad.append(RecordError(number, "it has no key, which a compacted topic needs"))
        elif timestamp != NO_TIMESTAMP:
            self._bad.append(RecordError(number, f"its timestamp {timestamp} is not between {self._earliest} and {self._latest}"))
            self._has_wrong_time = True

    def _refusal(self) -> InvalidRecord | InvalidTimestamp:
        """As in Kafka, one wrong time makes it an error of times."""
        del self._bad[MAX_NAMED:]
        kind = InvalidTimestamp if self._has_wrong_time else InvalidRecord
        first = self._bad[0]
        error = kind(f"{len(self._bad)} of {self._count} records are refused; number {first.batch_index}: {first.message}")
        error.record_errors = self._bad
        return error
