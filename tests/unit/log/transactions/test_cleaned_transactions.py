from millstream.log.transactions.cleaned_transactions import CleanedTransactions
from millstream.log.transactions.marker import Marker, encode_marker
from millstream.log.transactions.open_transactions import AbortedTransaction
from millstream.wire.batch import CONTROL, TRANSACTIONAL, BatchHeader, read_header
from millstream.wire.records import ProducerStamp, Record, encode_batch


def data(offset: int, *, producer_id: int = 7, flags: int = TRANSACTIONAL) -> BatchHeader:
    return read_header(encode_batch([Record(offset, 1, b"k", b"v")], producer=ProducerStamp(producer_id, 0, 0), flags=flags))


def end(transactions: CleanedTransactions, offset: int, *, is_commit: bool, producer_id: int = 7) -> tuple[bool, AbortedTransaction | None]:
    batch = encode_marker(Marker(is_commit, 0), ProducerStamp(producer_id, 0), timestamp=1, offset=offset)
    return transactions.end(read_header(batch), memoryview(batch))


def test_batches_of_an_aborted_transaction_can_go_and_its_marker_stays_with_its_entry() -> None:
    transactions, aborted = CleanedTransactions(), AbortedTransaction(7, 10, 20, 21)
    transactions.expect([aborted])
    assert not transactions.is_aborted(data(5))
    assert end(transactions, 6, is_commit=True) == (False, None)
    assert transactions.is_aborted(data(10))
    assert not transactions.is_aborted(data(11, producer_id=8))
    assert not transactions.is_aborted(data(12, flags=0))
    assert transactions.is_aborted(data(15))
    assert end(transactions, 20, is_commit=False) == (False, aborted)
    assert not transactions.is_aborted(data(30))


def test_a_marker_whose_transaction_has_no_batch_left_can_go() -> None:
    transactions = CleanedTransactions()
    transactions.expect([AbortedTransaction(7, 10, 20, 21)])
    assert end(transactions, 20, is_commit=False) == (True, None)
    assert end(transactions, 21, is_commit=True) == (True, None)


def test_a_transaction_that_is_expected_twice_ends_once() -> None:
    """It reaches over several segments, and each says it again."""
    transactions, aborted = CleanedTransactions(), AbortedTransaction(7, 10, 20, 21)
    transactions.expect([aborted])
    assert transactions.is_aborted(data(10))
    transactions.expect([aborted])
    assert end(transactions, 20, is_commit=False) == (False, aborted)
    transactions.expect([aborted])
    assert not transactions.is_aborted(data(22))


def test_other_control_batches_stay_and_empty_markers_can_go() -> None:
    transactions = CleanedTransactions()
    other = encode_batch([Record(3, 1, b"\0\0\0\1", b"\0" * 6)], producer=ProducerStamp(9, 0), flags=CONTROL)
    assert transactions.end(read_header(other), memoryview(other)) == (False, None)
    strange = encode_batch([Record(3, 1, b"\0\0\0\7", b"\0" * 6)], producer=ProducerStamp(9, 0), flags=CONTROL | TRANSACTIONAL)
    assert transactions.end(read_header(strange), memoryview(strange)) == (False, None)
    empty = encode_batch([], base_offset=4, producer=ProducerStamp(9, 0), flags=CONTROL | TRANSACTIONAL)
    assert transactions.end(read_header(empty), memoryview(empty)) == (True, None)
