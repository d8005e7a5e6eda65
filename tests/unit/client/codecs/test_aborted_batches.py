"""Of a fetch, a reader of committed data sees what was not aborted."""

from millstream.client.codecs.aborted_batches import AbortedBatches
from millstream.log.transactions.marker import Marker, encode_marker
from millstream.wire.batch import TRANSACTIONAL, split_batches
from millstream.wire.records import ProducerStamp, Record, encode_batch


def batch(offset: int, producer_id: int = -1) -> bytes:
    stamp = ProducerStamp() if producer_id < 0 else ProducerStamp(producer_id, 0, 0)
    return encode_batch([Record(offset, 0, None, b"v")], producer=stamp, flags=TRANSACTIONAL if producer_id >= 0 else 0)


def marker(offset: int, producer_id: int, *, is_commit: bool) -> bytes:
    return encode_marker(Marker(is_commit, 0), ProducerStamp(producer_id, 0, -1), timestamp=0, offset=offset)


def visible(*batches: bytes, aborted: list[tuple[int, int]]) -> list[int]:
    hidden = AbortedBatches(aborted)
    return [header.base_offset for header, one in split_batches(memoryview(b"".join(batches))) if hidden.is_visible(header, one)]


def test_records_of_aborted_transactions_and_markers_are_left_out() -> None:
    batches = [batch(0), batch(1, 7), batch(2, 8), marker(3, 7, is_commit=False), marker(4, 8, is_commit=True)]
    assert visible(*batches, aborted=[(7, 1)]) == [0, 2]


def test_the_next_transaction_of_the_same_producer_is_visible() -> None:
    batches = [batch(0, 7), marker(1, 7, is_commit=False), batch(2, 7), marker(3, 7, is_commit=True), batch(4, 7)]
    assert visible(*batches, aborted=[(7, 0)]) == [2, 4]
    assert visible(*batches, marker(5, 7, is_commit=False), aborted=[(7, 4), (7, 0)]) == [2]


def test_a_transaction_that_began_before_the_fetch_is_listed_with_its_first_offset() -> None:
    assert visible(batch(10, 7), batch(11, 7), marker(12, 7, is_commit=False), aborted=[(7, 3)]) == []


def test_without_a_list_only_the_markers_are_left_out() -> None:
    assert visible(batch(0, 7), marker(1, 7, is_commit=False), batch(2), aborted=[]) == [0, 2]
