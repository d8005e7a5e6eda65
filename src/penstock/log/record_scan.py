"""Going over the records of a batch that a producer sent: do they fill it, and does each obey the topic? In slices, and nothing is kept.

The format is drawn in `record_walk`. A batch is broken (`InvalidRecord`) if its records do not fill its bytes exactly, if one is not
filled by its fields, or if their offsets are not 0, 1, 2 ...; clients would stop at it. A record that is well formed and breaks a rule of
the topic is named by its number (KIP-467), and so are all others that do; Kafka's rules are a key where the topic is compacted, and a time
within `message.timestamp.before.max.ms` and `.after.max.ms` of the broker's.

Tight code, run per record: well below a microsecond each. Whoever has an event loop to look after takes slices.
"""

from penstock.errors import InvalidRecord, InvalidTimestamp, RecordError
from penstock.log.config import LogConfig
from penstock.log.record_walk import long_varint
from penstock.wire.batch import NO_TIMESTAMP, BatchHeader

MAX_NAMED = 10_000
"""Most records that are named: librdkafka's batches have no more. The batch is refused anyway, so nobody looks for further ones."""
MAX_HEADERS = 1_000
"""Most headers of one record that are looked at: there could be half a million, which no client writes."""
_SMALLEST_HEADER = 2
_ANY_TIME = 2**64


class RecordRules:
    """What a topic asks of each record of a batch."""

    __slots__ = ("_base_timestamp", "_earliest", "_latest", "needs_key", "plain_until")

    def __init__(self, header: BatchHeader, config: LogConfig, *, now_ms: int) -> None:
        self.needs_key = config.is_compacted
        self._base_timestamp = header.base_timestamp
        self._earliest = now_ms - config.message_timestamp_before_max_ms
        self._latest = now_ms + config.message_timestamp_after_max_ms
        if config.is_log_append_time:
            self._earliest, self._latest = -_ANY_TIME, _ANY_TIME
        is_base_late_enough = header.base_timestamp >= self._earliest
        self.plain_until = 2 * (self._latest - header.base_timestamp) if is_base_late_enough else -1
        """A timestamp delta, in zigzag, that is even and not above this one is right; any other needs a look."""

    def is_wrong_time(self, zigzag_delta: int) -> bool:
        """Whether a record with this timestamp delta is too old or too young."""
        timestamp = self.timestamp(zigzag_delta)
        return timestamp != NO_TIMESTAMP and not self._earliest <= timestamp <= self._latest

    def timestamp(self, zigzag_delta: int) -> int:
        """The time of a record."""
        return self._base_timestamp + ((zigzag_delta >> 1) ^ -(zigzag_delta & 1))

    def say_time(self, zigzag_delta: int) -> str:
        """What is wrong with the time of a record."""
        return f"its timestamp {self.timestamp(zigzag_delta)} is not between {self._earliest} and {self._latest}"


