from struct import pack

import pytest

from millstream.errors import InvalidProducerEpoch, OutOfOrderSequenceNumber
from millstream.log.log import Log
from millstream.log.producer_state import FORGOTTEN_AT_ONCE, MAX_PRODUCERS, ProducerState, TransactionalWrites
from millstream.transaction_errors import Unverified
from millstream.wire.batch import CONTROL, TRANSACTIONAL, BatchHeader, read_header
from tests.batches import encode_batch
from tests.unit.log.conftest import NOW_MS, OpenLog
from tests.unit.log.partition import read_bytes


def header(sequence: int, *, count: int = 2, epoch: int = 0, producer: int = 7, timestamp: int = 1000) -> BatchHeader:
    batch = encode_batch([b""] * count, timestamp=timestamp, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)
    return read_header(batch)


def written(*sequences: int, epoch: int = 0) -> ProducerState:
    state = ProducerState()
    for number, sequence in enumerate(sequences):
        state.learn(header(sequence, epoch=epoch), b"", base_offset=100 + 2 * number)
    return state


def marker(*, epoch: int = 0, coordinator_epoch: int = 3, is_commit: bool = True, timestamp: int = 2000) -> bytes:
    """What the coordinator of a transaction writes at its end: a control batch with one record, without a sequence."""
    key, value = pack(">hh", 0, is_commit), pack(">hi", 0, coordinator_epoch)
    return encode_batch(
        [value], keys=[key], timestamp=timestamp, attributes=TRANSACTIONAL | CONTROL, producer_id=7, producer_epoch=epoch, base_sequence=-1
    )


def in_transaction(header: BatchHeader) -> BatchHeader:
    return header._replace(attributes=TRANSACTIONAL)


def test_open_transactions_come_back_from_a_snapshot_in_the_order_of_their_offsets() -> None:
    state = ProducerState()
    for producer, offset in ((9, 50), (7, 60), (8, 70)):
        state.learn(in_transaction(header(0, producer=producer)), b"", base_offset=offset)
    state.learn(read_header(marker()), marker(), base_offset=80)
    state.learn(in_transaction(header(2)), b"", base_offset=90)
    again = ProducerState.parse(state.render())
    assert again.transactions is not None
    assert list(again.transactions.ongoing.items()) == [(9, 50), (8, 70), (7, 90)]


def test_an_aborted_transaction_is_reported_with_where_readers_stood() -> None:
    state = ProducerState()
    state.learn(in_transaction(header(0)), b"", base_offset=10)
    state.learn(in_transaction(header(0, producer=8)), b"", base_offset=12)
    aborted = marker(is_commit=False)
    assert state.learn(read_header(aborted), aborted, base_offset=14) == (7, 10, 14, 12)
    assert state.learn(read_header(aborted), aborted, base_offset=15) is None


def test_what_has_no_sequence_is_remembered_without_one() -> None:
    state = ProducerState()
    state.learn(in_transaction(header(-1)), b"", base_offset=10)
    assert state.check(in_transaction(header(-1)), TransactionalWrites.CONTINUED) is None
    again = ProducerState.parse(state.render()).get(7)
    assert again is not None
    assert again.batches == [(-1, -1, 10, 11, 1000)]


def test_unknown_producer_may_start_anywhere() -> None:
    assert ProducerState().check(header(55)) is None


def test_sequence_has_to_follow() -> None:
    state = written(0, 2)
    assert state.check(header(4)) is None
    for wrong in (3, 5, 100):
        with pytest.raises(OutOfOrderSequenceNumber):
            state.check(header(wrong))


def test_each_of_the_last_five_batches_is_known_as_a_duplicate() -> None:
    state = written(0, 2, 4, 6, 8, 10)
    for sequence in (2, 4, 6, 8, 10):
        duplicate = state.check(header(sequence))
        assert duplicate is not None
        assert (duplicate.base_offset, duplicate.last_offset) == (100 + sequence, 101 + sequence)
    with pytest.raises(OutOfOrderSequenceNumber):
        state.check(header(0))


def test_same_start_with_another_length_is_no_duplicate() -> None:
    with pytest.raises(OutOfOrderSequenceNumber):
        written(0, 2).check(header(2, count=3))


