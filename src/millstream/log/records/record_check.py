"""Looking into a batch where the topic wants it: keys on compacted topics, another codec, records that must be well formed.

Off the hot path: this is the only place where an append costs time per record. A batch of a megabyte may hold a million records and
unfold to a hundred megabytes, so the work is cut into steps that its owner takes when there is time (`broker.record_turns`):

    unfold    decompress; native code that lets other threads run
    walk      go over some records (`record_scan`); a microsecond each, in Python
    result    compress again where the topic has a codec of its own; native code

What cannot be decompressed is an `InvalidRecord`: clients try again what is called corrupt, and this does not get better.
"""

from typing import Final, NamedTuple, Self

from millstream.buffer import Buffer
from millstream.errors import CorruptMessage, InvalidRecord, MessageTooLarge
from millstream.log.config import LogConfig
from millstream.log.records.record_scan import RecordRules, RecordScan
from millstream.wire.batch import HEADER_SIZE, BatchHeader, read_header

CODECS = {"uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
_SMALLEST_RECORD: Final = 7
_SMALL_BYTES: Final = 1024 * 1024


class CheckedBatch(NamedTuple):
    """A batch as it is to be stored, and the options by which it was found good."""

    batch: Buffer
    header: BatchHeader
    config: LogConfig


def is_needed(config: LogConfig) -> bool:
    """Whether batches of this topic have to be looked into at all."""
    return config.is_compacted or config.check_records or config.compression_type != "producer"


def checked(batch: Buffer, header: BatchHeader, *, config: LogConfig, now_ms: int) -> CheckedBatch:
    """The batch as it is to be stored, here and now; raises if one of its records breaks the rules of the topic."""
    check = RecordCheck(batch, header, config=config, now_ms=now_ms)
    if check.is_needed:
        check.unfold()
        while not check.walk(header.record_count):
            pass
    return check.result()


class RecordCheck:
    """One batch on its way to be stored. The batch must stay as it is until the end."""

    __slots__ = ("_batch", "_codec", "_config", "_is_walked", "_now_ms", "_payload", "_scan", "header")

    def __init__(self, batch: Buffer, header: BatchHeader, *, config: LogConfig, now_ms: int) -> None:
        self.header = header
        self._batch = batch
        self._config = config
        self._now_ms = now_ms
        self._codec = header.codec if config.compression_type == "producer" else CODECS[config.compression_type]
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
        # Imported late: most brokers never look at a record.
        from millstream.wire.compression import MAX_DECOMPRESSED_BYTES, UnfoldsTooFar, codec_of, decompress

        try:
            payload = decompress(
                memoryview(self._batch)[HEADER_SIZE:], codec_of(self.header.codec), limit=MAX_DECOMPRESSED_BYTES if limit is None else limit
            )
        except UnfoldsTooFar as error:
            raise InvalidRecord(str(error)) if limit is None else error from None
        except CorruptMessage as error:
            raise InvalidRecord(str(error)) from None
        # Looking at single bytes of `bytes` is quicker; to copy a large batch would hold up other threads.
        self._payload = bytes(payload) if len(payload) <= _SMALL_BYTES else payload
        if self._is_walked:
            if self.header.record_count > len(self._payload) // _SMALLEST_RECORD:
                raise InvalidRecord(f"the batch claims {self.header.record_count} records and has {len(self._payload)} bytes of them")
            self._scan = RecordScan(self._payload, self.header, RecordRules(self.header, self._config, now_ms=self._now_ms))
        return self._payload

    def walk(self, most: int) -> bool:
        """Look at up to `most` further records; whether all have been looked at. Raises what the producer has to be told."""
        return self._scan is None or self._scan.advance(most)

    def result(self) -> CheckedBatch:
        """The batch as it is to be stored."""
        if not self.is_recompressed:
            return CheckedBatch(self._batch, self.header, self._config)
        from millstream.wire import records
        from millstream.wire.compression import Codec, codec_of

        if self._codec == Codec.NONE:
            self._check_size(HEADER_SIZE + len(self._payload))  # Not to copy, several times, what will be refused.
        rebuilt = records.rebuild(self.header, self._payload, codec=codec_of(self._codec), level=self._config.compression_level)
        self._check_size(len(rebuilt))
        return CheckedBatch(rebuilt, read_header(rebuilt), self._config)

    def _check_size(self, size: int) -> None:
        if size > self._config.max_message_bytes:
            raise MessageTooLarge(f"stored as {self._config.compression_type} the batch has {size} bytes")
