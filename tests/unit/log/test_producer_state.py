import pytest

from millstream.errors import InvalidProducerEpoch, OutOfOrderSequenceNumber
from millstream.log.producer_state import FORGOTTEN_AT_ONCE, MAX_PRODUCERS, ProducerState
from millstream.wire.batch import BatchHeader, read_header
from tests.batches import encode_batch


def header(sequence: int, *, count: int = 2, epoch: int = 0, producer: int = 7, timestamp: int = 1000) -> BatchHeader:
    batch = encode_batch([b""] * count, timestamp=timestamp, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)
    return read_header(batch)


def written(*sequences: int, epoch: int = 0) -> ProducerState:
    state = ProducerState()
    for number, sequence in enumerate(sequences):
        state.record(header(sequence, epoch=epoch), base_offset=100 + 2 * number)
    return state


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
    state.record(header(0, epoch=1), base_offset=200)
    with pytest.raises(InvalidProducerEpoch):
        state.check(header(4, epoch=0))
    entry = state.get(7)
    assert entry is not None
    assert (entry.epoch, entry.last_sequence, len(entry.batches)) == (1, 1, 1)


def test_sequences_wrap_around() -> None:
    state = written(2**31 - 3)
    assert state.check(header(2**31 - 1)) is None
    state.record(header(2**31 - 1), base_offset=300)
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
        state.record(first._replace(producer_id=producer), base_offset=2 * producer)
    faithful, in_transaction = 3, 5
    state.record(header(2, producer=faithful), base_offset=2 * MAX_PRODUCERS)
    entry = state.get(in_transaction)
    assert entry is not None
    entry.transaction_first_offset = 10
    for producer in range(MAX_PRODUCERS, 3 * MAX_PRODUCERS):
        state.record(first._replace(producer_id=producer), base_offset=2 * producer + 10)
        assert len(state) <= MAX_PRODUCERS
        if producer == MAX_PRODUCERS:
            assert len(state) == MAX_PRODUCERS - FORGOTTEN_AT_ONCE + 1
            assert (state.get(0), state.get(faithful) is None) == (None, False)
    assert [producer for producer in range(MAX_PRODUCERS) if state.get(producer) is not None] == [in_transaction]
    assert state.check(header(77, producer=0)) is None


def test_snapshot_holds_the_last_batch_of_each_producer() -> None:
    state = written(0, 2, 4)
    state.record(header(9, count=1, producer=8, epoch=3, timestamp=77), base_offset=500)
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
    state.record(header(2**31 - 1), base_offset=10)
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