def test_new_epoch_starts_at_zero_and_forgets_the_old_batches() -> None:
    state = written(0, 2)
    with pytest.raises(OutOfOrderSequenceNumber):
        state.check(header(4, epoch=1))
    assert state.check(header(0, epoch=1)) is None
    state.learn(header(0, epoch=1), b"", base_offset=200)
    with pytest.raises(InvalidProducerEpoch):
        state.check(header(4, epoch=0))
    entry = state.get(7)
    assert entry is not None
    assert (entry.epoch, entry.last_sequence, len(entry.batches)) == (1, 1, 1)


def test_sequences_wrap_around() -> None:
    state = written(2**31 - 3)
    assert state.check(header(2**31 - 1)) is None
    state.learn(header(2**31 - 1), b"", base_offset=300)
    entry = state.get(7)
    assert entry is not None
    assert entry.last_sequence == 0
    assert state.check(header(1)) is None
    state = written(2**31 - 2)
    assert state.check(header(0)) is None


def test_producers_expire_by_the_time_of_their_last_batch() -> None:
    state = written(0)
    assert state.expire(older_than_ms=999) == 0
    assert state.expire(older_than_ms=1000) == 1
    assert len(state) == 0


def test_open_transaction_does_not_expire() -> None:
    state = written(0)
    next(iter(state)).transaction_first_offset = 5
    assert state.expire(older_than_ms=10**9) == 0


def test_so_many_producers_are_remembered_and_who_wrote_longest_ago_is_forgotten_first() -> None:
    state = ProducerState()
    first = header(0)
    for producer in range(MAX_PRODUCERS):
        state.learn(first._replace(producer_id=producer), b"", base_offset=2 * producer)
    faithful, in_transaction = 3, 5
    state.learn(header(2, producer=faithful), b"", base_offset=2 * MAX_PRODUCERS)
    entry = state.get(in_transaction)
    assert entry is not None
    entry.transaction_first_offset = 10
    for producer in range(MAX_PRODUCERS, 3 * MAX_PRODUCERS):
        state.learn(first._replace(producer_id=producer), b"", base_offset=2 * producer + 10)
        assert len(state) <= MAX_PRODUCERS
        if producer == MAX_PRODUCERS:
            assert len(state) == MAX_PRODUCERS - FORGOTTEN_AT_ONCE + 1
            assert (state.get(0), state.get(faithful) is None) == (None, False)
    assert [producer for producer in range(MAX_PRODUCERS) if state.get(producer) is not None] == [in_transaction]
    assert state.check(header(77, producer=0)) is None


def test_snapshot_holds_the_last_batch_of_each_producer() -> None:
    state = written(0, 2, 4)
    state.learn(header(9, count=1, producer=8, epoch=3, timestamp=77), b"", base_offset=500)
    again = ProducerState.parse(state.render())
    one, two = again.get(7), again.get(8)
    assert one is not None
    assert two is not None
    assert (one.epoch, one.last_timestamp, one.batches) == (0, 1000, [(4, 5, 104, 105, 1000)])
    assert (two.epoch, two.last_timestamp, two.batches) == (3, 77, [(9, 9, 500, 500, 77)])
    assert again.check(header(6)) is None


def test_empty_snapshot_is_ten_bytes() -> None:
    assert len(ProducerState().render()) == 10
    assert len(ProducerState.parse(ProducerState().render())) == 0


def test_sequence_that_wrapped_is_restored_from_a_snapshot() -> None:
    state = ProducerState()
    state.learn(header(2**31 - 1), b"", base_offset=10)
    entry = ProducerState.parse(state.render()).get(7)
    assert entry is not None
    assert entry.batches[0][:2] == (2**31 - 1, 0)


def test_every_damage_of_a_snapshot_is_noticed() -> None:
    content = written(0).render()
    for position in range(len(content)):
        damaged = bytearray(content)
        damaged[position] ^= 0x10
        with pytest.raises(ValueError, match="bytes"):
            ProducerState.parse(bytes(damaged))
        with pytest.raises(ValueError, match="bytes"):
            ProducerState.parse(content[:position])
    with pytest.raises(ValueError, match="bytes"):
        ProducerState.parse(content + b"\x00")


