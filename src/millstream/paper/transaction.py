"""Transactions of a producer: what is sent in one, to any number of partitions, becomes visible to readers of committed data all together,
or never.

    with Producer("localhost:9092", transactional_id="copier-1") as producer:
        with producer.transaction() as transaction:
            producer.send("totals", b"...")
            transaction.send_offsets(consumer)        # where to go on reading is part of it

Leaving the block commits; an exception in it aborts, and is raised. The transactional id stands for one producer at a time: making another
with it ends what the first left open, and fences the first (`ProducerFenced`). A transaction that is open for longer than the time-out is
aborted by the broker.

After a commit that was not answered (`TransactionInDoubt`), or once fenced, the producer cannot be used any more: every call says so.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from math import inf
from numbers import Integral
from time import monotonic, sleep
from typing import Any, Final, Protocol, Self

from millstream.client.errors import BrokerUnavailable, DeliveryFailed
from millstream.errors import MillstreamError, UsageError
from millstream.paper.errors import TransactionAborted, TransactionInDoubt
from millstream.paper.librdkafka import (
    RefusedAtOnce,
    Settings,
    group_metadata,
    handed_out,
    named_group_metadata,
    positions,
    raising_plainly,
    transaction_failure,
)
from millstream.paper.settings import Setting

_log = logging.getLogger(__name__)

DEFAULT_TIMEOUT_S: Final = 60.0
_INIT_S: Final = 60.0
"""The coordinator may have to end a transaction of the last producer first, or to load."""
_PAUSE_S: Final = 0.05
_GRACE_S: Final = 1.0
"""For a call of librdkafka to return after its time."""
_MILLISECONDS: Final = 1000
ID_OPTION: Final = "transactional.id"

Offsets = Mapping[tuple[str, int], int] | Iterable[Any]
"""The next offset to read of topics and partitions; or librdkafka's own `TopicPartition`s."""


class Sender(Protocol):
    """What a transaction asks of its producer."""

    def take_failure(self) -> DeliveryFailed | None:
        """Which messages were not written, if there are any."""

    def renew_client(self) -> None:
        """Go on with a client that knows nothing of what was refused."""

    def transaction_begun(self) -> None:
        """What is sent from now on belongs to a transaction."""

    def transaction_ended(self, *, is_committed: bool | None) -> None:
        """It was committed, or aborted; None if that is not known."""


