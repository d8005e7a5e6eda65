"""Every transition of a transactional id, as Kafka 4.2 decides it; the codes were compared with a real one."""

import pytest

from millstream.errors import InvalidRequest, InvalidTransactionTimeout
from millstream.transaction_errors import (
    ConcurrentTransactions,
    InvalidProducerIdMapping,
    InvalidTxnState,
    ProducerFenced,
    TransactionAbortable,
    TransactionalIdNotFound,
)
from millstream.transactions.commands import AddPartitions, EndTransaction, InitProducerId
from millstream.transactions.shard import MarkerBatch, TransactionOutcome
from millstream.transactions.transaction import LAST_EPOCH, Producer, State
from tests.machines.transaction_script import ID, MINUTE_MS, ONE, TWO, Coordinator, granted


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator()


def test_a_producer_begins_with_a_fresh_id_and_each_next_one_with_the_next_epoch(coordinator: Coordinator) -> None:
    assert coordinator.begin() == Producer(1000, 0)
    assert coordinator.begin() == Producer(1000, 1)
    assert coordinator.state() is State.EMPTY


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_timeout_must_be_possible(coordinator: Coordinator, timeout_ms: int) -> None:
    assert coordinator.code(InitProducerId(ID, timeout_ms)) == InvalidTransactionTimeout.code
    assert coordinator.log == []


def test_an_empty_id_and_unknown_ones_are_refused(coordinator: Coordinator) -> None:
    producer = Producer(1, 0)
    assert coordinator.code(InitProducerId("", 1)) == InvalidRequest.code
    assert coordinator.code(EndTransaction("", producer, is_commit=True)) == InvalidRequest.code
    assert coordinator.add(producer) == InvalidProducerIdMapping.code
    assert coordinator.end(producer, is_commit=True)["error_code"] == InvalidProducerIdMapping.code
    with pytest.raises(TransactionalIdNotFound):
        coordinator.shard.describe(ID)
    with pytest.raises(InvalidRequest):
        coordinator.shard.describe("")


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_transaction_ends_when_all_its_partitions_have_a_marker(coordinator: Coordinator, is_commit: bool) -> None:
    producer = coordinator.begin()
    assert coordinator.add(producer, ONE, version=2) == 0
    assert coordinator.add(producer, TWO, version=2) == 0
    assert coordinator.state() is State.ONGOING
    written = len(coordinator.log)
    assert coordinator.add(producer, ONE, TWO, version=2) == 0
    assert len(coordinator.log) == written  # nothing new
    assert granted(coordinator.end(producer, is_commit=is_commit)) == Producer(1000, 1)
    assert coordinator.state().title == ("PrepareCommit" if is_commit else "PrepareAbort")
    [markers] = coordinator.markers
    assert markers == MarkerBatch(ID, Producer(1000, 1), 0, is_commit, 2, frozenset({ONE, TWO}))
    coordinator.write_markers(ONE)
    assert coordinator.state().title.startswith("Prepare")
    coordinator.write_markers(ONE)
    coordinator.write_markers(TWO)
    assert coordinator.state().title == ("CompleteCommit" if is_commit else "CompleteAbort")
    assert coordinator.transaction.partitions == frozenset()
    coordinator.write_markers(TWO)  # once more


def test_while_a_transaction_is_being_ended_nothing_else_begins(coordinator: Coordinator) -> None:
    producer = coordinator.begin()
    coordinator.add(producer)
    after = granted(coordinator.end(producer, is_commit=True))
    assert coordinator.code(InitProducerId(ID, MINUTE_MS)) == ConcurrentTransactions.code
    assert coordinator.add(after) == ConcurrentTransactions.code
    assert coordinator.verify(after, ONE)["error_code"] == ConcurrentTransactions.code
    assert coordinator.end(producer, is_commit=True)["error_code"] == ConcurrentTransactions.code
    for one in (producer, after):  # it may have begun the next one, and given it up before anything was written
        assert coordinator.end(one, is_commit=False)["error_code"] == ConcurrentTransactions.code
    coordinator.write_markers()
    assert coordinator.end(producer, is_commit=False)["error_code"] == InvalidTxnState.code
    assert coordinator.add(after) == 0


def test_an_end_that_is_repeated_is_recognised_and_never_touches_the_next_transaction(coordinator: Coordinator) -> None:
    first = coordinator.begin()
    coordinator.add(first, version=2)
    second = granted(coordinator.end(first, is_commit=True))
    coordinator.write_markers()
    assert granted(coordinator.end(first, is_commit=True)) == second
    assert coordinator.end(first, is_commit=False)["error_code"] == InvalidTxnState.code
    coordinator.add(second, version=2)
    assert coordinator.end(first, is_commit=True)["error_code"] == ProducerFenced.code
    assert coordinator.state() is State.ONGOING
    third = granted(coordinator.end(second, is_commit=False))
    coordinator.load_again()
    coordinator.write_markers()
    assert granted(coordinator.end(second, is_commit=False)) == third
    assert coordinator.end(second, is_commit=True)["error_code"] == InvalidTxnState.code
    assert coordinator.end(third, is_commit=True)["error_code"] == InvalidTxnState.code


