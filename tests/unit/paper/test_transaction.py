"""What a transaction does when librdkafka does not answer, with a client that does as a test says; real ones are in `tests/clients`."""

import logging
import threading
from collections.abc import Callable
from math import inf, nan
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from millstream.client.errors import BrokerUnavailable, ClientError, DeliveryFailed
from millstream.errors import UsageError
from millstream.paper import transaction
from millstream.paper.errors import TransactionAborted, TransactionInDoubt
from millstream.paper.transaction import Transaction, Transactions
from millstream.transaction_errors import ProducerFenced


class Client:
    """Remembers what was called; `refusals` are raised first, by the name of the call."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.refusals: dict[str, list[KafkaError]] = {}

    def __getattr__(self, name: str) -> Callable[..., None]:
        def call(*_: Any) -> None:
            self.calls.append(name)
            if refusals := self.refusals.get(name):
                raise KafkaException(refusals[0] if len(refusals) == 1 else refusals.pop(0))

        return call


class Sender:
    """A producer that says what it was told."""

    def __init__(self) -> None:
        self.ends: list[bool | None] = []
        self.renewals = 0
        self.failure: DeliveryFailed | None = None

    def take_failure(self) -> DeliveryFailed | None:
        return self.failure

    def renew_client(self) -> None:
        self.renewals += 1

    def transaction_begun(self) -> None:
        pass

    def transaction_ended(self, *, is_committed: bool | None) -> None:
        self.ends.append(is_committed)


NOT_ANSWERED = KafkaError(KafkaError._TIMED_OUT, "timed out", retriable=True)
FENCED = KafkaError(KafkaError._FENCED, "fenced", fatal=True)
ABORTABLE = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, "unknown", txn_requires_abort=True)


@pytest.fixture
def client() -> Client:
    return Client()


@pytest.fixture
def sender() -> Sender:
    return Sender()


@pytest.fixture
def transactions(client: Client, monkeypatch: pytest.MonkeyPatch) -> Transactions:
    now = 0.0

    def sleep(_: float) -> None:
        nonlocal now
        now += 10

    monkeypatch.setattr(transaction, "monotonic", lambda: now)
    monkeypatch.setattr(transaction, "sleep", sleep)
    made = Transactions("copier", 30, "127.0.0.1:1", {})
    made.start(client)
    return made


def test_a_commit_that_is_not_answered_is_asked_for_again(client: Client, sender: Sender, transactions: Transactions) -> None:
    client.refusals["commit_transaction"] = [NOT_ANSWERED, NOT_ANSWERED, ABORTABLE]
    with pytest.raises(TransactionAborted, match="begin it again"), Transaction(transactions, sender):
        pass
    assert client.calls.count("commit_transaction") == 3
    assert client.calls[-1] == "abort_transaction"
    assert sender.ends == [False]


def test_a_commit_without_any_answer_leaves_a_doubt_and_the_producer_is_over(
    client: Client, sender: Sender, transactions: Transactions
) -> None:
    client.refusals["commit_transaction"] = [NOT_ANSWERED]
    with pytest.raises(TransactionInDoubt, match="may have happened or not"), Transaction(transactions, sender):
        pass
    assert sender.ends == [None]
    assert "abort_transaction" not in client.calls
    with pytest.raises(TransactionInDoubt), Transaction(transactions, sender):
        pass


def test_a_producer_that_is_fenced_at_the_commit_does_not_abort(client: Client, sender: Sender, transactions: Transactions) -> None:
    client.refusals["commit_transaction"] = [FENCED]
    with pytest.raises(ProducerFenced, match="another producer with transactional_id='copier'"), Transaction(transactions, sender):
        pass
    assert sender.ends == [None]
    assert "abort_transaction" not in client.calls


def test_an_exception_is_raised_even_if_the_abort_fails(
    client: Client, sender: Sender, transactions: Transactions, caplog: pytest.LogCaptureFixture
) -> None:
    client.refusals["abort_transaction"] = [NOT_ANSWERED]
    with caplog.at_level(logging.WARNING), pytest.raises(KeyError), Transaction(transactions, sender):
        raise KeyError("own")
    assert "the brokers do it by themselves" in caplog.text
    assert sender.ends == [False]
    with Transaction(transactions, sender):
        assert sender.renewals == 1


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_commit_that_is_interrupted_leaves_a_doubt(
    client: Client, sender: Sender, transactions: Transactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "commit_transaction", interrupt, raising=False)
    with pytest.raises(KeyboardInterrupt), Transaction(transactions, sender):
        pass
    assert sender.ends == [None]
    with pytest.raises(TransactionInDoubt, match="was interrupted, so it may have happened or not"), Transaction(transactions, sender):
        pass


def test_an_abort_that_is_interrupted_is_one_and_the_next_transaction_has_a_new_client(
    client: Client, sender: Sender, transactions: Transactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "abort_transaction", interrupt, raising=False)
    with pytest.raises(KeyboardInterrupt), Transaction(transactions, sender):
        raise KeyError("own")
    assert sender.ends == [False]
    with Transaction(transactions, sender):
        assert sender.renewals == 1


def test_a_new_client_that_finds_no_coordinator_is_not_the_last(
    client: Client, sender: Sender, transactions: Transactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "renew_client", lambda: transactions.start(client))
    transactions.needs_new_client = True
    client.refusals["init_transactions"] = [NOT_ANSWERED]
    with pytest.raises(BrokerUnavailable), Transaction(transactions, sender):
        pass
    client.refusals.clear()
    before = client.calls.count("init_transactions")
    with Transaction(transactions, sender):
        pass
    assert client.calls.count("init_transactions") == before + 1


def test_what_was_not_delivered_aborts(client: Client, sender: Sender, transactions: Transactions) -> None:
    client.refusals["commit_transaction"] = [ABORTABLE]
    sender.failure = DeliveryFailed("too large")
    with pytest.raises(DeliveryFailed, match="too large"), Transaction(transactions, sender):
        pass
    assert client.calls[-1] == "abort_transaction"
    assert sender.ends == [False]


def test_after_a_refused_message_the_next_transaction_has_a_new_client(client: Client, sender: Sender, transactions: Transactions) -> None:
    transactions.needs_new_client = True
    with Transaction(transactions, sender):
        assert sender.renewals == 1
    transactions.start(client)
    with Transaction(transactions, sender):
        assert sender.renewals == 1


def test_a_refused_message_of_a_fenced_producer_says_that_it_is_fenced(client: Client, sender: Sender, transactions: Transactions) -> None:
    client.refusals["abort_transaction"] = [FENCED]
    with pytest.raises(ProducerFenced), Transaction(transactions, sender):
        raise DeliveryFailed("refused")


def test_no_coordinator_is_an_error_that_says_so(client: Client, transactions: Transactions) -> None:
    client.refusals["init_transactions"] = [NOT_ANSWERED]
    with pytest.raises(BrokerUnavailable, match="no coordinator for the transactions of 'copier'"):
        transactions.start(client)


def test_offsets_that_no_coordinator_takes_are_an_error(client: Client, sender: Sender, transactions: Transactions) -> None:
    client.refusals["send_offsets_to_transaction"] = [NOT_ANSWERED]
    with pytest.raises(BrokerUnavailable, match="coordinator of the group did not answer"), Transaction(transactions, sender) as open_one:
        open_one.send_offsets(GroupConsumer(), [TopicPartition("in", 0, 4)])
    assert client.calls[-1] == "abort_transaction"


class GroupConsumer:
    """Of confluent-kafka, as far as offsets need it."""

    def consumer_group_metadata(self) -> bytes:
        return b""


def test_offsets_that_librdkafka_never_comes_back_from_end_the_producer(
    client: Client, sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    comes_back = threading.Event()
    monkeypatch.setattr(transaction, "_GRACE_S", 0)
    monkeypatch.setattr(client, "send_offsets_to_transaction", lambda *_: comes_back.wait(60), raising=False)
    transactions = Transactions("copier", 0.01, "127.0.0.1:1", {})
    transactions.start(client)
    with pytest.raises(BrokerUnavailable, match="did not return from sending offsets"), Transaction(transactions, sender) as open_one:
        open_one.send_offsets(GroupConsumer(), [TopicPartition("in", 0, 4)])
    comes_back.set()
    assert "abort_transaction" not in client.calls
    with pytest.raises(BrokerUnavailable, match="make a new producer"), Transaction(transactions, sender):
        pass


@pytest.mark.parametrize(("transactional_id", "timeout_s"), [("", 60), ("copier", 0), ("copier", inf), ("copier", nan)])
def test_settings_that_cannot_be_are_refused(transactional_id: str, timeout_s: float) -> None:
    with pytest.raises(UsageError, match=r"transactional_id=''|transaction_timeout_s=(0|inf|nan)"):
        Transactions(transactional_id, timeout_s, "127.0.0.1:1", {})


@pytest.mark.parametrize("offsets", [{"orders": 3}, {("orders", 0, 1): 3}, {("orders", 0): "3"}, {("orders", 0): None}])
def test_offsets_of_another_form_are_refused_with_the_right_one(transactions: Transactions, sender: Sender, offsets: Any) -> None:
    with (
        pytest.raises(UsageError, match=r"offsets are {\(topic, partition\): next offset}, as in {\('orders', 0\): 17}"),
        Transaction(transactions, sender) as open_one,
    ):
        open_one.send_offsets("group", offsets)


def test_a_list_of_what_are_no_offsets_is_refused(transactions: Transactions, sender: Sender) -> None:
    with (
        pytest.raises(UsageError, match=r"or TopicPartitions of confluent-kafka, and not 17"),
        Transaction(transactions, sender) as open_one,
    ):
        open_one.send_offsets("group", [17])


def test_nothing_to_send_is_no_request(client: Client, sender: Sender, transactions: Transactions) -> None:
    with Transaction(transactions, sender) as open_one:
        open_one.send_offsets("group", {})
    assert client.calls == ["init_transactions", "begin_transaction", "commit_transaction"]


@pytest.mark.parametrize(
    ("code", "kind", "hint"),
    [
        (KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ClientError, "do not give this client transactions"),
        (KafkaError._UNSUPPORTED_FEATURE, ClientError, "do not give this client transactions"),
        (KafkaError.INVALID_TRANSACTION_TIMEOUT, UsageError, "transaction.max.timeout.ms"),
        (KafkaError.PRODUCER_FENCED, ProducerFenced, "another producer with transactional_id='copier'"),
        (KafkaError.INVALID_PRODUCER_EPOCH, ProducerFenced, "somebody did with `millstream txn abort`"),
        (KafkaError.INVALID_PRODUCER_EPOCH, ProducerFenced, "Make a new one if no other is at work"),
        (KafkaError.UNKNOWN, ClientError, "starting transactions: why"),
    ],
)
def test_what_the_brokers_refuse_is_said_plainly(client: Client, code: int, kind: type[Exception], hint: str) -> None:
    client.refusals["init_transactions"] = [KafkaError(code, "why")]
    with pytest.raises(kind) as refused:
        Transactions("copier", 30, "127.0.0.1:1", {}).start(client)
    assert hint in str(refused.value)