@pytest.mark.parametrize("is_commit", [True, False])
def test_transactional_batch_opens_a_transaction_and_a_marker_ends_it(is_commit: bool) -> None:
    state = ProducerState()
    state.learn(in_transaction(header(0)), b"", base_offset=100)
    state.learn(in_transaction(header(2)), b"", base_offset=102)
    entry = state.get(7)
    assert entry is not None
    assert (entry.transaction_first_offset, entry.coordinator_epoch) == (100, -1)
    end = marker(is_commit=is_commit)
    state.learn(read_header(end), end, base_offset=104)
    assert (entry.transaction_first_offset, entry.coordinator_epoch, entry.last_timestamp) == (-1, 3, 2000)
    assert (entry.epoch, entry.last_sequence, entry.last_offset) == (0, 3, 103)
    with pytest.raises(Unverified):
        state.check(in_transaction(header(4)), TransactionalWrites.CONTINUED)
    assert state.check(in_transaction(header(4)), TransactionalWrites.VERIFIED) is None
    state.learn(in_transaction(header(4)), b"", base_offset=105)
    assert entry.transaction_first_offset == 105


def test_marker_of_a_later_epoch_fences_the_producer() -> None:
    state = written(0, 2)
    end = marker(epoch=1)
    state.learn(read_header(end), end, base_offset=104)
    with pytest.raises(InvalidProducerEpoch):
        state.check(header(4))
    with pytest.raises(OutOfOrderSequenceNumber):
        state.check(header(4, epoch=1))
    assert state.check(header(0, epoch=1)) is None


def test_marker_of_an_unknown_producer_is_remembered_and_an_emptied_one_is_not() -> None:
    state = ProducerState()
    end = marker(epoch=5)
    state.learn(read_header(end)._replace(record_count=0), end, base_offset=10)
    assert len(state) == 0
    state.learn(read_header(end), end, base_offset=10)
    entry = ProducerState.parse(state.render()).get(7)
    assert entry is not None
    assert (entry.epoch, entry.coordinator_epoch, entry.last_sequence, entry.last_offset) == (5, 3, -1, -1)


def test_marker_that_no_coordinator_wrote_ends_the_transaction_all_the_same() -> None:
    for broken in (marker()[:-1], encode_batch([b"?"], attributes=CONTROL, producer_id=7, producer_epoch=0, timestamp=0)):
        state = ProducerState()
        state.learn(in_transaction(header(0)), b"", base_offset=100)
        state.learn(read_header(broken), broken, base_offset=102)
        entry = state.get(7)
        assert entry is not None
        assert (entry.transaction_first_offset, entry.coordinator_epoch) == (-1, -1)


def learned(log: Log) -> list[tuple[object, ...]]:
    return [
        (entry.producer_id, entry.epoch, entry.batches, entry.last_timestamp, entry.coordinator_epoch, entry.transaction_first_offset)
        for entry in log.producers
    ]


def test_leader_follower_recovery_and_replay_learn_the_same(open_log: OpenLog) -> None:
    log = open_log()
    first, second, third = (
        encode_batch([b"v"] * 2, attributes=TRANSACTIONAL, producer_id=7, producer_epoch=epoch, base_sequence=sequence, timestamp=NOW_MS)
        for epoch, sequence in ((0, 0), (0, 2), (1, 0))
    )
    for batch in (first, marker(), second, marker(epoch=1, coordinator_epoch=4), third):
        log.append_as_leader(batch, leader_epoch=0, now_ms=NOW_MS, is_own=True)
    by_leader = learned(log)
    assert by_leader == [(7, 1, [(0, 1, 6, 7, NOW_MS)], NOW_MS, 4, 6)]
    stored = read_bytes(log, 0)
    log.truncate_fully_and_start_at(0)
    assert learned(log) == []
    log.append_as_follower(stored, now_ms=NOW_MS)
    assert learned(log) == by_leader
    log.close()
    for snapshot in log.path.glob("*.snapshot"):
        snapshot.unlink()
    assert learned(open_log(is_clean=True)) == by_leader
    assert learned(open_log(is_clean=False)) == by_leader
