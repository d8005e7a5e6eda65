from millstream.log.compaction.cleaning_order import CleanedGroup, CleaningOrder, CleaningResult, answer_from_line, answer_line
from millstream.log.transactions.open_transactions import AbortedTransaction

ORDER = CleaningOrder(
    directory="data/orders-0",
    segments=[(0, 100), (10, 200), (25, 50)],
    end_offset=40,
    first_dirty_offset=10,
    now_ms=1,
    delete_retention_ms=2,
    segment_bytes=3,
    segment_index_bytes=4,
    index_interval_bytes=5,
    producers=[(7, 39, 0)],
    aborted_behind=[AbortedTransaction(8, 10, 60, 61)],
)


def test_an_order_arrives_as_it_was_sent() -> None:
    line = ORDER.to_line()
    assert line.count(b"\n") == 1
    assert CleaningOrder.from_line(line) == ORDER


def test_answers_arrive_as_they_were_sent() -> None:
    for answer in (CleanedGroup([0, 10], 99), CleaningResult(40, key_count=3, broken=["offset 4: rotten\n"], broken_count=1)):
        assert answer_from_line(answer_line(answer)) == answer


def test_a_segment_ends_where_the_next_begins() -> None:
    assert list(ORDER.bounded_segments()) == [(0, 10, 100), (10, 25, 200), (25, 40, 50)]