def test_clients_of_version_0_keep_their_epoch(coordinator: Coordinator) -> None:
    producer = coordinator.begin()
    assert coordinator.end(producer, is_commit=False, version=0)["error_code"] == InvalidTxnState.code
    coordinator.add(producer)
    assert granted(coordinator.end(producer, is_commit=True, version=0)) == producer
    assert coordinator.markers[-1].transaction_version == 0
    assert coordinator.end(producer, is_commit=True, version=0)["error_code"] == ConcurrentTransactions.code
    assert coordinator.end(producer, is_commit=False, version=0)["error_code"] == InvalidTxnState.code
    coordinator.write_markers()
    assert coordinator.end(producer, is_commit=True, version=0)["error_code"] == 0
    assert coordinator.end(producer, is_commit=False, version=0)["error_code"] == InvalidTxnState.code
    for epoch in (-1, 1):
        assert coordinator.end(Producer(1000, epoch), is_commit=True, version=0)["error_code"] == ProducerFenced.code
    assert coordinator.end(Producer(1001, 0), is_commit=True, version=0)["error_code"] == InvalidProducerIdMapping.code
    assert coordinator.end(producer, is_commit=True, version=2)["error_code"] == InvalidTxnState.code
    assert granted(coordinator.end(producer, is_commit=False, version=2)) == Producer(1000, 1)


def test_an_abort_of_nothing_brings_the_next_epoch_and_no_marker(coordinator: Coordinator) -> None:
    """A producer that got no answer to what it wrote does not know whether it is in a transaction."""
    producer = coordinator.begin()
    assert coordinator.end(producer, is_commit=True)["error_code"] == InvalidTxnState.code
    after = granted(coordinator.end(producer, is_commit=False))
    assert (after, coordinator.state()) == (Producer(1000, 1), State.COMPLETE_ABORT)
    assert granted(coordinator.end(producer, is_commit=False)) == after
    assert granted(coordinator.end(after, is_commit=False)) == Producer(1000, 2)
    assert coordinator.markers == []


def test_a_producer_that_begins_aborts_the_transaction_of_the_one_before(coordinator: Coordinator) -> None:
    zombie = coordinator.begin()
    coordinator.add(zombie)
    assert coordinator.code(InitProducerId(ID, MINUTE_MS)) == ConcurrentTransactions.code
    assert coordinator.state() is State.PREPARE_ABORT
    assert coordinator.add(zombie) == ConcurrentTransactions.code  # what it is, is said when nothing is under way
    assert coordinator.end(zombie, is_commit=True, version=0)["error_code"] == ProducerFenced.code
    assert coordinator.code(InitProducerId(ID, MINUTE_MS)) == ConcurrentTransactions.code
    coordinator.write_markers()
    assert coordinator.add(zombie) == ProducerFenced.code
    assert coordinator.markers[-1].producer == Producer(1000, 1)
    assert coordinator.begin() == Producer(1000, 2)
    assert coordinator.add(zombie) == ProducerFenced.code
    assert coordinator.end(zombie, is_commit=True)["error_code"] == ProducerFenced.code


def test_a_producer_goes_on_after_an_error_and_may_ask_twice(coordinator: Coordinator) -> None:
    """KIP-360: it says who it was, and gets the next epoch unless another one has come."""
    first = coordinator.begin()
    second = coordinator.begin(first)
    assert second == Producer(1000, 1)
    assert coordinator.begin(first) == second
    assert coordinator.code(InitProducerId(ID, MINUTE_MS, Producer(77, 1))) == ProducerFenced.code
    coordinator.add(second)
    assert coordinator.code(InitProducerId(ID, MINUTE_MS, second)) == ConcurrentTransactions.code
    coordinator.write_markers()
    assert coordinator.begin(second) == Producer(1000, 2)  # the epoch that the abort brought
    coordinator.begin()
    assert coordinator.code(InitProducerId(ID, MINUTE_MS, second)) == ProducerFenced.code


def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced(coordinator: Coordinator) -> None:
    producer = coordinator.begin(timeout_ms=25_000)
    coordinator.pass_time(3_000)
    coordinator.add(producer)
    coordinator.pass_time(20_000)
    coordinator.add(producer, TWO)  # which does not begin it anew
    coordinator.pass_time(6_999)
    assert coordinator.state() is State.ONGOING
    coordinator.pass_time(1)  # looked for every ten seconds
    assert coordinator.state() is State.PREPARE_ABORT
    assert coordinator.markers[-1].producer == Producer(1000, 1)
    coordinator.write_markers()
    assert coordinator.add(producer) == ProducerFenced.code
    assert coordinator.end(producer, is_commit=True)["error_code"] == InvalidTxnState.code
    # A client of version 2 finds itself aborted, and goes on.
    assert granted(coordinator.end(producer, is_commit=False)) == Producer(1000, 1)
    assert coordinator.add(Producer(1000, 1)) == 0