class RecordScan:
    """How far the records of one batch have been looked at."""

    __slots__ = ("_bad", "_count", "_has_wrong_time", "_payload", "_position", "_rules", "number")

    def __init__(self, payload: bytes | bytearray, header: BatchHeader, rules: RecordRules) -> None:
        self._payload = payload
        self._rules = rules
        self._count = header.record_count
        self._position = 0
        self._bad: list[RecordError] = []
        self._has_wrong_time = False
        self.number = 0
        """How many have been looked at."""

    def advance(self, most: int) -> bool:
        """Look at up to `most` further records, or about as many headers; whether that was the last. Raises what the producer is told."""
        try:
            self._walk(min(self._count, self.number + most), most_headers=most)
        except IndexError:
            raise InvalidRecord(f"the batch ends before the last of {self._count} records does") from None
        is_enough = len(self._bad) >= MAX_NAMED
        if self.number < self._count and not is_enough:
            return False
        if self._position != len(self._payload) and not is_enough:
            raise InvalidRecord(f"{len(self._payload) - self._position} bytes after the last of {self._count} records")
        if self._bad:
            raise self._refusal()
        return True

    def _walk(self, stop: int, *, most_headers: int) -> None:  # noqa: C901 -- written out flat: it runs over every record
        payload, position, rules = self._payload, self._position, self._rules
        needs_key, plain_until = rules.needs_key, rules.plain_until
        number, headers_left = self.number - 1, most_headers
        for number in range(self.number, stop):
            size = payload[position]
            if size < 0x80:
                position += 1
            elif (more := payload[position + 1]) < 0x80:
                size += (more - 1) << 7
                position += 2
            else:
                size, position = long_varint(payload, position)
            end = position + (size >> 1)
            timestamp = payload[position + 1]
            if timestamp < 0x80:
                position += 2
            else:
                timestamp, position = long_varint(payload, position + 1)
            delta = payload[position]
            if delta < 0x80:
                position += 1
            elif (more := payload[position + 1]) < 0x80:
                delta += (more - 1) << 7
                position += 2
            else:
                delta, position = long_varint(payload, position)
            key_size = payload[position]
            if key_size < 0x80:
                position += 1
            else:
                key_size, position = long_varint(payload, position)
            value_at = position if key_size == 1 else position + (key_size >> 1)
            value_size = payload[value_at]
            if value_size < 0x80:
                position = value_at + 1
            elif (more := payload[value_at + 1]) < 0x80:
                value_size += (more - 1) << 7
                position = value_at + 2
            else:
                value_size, position = long_varint(payload, value_at)
            if value_size != 1:
                position += value_size >> 1
            if payload[position] == 0:
                position += 1
            else:
                header_count, position = _pass_headers(payload, position, end)
                headers_left -= header_count
            # An odd number is negative, and the only length below zero is that of null.
            if position != end or size & 1 or (key_size & 1 and key_size != 1) or (value_size & 1 and value_size != 1):
                raise InvalidRecord(f"record {number} has sizes that do not add up")
            if delta != number << 1:
                raise InvalidRecord(f"record {number} says that it is number {(delta >> 1) ^ -(delta & 1)}")
            if key_size == 1 and needs_key:
                self._bad.append(RecordError(number, "it has no key, which a compacted topic needs"))
            elif (timestamp & 1 or timestamp > plain_until) and rules.is_wrong_time(timestamp):
                self._bad.append(RecordError(number, rules.say_time(timestamp)))
                self._has_wrong_time = True
            elif headers_left > 0:
                continue
            if headers_left <= 0 or len(self._bad) == MAX_NAMED:
                break
        self.number = number + 1
        self._position = position

    def _refusal(self) -> InvalidRecord | InvalidTimestamp:
        """As in Kafka, one wrong time makes it an error of times."""
        kind = InvalidTimestamp if self._has_wrong_time else InvalidRecord
        first = self._bad[0]
        error = kind(f"{len(self._bad)} of {self._count} records are refused; number {first.batch_index}: {first.message}")
        error.record_errors = self._bad
        return error


def _pass_headers(payload: bytes | bytearray, position: int, end: int) -> tuple[int, int]:
    """How many headers the record has that ends at `end`, and the position after them; of very many only the first are looked at."""
    zigzag_count, position = long_varint(payload, position)
    count = zigzag_count >> 1
    if zigzag_count & 1 or count > (end - position) // _SMALLEST_HEADER:
        raise InvalidRecord(f"a record cannot have {count} headers in {end - position} bytes")
    for _ in range(min(count, MAX_HEADERS)):
        size, position = long_varint(payload, position)
        if size & 1:
            raise InvalidRecord("the name of a record header is null")
        size, position = long_varint(payload, position + (size >> 1))
        if size & 1 and size != 1:
            raise InvalidRecord("the value of a record header has a negative size")
        position += 0 if size == 1 else size >> 1
    return count, position if count <= MAX_HEADERS else end