class Transactions:
    """The transactions of one producer, one after the other."""

    def __init__(self, transactional_id: str, timeout_s: float, brokers: str, options: Settings) -> None:
        if not transactional_id:
            raise UsageError(f"transactional_id={transactional_id!r}: give a name that stays the same when the program is started again")
        if not 0 < timeout_s < inf:
            raise UsageError(f"transaction_timeout_s={timeout_s!r}: give a number of seconds above 0")
        self.transactional_id = transactional_id
        self.timeout_s = timeout_s
        self._brokers = brokers
        self._options = options
        self._client: Any = None
        self._open: Transaction | None = None
        self._over: MillstreamError | None = None
        self._groups: dict[str, bytes] = {}
        self.needs_new_client = False
        """Whether a message was refused, or an abort not answered. After the first, librdkafka (2.16) goes on with a sequence number that
        the brokers do not expect, so that its next transaction would be aborted, too; after the second it lets none begin."""

    @property
    def settings(self) -> dict[str, Setting]:
        """What librdkafka is to know."""
        timeout_ms = max(round(self.timeout_s * _MILLISECONDS), 1)
        return {
            ID_OPTION: self.transactional_id,
            "transaction.timeout.ms": timeout_ms,
            # A message that is given up later than its transaction would keep it from ending.
            "message.timeout.ms": timeout_ms,
            # When all brokers are away, librdkafka (2.16) begins anew with the addresses that it was given first, and a transactional
            # producer then waits for ever for a coordinator that it forgot (confluentinc/librdkafka#5511).
            "metadata.recovery.strategy": "none",
        }

    def start(self, client: Any) -> None:
        """Get a producer id: ends what the last producer with this transactional id left open, and fences it."""
        self._client = client
        self.needs_new_client = True  # unless it gets one, it cannot begin a transaction
        if not self._attempt("starting transactions", client.init_transactions, _INIT_S):
            raise BrokerUnavailable(
                f"no coordinator for the transactions of {self.transactional_id!r} answered within {_INIT_S:g} s; are all brokers up?"
            )
        self.needs_new_client = False

    def begin(self, transaction: "Transaction") -> None:
        """Begin a transaction."""
        self.check_usable()
        if self._open is not None:
            raise UsageError("a transaction of this producer is open: end it first; a second one at once needs a producer of its own")
        if self.needs_new_client:
            transaction.sender.renew_client()
        self._attempt("beginning a transaction", lambda _: self._client.begin_transaction(), 0)
        self._open = transaction

    @property
    def is_open(self) -> bool:
        """Whether a transaction is under way, as far as the program knows."""
        return self._open is not None

    def check_usable(self) -> None:
        """Raise if nothing can be done with the producer any more."""
        if self._over is not None:
            raise type(self._over)(str(self._over))

    def check_open(self, transaction: "Transaction") -> None:
        """Raise if this is not the transaction that is open."""
        if self._open is not transaction:
            raise UsageError("this transaction is not open: use it inside of its `with` block")

    def commit(self) -> None:
        """Commit what is open; `TransactionAborted` if it can only be aborted."""
        try:
            is_answered = self._attempt("committing a transaction", self._client.commit_transaction, self.timeout_s)
        except MillstreamError:
            raise
        except BaseException:
            # Ctrl-C: librdkafka had sent the commit by then.
            self._over = self._doubt("was interrupted")
            raise
        if not is_answered:
            self._over = self._doubt(f"was not answered within {self.timeout_s:g} s")
            raise self._over
        self._open = None

    def _doubt(self, why: str) -> TransactionInDoubt:
        return TransactionInDoubt(
            f"the commit of a transaction of {self.transactional_id!r} {why}, so it may have happened or not. Make a new producer with this"
            " transactional_id: it waits for the end of this one. Then look"
        )

    def abort(self) -> None:
        """Abort what is open. Where that fails the broker does it, when the time-out is over."""
        self._open = None
        if self._over is not None:
            return
        try:
            if not self._attempt("aborting a transaction", self._client.abort_transaction, self.timeout_s):
                self.needs_new_client = True
                _log.warning("aborting a transaction of %r was not answered; the brokers do it by themselves", self.transactional_id)
        except MillstreamError as error:
            self.needs_new_client = True
            _log.warning("%s; the brokers end the transaction by themselves", error)
        except BaseException:
            self.needs_new_client = True
            raise

    def send_offsets(self, consumer: Any, offsets: Offsets | None) -> None:
        """Add the offsets of a group to what is open."""
        places = _positions(consumer, offsets)
        if not places:
            return
        metadata = self._group(consumer) if isinstance(consumer, str) else group_metadata(consumer)
        doing = "sending offsets to a transaction"
        send = self._client.send_offsets_to_transaction
        if not self._returning(lambda: self._attempt(doing, lambda left_s: send(places, metadata, left_s), self.timeout_s)):
            raise BrokerUnavailable(
                f"{doing}: the coordinator of the group did not answer within {self.timeout_s:g} s; are all brokers up?"
            )

    def _group(self, name: str) -> bytes:
        if name not in self._groups:
            own = {"transaction.timeout.ms", "message.timeout.ms"}
            options = {option: value for option, value in self._options.items() if option not in own}
            self._groups[name] = named_group_metadata(self._brokers, name, options)
        return self._groups[name]

    def _returning(self, work: Callable[[], bool]) -> bool:
        """Do it in a thread that can be left behind: librdkafka (2.16) may never return from sending offsets when the broker that
        coordinated the group is gone (confluentinc/librdkafka#5511). Then the producer is over."""
        outcome: Future[bool] = Future()

        def run() -> None:
            try:
                outcome.set_result(work())
            except BaseException as error:  # noqa: BLE001 - it is raised again, in the thread that waits
                outcome.set_exception(error)

        threading.Thread(target=run, name=f"offsets-{self.transactional_id}", daemon=True).start()
        try:
            return outcome.result(self.timeout_s + _GRACE_S)
        except TimeoutError:
            self._over = BrokerUnavailable(
                f"librdkafka did not return from sending offsets in a transaction of {self.transactional_id!r}: is a broker away? Nothing"
                " of the transaction is visible, nor will be; make a new producer with this transactional_id"
            )
            raise self._over from None

    def _attempt(self, doing: str, call: Callable[[float], None], timeout_s: float) -> bool:
        """Call librdkafka, again while it says that this may help; False when the time is up."""
        self.check_usable()
        until = monotonic() + timeout_s
        while True:
            try:
                with raising_plainly():
                    call(max(until - monotonic(), 0.1))
            except RefusedAtOnce as error:
                if not error.args[0].retriable():
                    raise self.failure(error, doing) from error
                if monotonic() >= until:
                    return False
                sleep(_PAUSE_S)
            else:
                return True

    def failure(self, error: RefusedAtOnce, doing: str) -> MillstreamError:
        """Why a call failed; from an error that is fatal on nothing else is said."""
        failure = transaction_failure(error, doing, self.transactional_id)
        if error.args[0].fatal():
            self._over = failure
        return failure


