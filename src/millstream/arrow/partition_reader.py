"""One range of offsets of one partition, fetched from its leader and decoded: what the tasks of Spark and the threads of a scan run.

The next fetch is sent before the bytes of the last one are decoded, so that the broker and the network work meanwhile. What goes wrong with
that request in advance (a leader that moved, a connection that broke) is repaired by asking again, through `Cluster.fetch`, which follows
leaders.

Offsets that are gone, because retention or an administrator deleted them or because the topic was made anew, are reported once and
skipped, or are an error: `ReadSettings.report_data_loss` decides.
"""

from collections.abc import Iterator
from time import monotonic, sleep
from typing import Final, Protocol

import numpy as np

from millstream.arrow.kernels.record_kernel import HEADER_SIZE, find_next_offset
from millstream.arrow.range_decoder import RangeDecoder
from millstream.arrow.record_buffers import RecordBuffers
from millstream.client.cluster import Cluster
from millstream.client.codecs.fetch import READ_COMMITTED, READ_UNCOMMITTED, FetchAnswer, FetchedPartition, FetchFrom, FetchRequest
from millstream.client.connection import Connection
from millstream.client.conversation import Pending
from millstream.client.errors import BrokerUnavailable
from millstream.errors import KafkaError, OffsetOutOfRange, UnknownTopicOrPartition
from millstream.offset import EARLIEST, LATEST
from millstream.topic_partition import TopicPartition

_MAX_WAIT_MS: Final = 500
_PAUSE_S: Final = 0.1
_MOST_FETCH_BYTES: Final = 1 << 30
_ROOM_BYTES: Final = 64 * 1024

_bytes_per_offset: dict[TopicPartition, float] = {}
"""What an offset took on the wire when last read by this process: a small range is not asked for with a large fetch."""


class ReadSettings(Protocol):
    """How a partition is read."""

    @property
    def read_committed(self) -> bool: ...
    @property
    def check_crcs(self) -> bool: ...
    @property
    def fetch_bytes(self) -> int: ...
    @property
    def poll_timeout_ms(self) -> int:
        """How long to wait for records that should be there."""

    @property
    def poll_timeout_option(self) -> str:
        """What people call that."""

    def report_data_loss(self, what: str) -> None:
        """Raise `DataLoss`, or note that records are missing."""


class OffsetSpan(Protocol):
    """Offsets of one partition, from `start` up to but not including `end`."""

    @property
    def place(self) -> TopicPartition: ...
    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...