def test_so_many_transactions_are_aborted_at_once_and_the_others_right_after() -> None:
    coordinator = Coordinator(max_aborted_at_once=2)
    for number in range(5):
        producer = granted(coordinator.ask(InitProducerId(f"id-{number}", 1000)))
        coordinator.ask(AddPartitions(f"id-{number}", producer, frozenset({ONE})))
    coordinator.now_ms += 10_000
    for aborted in (2, 4, 5):
        assert coordinator.shard.next_deadline_ms() == coordinator.now_ms
        coordinator.shard.tick(coordinator.now_ms)
        assert sum(transaction.state is State.PREPARE_ABORT for transaction in coordinator.shard) == aborted
    assert coordinator.shard.next_deadline_ms() != coordinator.now_ms


def test_time_counts_on_after_a_restart(coordinator: Coordinator) -> None:
    coordinator.add(coordinator.begin(timeout_ms=MINUTE_MS))
    coordinator.pass_time(MINUTE_MS)
    coordinator.load_again()
    coordinator.pass_time(10_000)
    assert coordinator.state() is State.PREPARE_ABORT


def test_a_transaction_that_ended_is_not_aborted_later(coordinator: Coordinator) -> None:
    producer = coordinator.begin(timeout_ms=15_000)
    coordinator.add(producer, version=2)
    producer = granted(coordinator.end(producer, is_commit=True))
    coordinator.write_markers()
    coordinator.pass_time(10_000)
    coordinator.add(producer, version=2)
    coordinator.pass_time(10_000)
    assert coordinator.state() is State.ONGOING
    coordinator.pass_time(10_000)
    assert coordinator.state() is State.PREPARE_ABORT


def test_markers_are_written_again_by_the_next_coordinator_in_its_epoch(coordinator: Coordinator) -> None:
    producer = coordinator.begin()
    coordinator.add(producer, ONE, TWO)
    coordinator.end(producer, is_commit=True)
    coordinator.write_markers(ONE)
    coordinator.load_again()
    assert coordinator.markers[-1] == coordinator.markers[0]._replace(coordinator_epoch=1)
    coordinator.write_markers()
    assert coordinator.state() is State.COMPLETE_COMMIT


def test_markers_of_another_transaction_do_not_count(coordinator: Coordinator) -> None:
    first = coordinator.begin()
    coordinator.add(first, version=2)
    second = granted(coordinator.end(first, is_commit=True))
    coordinator.write_markers()
    coordinator.add(second, version=2)
    coordinator.end(second, is_commit=True)
    late = coordinator.markers[0]
    outcome = coordinator.shard.markers_written(ID, late.producer, late.partitions, coordinator.now_ms)
    assert (outcome.records, coordinator.state()) == ([], State.PREPARE_COMMIT)
    assert coordinator.shard.markers_written("unknown", late.producer, late.partitions, 0).records == []


def test_a_broker_learns_whether_a_partition_is_in_the_transaction(coordinator: Coordinator) -> None:
    producer = coordinator.begin()
    assert coordinator.verify(producer, ONE)["errors"] == {ONE: TransactionAbortable.code}
    coordinator.add(producer, ONE)
    assert coordinator.verify(producer, ONE, TWO)["errors"] == {ONE: 0, TWO: TransactionAbortable.code}
    assert coordinator.verify(producer._replace(epoch=4), ONE)["error_code"] == ProducerFenced.code
    assert coordinator.verify(producer._replace(producer_id=4), ONE)["error_code"] == InvalidProducerIdMapping.code


def test_an_id_that_no_record_can_hold_is_refused_and_nothing_is_written(coordinator: Coordinator) -> None:
    coordinator.begin()
    for transactional_id in ("x" * 32_768, "é" * 16_384):
        assert coordinator.code(InitProducerId(transactional_id, MINUTE_MS)) == InvalidRequest.code
    assert coordinator.code(InitProducerId("é" * 16_383, MINUTE_MS)) == 0
    assert (len(coordinator.shard), len(coordinator.log)) == (2, 2)


def exhausted(coordinator: Coordinator, epoch: int = LAST_EPOCH) -> Producer:
    """A producer in one of the last epochs of its id."""
    coordinator.begin()
    transaction = coordinator.transaction._replace(epoch=epoch)
    coordinator.shard._write(transaction, TransactionOutcome())
    return transaction.producer


