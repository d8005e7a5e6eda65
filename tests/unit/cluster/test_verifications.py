import pytest

from millstream.cluster import verifications
from millstream.cluster.verifications import Verifications
from millstream.errors import OutOfOrderSequenceNumber
from millstream.log.producer_state import ProducerEntry, WrittenBatch
from millstream.transaction_errors import InvalidTxnState
from millstream.wire.records import ProducerStamp


def known(epoch: int) -> ProducerEntry:
    entry = ProducerEntry(7, epoch)
    entry.batches.append(WrittenBatch(0, 4, 0, 4, 0))
    return entry


def test_a_verification_is_good_until_its_producer_is_forgotten() -> None:
    pending = Verifications()
    producer = ProducerStamp(7, 0, 0)
    verification = pending.begin(producer, None, bumps_epochs=False)
    pending.begin(ProducerStamp(8, 0, 0), None, bumps_epochs=False)
    pending.check(verification, producer, None)
    pending.ended(7, 1, bumps_epochs=False)
    with pytest.raises(InvalidTxnState):
        pending.check(verification, producer, None)
    assert len(pending) == 1
    again = pending.begin(producer, None, bumps_epochs=False)
    pending.check(again, producer, None)
    with pytest.raises(InvalidTxnState):
        pending.check(verification, producer, None)


def test_the_lowest_sequence_of_the_latest_epoch_comes_first() -> None:
    pending = Verifications()
    verification = pending.begin(ProducerStamp(7, 0, 5), None, bumps_epochs=False)
    for sequence in (7, 3, 4):
        assert pending.begin(ProducerStamp(7, 0, sequence), None, bumps_epochs=False) is verification
    with pytest.raises(OutOfOrderSequenceNumber):
        pending.check(verification, ProducerStamp(7, 0, 5), known(0))
    pending.check(verification, ProducerStamp(7, 0, 3), known(0))
    pending.begin(ProducerStamp(7, 1, 9), None, bumps_epochs=False)
    pending.begin(ProducerStamp(7, 0, 1), None, bumps_epochs=False)
    pending.check(verification, ProducerStamp(7, 1, 9), None)


def test_with_epochs_of_their_own_a_producer_that_is_not_known_begins_with_0() -> None:
    pending = Verifications()
    verification = pending.begin(ProducerStamp(7, 1, 5), None, bumps_epochs=True)
    for entry in (None, ProducerEntry(7, 1)):
        with pytest.raises(OutOfOrderSequenceNumber):
            pending.check(verification, ProducerStamp(7, 1, 5), entry)
    pending.check(verification, ProducerStamp(7, 1, 5), known(1))
    pending.check(verification, ProducerStamp(7, 1), None)


def test_only_so_many_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifications, "MAX_REMEMBERED", 2)
    pending = Verifications()
    first, second, third = (pending.begin(ProducerStamp(number, 0, 0), None, bumps_epochs=True) for number in range(3))
    assert len(pending) == 2
    with pytest.raises(InvalidTxnState):
        pending.check(first, ProducerStamp(0, 0, 0), None)
    for number, verification in ((1, second), (2, third)):
        pending.check(verification, ProducerStamp(number, 0, 0), None)


def test_the_marker_of_the_last_transaction_does_not_end_the_question_about_the_next() -> None:
    """With epochs of their own it carries the epoch of the next one."""
    pending = Verifications()
    producer = ProducerStamp(7, 4, 0)
    verification = pending.begin(producer, None, bumps_epochs=True)
    pending.ended(7, 4, bumps_epochs=True)
    pending.check(verification, producer, None)
    pending.ended(7, 5, bumps_epochs=True)
    with pytest.raises(InvalidTxnState):
        pending.check(verification, producer, None)
    for mixed in (True, False):  # a client may add with one version of the protocol, and end with another
        verification = pending.begin(producer, None, bumps_epochs=mixed)
        pending.ended(7, 4, bumps_epochs=not mixed)
        with pytest.raises(InvalidTxnState):
            pending.check(verification, producer, None)
    verification = pending.begin(producer, None, bumps_epochs=False)
    pending.ended(7, 4, bumps_epochs=False)
    with pytest.raises(InvalidTxnState):
        pending.check(verification, producer, None)


def test_what_a_producer_has_written_since_makes_a_question_of_former_times_void() -> None:
    pending = Verifications()
    former = pending.begin(ProducerStamp(7, 0, 3), None, bumps_epochs=False)
    present = pending.begin(ProducerStamp(7, 0, 5), known(0), bumps_epochs=False)
    pending.check(present, ProducerStamp(7, 0, 5), known(0))
    with pytest.raises(InvalidTxnState):
        pending.check(former, ProducerStamp(7, 0, 3), known(0))
    pending.begun(7)
    assert len(pending) == 0
