"""The checker notices each promise broken, and nothing where all are kept."""

from tests.cluster.faults.checker import (
    Batch,
    Problem,
    Stored,
    check_deliveries,
    check_records,
    check_replicas,
    counts,
)
from tests.cluster.faults.history import SOMEWHERE, History, ProducerHistory

PRODUCER = "p1"


def history_of(*offsets: int | None, partition: int = 0) -> dict[str, ProducerHistory]:
    """A producer that sent as many records and got these offsets in acknowledgements; None is no acknowledgement."""
    producer = ProducerHistory()
    for offset in offsets:
        sequence = producer.sent(partition)
        if offset is not None:
            producer.offsets[sequence] = offset
    return {PRODUCER: producer}


def log_of(*sequences: int) -> dict[int, list[Stored]]:
    return {0: [Stored(offset, PRODUCER, sequence) for offset, sequence in enumerate(sequences)]}


def kinds(problems: list[Problem]) -> list[str]:
    return [problem.kind for problem in problems]


def test_a_log_with_every_acknowledged_record_in_its_place_is_right() -> None:
    assert check_records(history_of(0, 1, 2), log_of(0, 1, 2)) == []


def test_a_record_without_an_acknowledgement_may_be_there_or_not() -> None:
    assert check_records(history_of(0, None, 1), log_of(0, 2)) == []
    assert check_records(history_of(0, None, 2), log_of(0, 1, 2)) == []


def test_a_lost_record_is_noticed() -> None:
    problems = check_records(history_of(0, 1, 2), log_of(0, 1))
    assert kinds(problems) == ["lost"]
    assert "p1 2, acknowledged in partition 0 at 2" in problems[0].text


def test_a_lost_record_is_noticed_when_its_partition_is_empty() -> None:
    assert kinds(check_records(history_of(0), {0: []})) == ["lost"]
    assert kinds(check_records(history_of(0), {})) == ["lost"]


def test_a_record_acknowledged_without_an_offset_may_be_anywhere_but_not_nowhere() -> None:
    assert check_records(history_of(SOMEWHERE, 1), log_of(0, 1)) == []
    assert kinds(check_records(history_of(SOMEWHERE, 0), {0: [Stored(0, PRODUCER, 1)]})) == ["lost"]


def test_a_doubled_record_is_noticed() -> None:
    assert kinds(check_records(history_of(0, 1), log_of(0, 1, 1))) == ["duplicated"]


def test_a_doubled_record_is_noticed_though_it_was_never_acknowledged() -> None:
    assert kinds(check_records(history_of(0, None), log_of(0, 1, 1))) == ["duplicated"]


def test_a_reordered_record_is_noticed() -> None:
    assert kinds(check_records(history_of(None, None, None), log_of(0, 2, 1))) == ["reordered"]


def test_a_record_at_another_offset_than_acknowledged_is_noticed() -> None:
    assert kinds(check_records(history_of(0, None, 1), log_of(0, 1, 2))) == ["moved"]


def test_a_record_that_was_never_sent_is_noticed() -> None:
    assert kinds(check_records(history_of(0), log_of(0, 1))) == ["invented"]
    assert kinds(check_records({}, log_of(0))) == ["invented"]


def test_a_record_in_another_partition_than_it_was_sent_to_is_noticed() -> None:
    assert kinds(check_records(history_of(0, partition=1), log_of(0))) == ["invented", "lost"]


def test_an_offset_that_is_there_twice_is_noticed() -> None:
    assert kinds(check_records(history_of(None, None), {0: [Stored(0, PRODUCER, 0), Stored(0, PRODUCER, 1)]})) == ["offsets"]


def test_a_record_that_a_group_committed_and_never_got_is_noticed() -> None:
    history = History()
    for offset in (0, 1, 3):
        history.was_delivered("g", 0, offset)
    assert check_deliveries(history.delivered, {("g", 0): 2}) == []
    assert kinds(check_deliveries(history.delivered, {("g", 0): 4})) == ["undelivered"]
    assert "1 records below 5, the first at 4" in check_deliveries({("g", 0): bytearray(b"\1\1\1\1")}, {("g", 0): 5})[0].text
    assert kinds(check_deliveries({}, {("g", 0): 1})) == ["undelivered"]


def test_replicas_with_other_bytes_or_fewer_batches_are_noticed() -> None:
    batches = [Batch(0, 100, 7), Batch(5, 100, 8)]
    assert check_replicas("t-0", {1: batches, 2: list(batches)}) == []
    assert kinds(check_replicas("t-0", {1: batches, 2: [Batch(0, 100, 7), Batch(5, 100, 9)]})) == ["diverged"]
    assert kinds(check_replicas("t-0", {1: batches, 2: batches, 3: batches[:1]})) == ["diverged"]


def test_problems_are_counted_by_kind() -> None:
    counted = counts([Problem("lost", ""), Problem("lost", ""), Problem("moved", "")])
    assert (counted["lost"], counted["moved"], counted["duplicated"]) == (2, 1, 0)