def test_when_the_epochs_are_used_up_the_next_producer_gets_another_id(coordinator: Coordinator) -> None:
    last = exhausted(coordinator)
    assert coordinator.begin() == Producer(1001, 0)
    assert coordinator.code(InitProducerId(ID, MINUTE_MS, last)) == ProducerFenced.code


def test_a_producer_that_goes_on_with_another_id_may_ask_twice(coordinator: Coordinator) -> None:
    last = exhausted(coordinator)
    assert coordinator.begin(last) == coordinator.begin(last) == Producer(1001, 0)


def test_the_end_of_a_transaction_may_use_the_epochs_up(coordinator: Coordinator) -> None:
    last = exhausted(coordinator)
    coordinator.add(last, version=2)
    after = granted(coordinator.end(last, is_commit=True))
    assert after == Producer(1001, 0)
    assert coordinator.markers[-1].producer == Producer(1000, LAST_EPOCH + 1)
    assert coordinator.end(last, is_commit=True)["error_code"] == ConcurrentTransactions.code
    assert coordinator.add(after, version=2) == coordinator.end(after, is_commit=False)["error_code"] == ConcurrentTransactions.code
    assert coordinator.code(InitProducerId(ID, MINUTE_MS, after)) == ConcurrentTransactions.code
    coordinator.load_again()
    coordinator.write_markers()
    assert granted(coordinator.end(last, is_commit=True)) == after
    assert coordinator.end(last, is_commit=False)["error_code"] == InvalidTxnState.code
    assert coordinator.add(after) == 0


def test_a_producer_whose_end_of_a_transaction_used_the_epochs_up_may_ask_for_what_it_was_given(coordinator: Coordinator) -> None:
    """The answer to its EndTxn was lost, and it goes on by KIP-360: fenced it would be by nobody, and for good."""
    last = exhausted(coordinator)
    coordinator.add(last, version=2)
    after = granted(coordinator.end(last, is_commit=True))
    coordinator.write_markers()
    assert coordinator.begin(last) == after == Producer(1001, 0)
    assert coordinator.begin(after) == Producer(1001, 1)
    assert coordinator.code(InitProducerId(ID, MINUTE_MS, last)) == ProducerFenced.code


def test_nobody_goes_on_in_the_epoch_that_fenced_the_last_one(coordinator: Coordinator) -> None:
    last = exhausted(coordinator)
    coordinator.add(last, version=2)
    coordinator.pass_time(2 * MINUTE_MS)
    coordinator.write_markers()
    closed = Producer(1000, LAST_EPOCH + 1)
    assert coordinator.markers[-1].producer == closed
    assert coordinator.end(last, is_commit=False)["error_code"] == ProducerFenced.code
    assert coordinator.add(closed) == coordinator.end(closed, is_commit=False)["error_code"] == ProducerFenced.code
    assert coordinator.begin(last) == Producer(1001, 0)


def test_without_a_producer_id_at_hand_the_client_asks_again(coordinator: Coordinator) -> None:
    outcome = coordinator.shard.handle(InitProducerId(ID, MINUTE_MS), None, coordinator.now_ms)
    assert outcome.replies[0][1]["error_code"] == ConcurrentTransactions.code
    last = exhausted(coordinator)
    coordinator.add(last, version=2)
    outcome = coordinator.shard.handle(EndTransaction(ID, last, is_commit=True, client_version=2), None, coordinator.now_ms)
    assert outcome.replies[0][1]["error_code"] == ConcurrentTransactions.code
    assert outcome.records == []


def test_ids_that_are_not_used_are_forgotten_and_others_are_not() -> None:
    coordinator = Coordinator(transactional_id_expiration_ms=10 * MINUTE_MS, expiration_interval_ms=MINUTE_MS, max_expired_at_once=2)
    for number in range(5):
        coordinator.ask(InitProducerId(f"idle-{number}", MINUTE_MS))
    producer = coordinator.begin(timeout_ms=900_000)
    coordinator.add(producer)
    coordinator.pass_time(9 * MINUTE_MS)
    coordinator.ask(InitProducerId("idle-3", MINUTE_MS))
    assert len(coordinator.shard) == 6
    coordinator.pass_time(MINUTE_MS)
    assert {transaction.transactional_id for transaction in coordinator.shard} == {ID, "idle-3"}
    coordinator.load_again()
    assert {transaction.transactional_id for transaction in coordinator.shard} == {ID, "idle-3"}
    assert coordinator.code(AddPartitions("idle-1", Producer(1001, 0), frozenset({ONE}))) == InvalidProducerIdMapping.code


def test_where_nothing_is_known_nothing_is_due(coordinator: Coordinator) -> None:
    assert coordinator.shard.next_deadline_ms() is None
    assert (coordinator.shard.tick(10**15).records, coordinator.shard.unloaded().replies) == ([], [])
