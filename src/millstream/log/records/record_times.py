"""The times of the records of one batch, looked through a slice at a time: no object per record, and no key or value is touched.

record   varint size of what follows | int8 attributes | varlong timestamp delta | varint offset delta | the rest is stepped over
"""

from millstream.buffer import Buffer
from millstream.errors import InvalidRecord
from millstream.wire.batch import BatchHeader
from millstream.wire.records import SMALLEST_RECORD, read_varint


class RecordTimes:
    """Where we are among the records of a batch."""

    __slots__ = ("_fixed_timestamp", "_header", "_left", "_payload", "_position", "walked")

    def __init__(self, payload: Buffer, header: BatchHeader) -> None:
        if not 0 <= header.record_count <= len(payload) // SMALLEST_RECORD:
            raise InvalidRecord(f"{header.record_count} records in {len(payload)} bytes")
        self._payload = payload
        self._header = header
        self._fixed_timestamp = header.max_timestamp if header.is_log_append_time else None
        self._left = header.record_count
        self._position = 0
        self.walked = 0
        """Records that the last call of `find` went through."""

    @property
    def is_done(self) -> bool:
        """Whether all records have been looked at."""
        return self._left == 0

    def find(self, timestamp: int, *, from_offset: int, at_most: int) -> tuple[int, int] | None:
        """Time and offset of the next record that is neither too old nor before `from_offset`, among so many; raises if they are broken."""
        payload, position, base_timestamp = self._payload, self._position, self._header.base_timestamp
        walked = 0
        try:
            for _ in range(min(self._left, at_most)):
                size, position = read_varint(payload, position)
                end = position + size
                if size < SMALLEST_RECORD - 1 or end > len(payload):
                    raise InvalidRecord(f"a record of {size} bytes in the {len(payload) - position} bytes left of the batch")
                walked += 1
                delta, position = read_varint(payload, position + 1)
                time = base_timestamp + delta if self._fixed_timestamp is None else self._fixed_timestamp
                if time >= timestamp and (offset := self._offset_at(position)) >= from_offset:
                    return time, offset
                position = end
        except IndexError:
            raise InvalidRecord("a batch ends inside a record") from None
        finally:
            self.walked = walked
            self._left -= walked
            self._position = position
        return None

    def _offset_at(self, position: int) -> int:
        delta, _ = read_varint(self._payload, position)
        if not 0 <= delta <= self._header.last_offset_delta:
            raise InvalidRecord(f"offset delta {delta} in a batch that ends at {self._header.last_offset_delta}")
        return self._header.base_offset + delta