class PartitionReader:
    """Reads one range of offsets, once."""

    def __init__(self, cluster: Cluster, settings: ReadSettings, offsets: OffsetSpan, *, wanted: int) -> None:
        self._cluster = cluster
        self._settings = settings
        self._place = offsets.place
        self._decoder = RangeDecoder(offsets.place, start=offsets.start, end=offsets.end, wanted=wanted, check_crcs=settings.check_crcs)
        self._isolation = READ_COMMITTED if settings.read_committed else READ_UNCOMMITTED
        self._fetch_bytes = settings.fetch_bytes
        self._in_advance: tuple[Connection, Pending[FetchAnswer], int] | None = None

    def read(self) -> Iterator[RecordBuffers]:
        """The records of the range, gathered into buffers of a few MiB."""
        decoder = self._decoder
        try:
            self._send_in_advance(decoder.next_offset)
            deadline = self._next_deadline()
            while not decoder.is_done:
                before = decoder.next_offset
                fetched = self._fetch(before)
                if fetched is None:
                    break
                yield from self._decode(fetched)
                if decoder.next_offset > before:
                    deadline = self._next_deadline()
                elif monotonic() > deadline:
                    self._give_up(fetched)
                    break
            if (rest := decoder.finish()) is not None:
                yield rest
        finally:
            # An answer that is not read would be in the way of whoever uses the connection next.
            if self._in_advance is not None:
                self._in_advance[0].close()

    def _decode(self, fetched: FetchedPartition) -> Iterator[RecordBuffers]:
        before, decoder = self._decoder.next_offset, self._decoder
        after = int(find_next_offset(np.frombuffer(fetched.records, np.uint8)))
        if after < 0:
            if len(fetched.records) >= HEADER_SIZE:
                # A batch that did not fit: old brokers cut it off instead of sending it whole.
                self._fetch_bytes = min(2 * max(self._fetch_bytes, len(fetched.records)), _MOST_FETCH_BYTES)
            return
        if after > before:
            _bytes_per_offset[self._place] = len(fetched.records) / (after - before)
        if after < decoder.end:
            self._send_in_advance(after)
        yield from decoder.decode(fetched.records, fetched.aborted_transactions)

    def _wanted(self, offset: int) -> FetchFrom:
        size = self._fetch_bytes
        if (each := _bytes_per_offset.get(self._place)) is not None and size == self._settings.fetch_bytes:
            size = min(size, int(each * (self._decoder.end - offset) * 1.25) + _ROOM_BYTES)
        return FetchFrom(self._place.topic, self._place.partition, offset, max_bytes=size)

    def _send_in_advance(self, offset: int) -> None:
        try:
            led = self._cluster.led(*self._place)
            connection = self._cluster.connection(led.leader)
            wanted = self._wanted(offset)._replace(leader_epoch=led.leader_epoch)
            request = FetchRequest([wanted], _MAX_WAIT_MS, isolation_level=self._isolation)
            self._in_advance = connection, connection.send(request), offset
        except (BrokerUnavailable, KafkaError):
            self._in_advance = None

    def _fetch(self, offset: int) -> FetchedPartition | None:
        """The bytes from `offset` on; None if the rest of the range is gone and that is no error."""
        fetched = self._receive_in_advance(offset)
        if fetched is not None:
            return fetched
        try:
            return self._fetch_what_is_there()
        except UnknownTopicOrPartition:
            self._settings.report_data_loss(
                f"{self._place} is gone, with the offsets from {self._decoder.next_offset} to {self._decoder.end}"
            )
            return None

    def _fetch_what_is_there(self) -> FetchedPartition | None:
        """The bytes from where the decoder is, or from the first offset after it that is still there. What a broker says about where a
        partition begins may not be true any more when it is asked for that offset: then it is asked again."""
        deadline = self._next_deadline()
        while True:
            try:
                wanted = self._wanted(self._decoder.next_offset)
                return self._cluster.fetch(wanted, max_wait_ms=_MAX_WAIT_MS, isolation_level=self._isolation)
            except OffsetOutOfRange:
                if monotonic() > deadline:
                    raise
            before = self._decoder.next_offset
            if not self._skip_what_is_gone():
                return None
            if self._decoder.next_offset == before:
                sleep(_PAUSE_S)

    def _receive_in_advance(self, offset: int) -> FetchedPartition | None:
        if self._in_advance is None:
            return None
        connection, pending, asked = self._in_advance
        self._in_advance = None
        try:
            answer = connection.receive(pending)
        except BrokerUnavailable:
            return None
        if asked != offset or answer.error_code or answer.partitions[0].error_code:
            return None
        return answer.partitions[0]

    def _skip_what_is_gone(self) -> bool:
        """Go on at the first offset that is there; False if none of the range is."""
        offset = self._decoder.next_offset
        first = self._cluster.offsets({self._place: EARLIEST})[self._place].offset
        last = self._cluster.offsets({self._place: LATEST}, isolation_level=self._isolation)[self._place].offset
        if not first <= offset <= last:
            self._settings.report_data_loss(
                f"offset {offset} of {self._place} is gone: the partition now has the offsets from {first} up to {last}"
            )
        if offset > last or first >= self._decoder.end:
            return False
        self._decoder.skip_to(first)
        return True

    def _next_deadline(self) -> float:
        return monotonic() + self._settings.poll_timeout_ms / 1000

    def _give_up(self, fetched: FetchedPartition) -> None:
        end = fetched.last_stable_offset if self._settings.read_committed else fetched.high_watermark
        self._settings.report_data_loss(
            f"nothing came from {self._place} at offset {self._decoder.next_offset} for {self._settings.poll_timeout_ms} ms, though the "
            f"query reads up to {self._decoder.end}; the partition can be read up to {end} "
            f"(see the option {self._settings.poll_timeout_option})"
        )