class Transaction:
    """One transaction: a context manager, used once."""

    def __init__(self, transactions: Transactions, sender: Sender) -> None:
        self._transactions = transactions
        self.sender = sender
        self._is_used = False

    def __enter__(self) -> Self:
        if self._is_used:
            raise UsageError("a transaction is used once: call producer.transaction() for each")
        self._transactions.begin(self)
        self._is_used = True
        self.sender.transaction_begun()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if kind is None:
            self._commit()
            return
        self._abort()
        if isinstance(error, DeliveryFailed):
            # That the producer was fenced says more than which message was refused for it.
            self._transactions.check_usable()

    def send_offsets(self, consumer: Any, offsets: Offsets | None = None) -> None:
        """Commit offsets of a group with this transaction: where it goes on reading, if and when this is committed.

        `consumer` is a consumer of confluent-kafka, whose generation is checked as well, or the name of a group; `offsets` are the next to
        read, {(topic, partition): offset}: without them, those after what the consumer handed out last.
        """
        self._transactions.check_open(self)
        if not isinstance(consumer, str) and not hasattr(consumer, "consumer_group_metadata"):
            raise UsageError(
                f"{type(consumer).__name__} is no consumer of confluent-kafka, nor the name of a group. Only offsets that Kafka's groups"
                " keep can be part of a transaction; those of the paper's consumer are in ZooKeeper"
            )
        self._transactions.send_offsets(consumer, offsets)

    def _commit(self) -> None:
        try:
            self._transactions.commit()
        except TransactionAborted:
            failure = self.sender.take_failure()
            self._abort()
            if failure is not None:
                # Which message was refused says more than that one was.
                raise failure from None
            raise
        except BaseException:
            self.sender.transaction_ended(is_committed=None)
            raise
        self.sender.transaction_ended(is_committed=True)

    def _abort(self) -> None:
        try:
            self._transactions.abort()
        finally:
            self.sender.transaction_ended(is_committed=False)


def _positions(consumer: Any, offsets: Offsets | None) -> list[Any]:
    """The offsets as librdkafka takes them."""
    if consumer == "":
        raise UsageError("which group? Its name is empty")
    if offsets is None:
        if isinstance(consumer, str):
            raise UsageError(f"which offsets of the group {consumer!r}? Give them: {{(topic, partition): next offset}}")
        return handed_out(consumer)
    if not isinstance(offsets, Mapping):
        places = list(offsets)
        for place in places:
            if not hasattr(place, "offset"):
                raise UsageError(
                    f"offsets are {{(topic, partition): next offset}}, or TopicPartitions of confluent-kafka, and not {place!r}"
                )
        return places
    for place, offset in offsets.items():
        if not (isinstance(place, tuple) and len(place) == 2 and isinstance(offset, Integral)):
            raise UsageError(
                f"offsets are {{(topic, partition): next offset}}, as in {{('orders', 0): 17}}, and not {{{place!r}: {offset!r}}}"
            )
        topic, partition = place
        if offset < 0:
            # librdkafka would leave it out, and commit the rest.
            raise UsageError(f"the next offset to read of {topic}-{partition} cannot be {offset}: give 0 or more")
    return [position for (topic, partition), offset in offsets.items() for position in positions(topic, [(partition, offset)])]
