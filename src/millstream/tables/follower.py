"""A scan without an end: one long poll per leader for all its partitions, and rows as soon as they come.

Partitions that are added to the topic are read from their beginning, unless partitions were chosen. A leader that moves or a broker that
restarts is waited for as long as `request.timeout.ms` says; a topic that is deleted is lost data.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Final

import pyarrow as pa

from millstream.arrow.range_decoder import RangeDecoder
from millstream.client.codecs.fetch import READ_COMMITTED, READ_UNCOMMITTED, FetchAnswer, FetchedPartition, FetchFrom, FetchRequest
from millstream.client.connection import Connection
from millstream.client.conversation import Pending
from millstream.client.errors import is_retriable, kafka_error
from millstream.client.retry import may_pass
from millstream.errors import MillstreamError, OffsetOutOfRange, UnknownTopicOrPartition
from millstream.offset import EARLIEST, LATEST
from millstream.tables.offset_spans import Span, find_partitions
from millstream.tables.scan_options import ScanOptions
from millstream.tables.span_worker import SpanWorker
from millstream.tables.table_columns import TableColumns, TableRows
from millstream.topic_partition import TopicPartition

_NO_END: Final = 2**63 - 1
_ONE_LEADER_WAIT_MS: Final = 500
_SEVERAL_LEADERS_WAIT_MS: Final = 100
"""Answers are taken one after the other: what one leader has waits while another has nothing."""
_PAUSE_S: Final = 0.1
_LOOK_FOR_PARTITIONS_S: Final = 5.0


@dataclass(slots=True)
class _Followed:
    """One partition, and how far it was read."""

    rows: TableRows
    decoder: RangeDecoder
    fetch_bytes: int


class Follower:
    """Follows the partitions of a topic, in the thread of whoever takes the batches."""

    def __init__(self, options: ScanOptions, worker: SpanWorker) -> None:
        self._options = options
        self._worker = worker
        self._cluster = worker.cluster
        self._followed: dict[TopicPartition, _Followed] = {}
        self._isolation = READ_COMMITTED if options.read_committed else READ_UNCOMMITTED

    def batches(self, starts: Mapping[TopicPartition, int]) -> Iterator[pa.RecordBatch]:
        """The rows from these offsets on, for ever."""
        for place, offset in starts.items():
            self._follow(place, offset)
        answered_at = looked_at = monotonic()
        while self._followed:
            if monotonic() - looked_at > _LOOK_FOR_PARTITIONS_S:
                self._look_for_partitions()
                looked_at = monotonic()
            try:
                answers = self._ask_leaders()
            except MillstreamError as error:
                self._wait_or_raise(error, answered_at)
                continue
            for fetched in answers:
                yield from self._take(fetched)
            # Now, and not before: however long the batches were looked at, no broker was silent meanwhile.
            answered_at = monotonic()

    def _follow(self, place: TopicPartition, offset: int) -> None:
        rows = self._worker.rows(Span(place, offset, _NO_END))
        decoder = RangeDecoder(place, start=offset, end=_NO_END, wanted=rows.wanted, check_crcs=self._options.check_crcs)
        self._followed[place] = _Followed(rows, decoder, self._options.fetch_bytes)

    def _look_for_partitions(self) -> None:
        try:
            places = find_partitions(self._cluster, self._options) if self._options.partitions is None else []
            new = [place for place in places if place not in self._followed]
            for place, found in self._cluster.offsets(dict.fromkeys(new, EARLIEST)).items() if new else ():
                self._follow(place, found.offset)
        except MillstreamError as error:
            if not may_pass(error):
                raise

    def _ask_leaders(self) -> list[FetchedPartition]:
        by_leader: dict[int, list[FetchFrom]] = {}
        for place, followed in self._followed.items():
            led = self._cluster.led(*place)
            wanted = FetchFrom(*place, followed.decoder.next_offset, followed.fetch_bytes, leader_epoch=led.leader_epoch)
            by_leader.setdefault(led.leader, []).append(wanted)
        wait_ms = _ONE_LEADER_WAIT_MS if len(by_leader) == 1 else _SEVERAL_LEADERS_WAIT_MS
        sent: list[tuple[Connection, Pending[FetchAnswer]]] = []
        try:
            for leader, wanted_of_leader in by_leader.items():
                connection = self._cluster.connection(leader)
                sent.append((connection, connection.send(FetchRequest(wanted_of_leader, wait_ms, isolation_level=self._isolation))))
            answers = [connection.receive(pending) for connection, pending in sent]
        except BaseException:
            # An answer that is not read would be in the way of the next one.
            for connection, _ in sent:
                connection.close()
            raise
        for answer in answers:
            if answer.error_code:
                raise kafka_error(answer.error_code, "the broker refused a Fetch")
        return [fetched for answer in answers for fetched in answer.partitions]

    def _take(self, fetched: FetchedPartition) -> Iterator[pa.RecordBatch]:
        place = fetched.topic_partition
        followed = self._followed[place]
        decoder = followed.decoder
        if fetched.error_code:
            self._handle_refusal(place, followed, fetched.error_code)
            return
        if not fetched.records:
            return
        before = decoder.next_offset
        for records in decoder.decode(fetched.records, fetched.aborted_transactions):
            yield followed.rows.build(records)
        if (rest := decoder.finish()) is not None:
            yield followed.rows.build(rest)
        if decoder.next_offset == before:
            followed.fetch_bytes *= 2  # An old broker cut a batch off that did not fit.
        # Who had something is asked last, so that an answer full of one partition does not keep the others from theirs.
        self._followed[place] = self._followed.pop(place)

    def _handle_refusal(self, place: TopicPartition, followed: _Followed, code: int) -> None:
        offset = followed.decoder.next_offset
        if code == OffsetOutOfRange.code:
            first = self._cluster.offsets({place: EARLIEST})[place].offset
            last = self._cluster.offsets({place: LATEST}, isolation_level=self._isolation)[place].offset
            if not first <= offset <= last:
                self._options.report_data_loss(
                    f"offset {offset} of {place} is gone: the partition now has the offsets from {first} up to {last}"
                )
                self._follow(place, first)
            return
        error = kafka_error(code, f"fetching offset {offset} of {place} failed")
        if not is_retriable(code):
            raise error
        self._refresh()

    def _wait_or_raise(self, error: MillstreamError, answered_at: float) -> None:
        if isinstance(error, UnknownTopicOrPartition):
            self._options.report_data_loss(f"the topic {self._options.topic!r} is gone")
            self._followed.clear()
            return
        if not may_pass(error) or monotonic() - answered_at > self._options.request_timeout_ms / 1000:
            raise error
        sleep(_PAUSE_S)
        self._refresh()

    def _refresh(self) -> None:
        try:
            self._cluster.refresh([self._options.topic])
        except MillstreamError as error:
            if not may_pass(error):
                raise


def follow(options: ScanOptions, columns: TableColumns, starts: Mapping[TopicPartition, int]) -> Iterator[pa.RecordBatch]:
    """The rows of a topic from these offsets on, for ever."""
    with SpanWorker(options, columns) as worker:
        yield from Follower(options, worker).batches(starts)
