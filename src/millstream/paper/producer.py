"""The paper's producer: `send(topic, set of messages)`. Sending does not wait; librdkafka gathers messages into batches and delivers them.

    with Producer("localhost:9092") as producer:
        producer.send("clicks", MessageSet([Message(b"test message str")]))
        producer.send("clicks", Message(b"/index.html", key="ann"))
        producer.send("clicks", [b"one", b"two"])

What cannot be delivered is raised by the next `send`, by `flush` or by leaving the `with` block, whichever comes first: `DeliveryFailed`.
When more waits than librdkafka keeps (`queue.buffering.max.messages`), `send` waits for room, so a producer that is faster than its brokers
is slowed down and loses nothing. A producer may be used by many threads. One that is closed takes nothing any more, because nobody would
wait for it.

With a `transactional_id` everything is sent in transactions (`paper.transaction`): `with producer.transaction(): producer.send(...)`.

With `audit="name"` it counts what it sends, for the audit (docs/audit.md): close it, or use `with`, so that its last counts are published.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from math import inf
from operator import length_hint
from time import monotonic, time
from typing import Any, Final, Self

from millstream.address import parse_bootstrap_servers
from millstream.audit.reports.report import ANY_PARTITION
from millstream.audited.sent_counts import Lane
from millstream.audited.settings import Audit
from millstream.client.connect_reason import ConnectReason
from millstream.client.errors import DeliveryFailed
from millstream.errors import MillstreamError, UsageError
from millstream.paper.errors import TransactionAborted
from millstream.paper.librdkafka import (
    RefusedAtOnce,
    Settings,
    await_answer,
    delivery_failure,
    fatal_failure,
    is_out_of_turn,
    is_purged,
    is_unknown_partition,
    open_producer,
    raising_plainly,
    send_failure,
)
from millstream.paper.message import Message, Payload, Sendable, as_messages
from millstream.paper.producer_audit import ProducerAudit
from millstream.paper.transaction import DEFAULT_TIMEOUT_S, ID_OPTION, Transaction, Transactions

_POLL_EVERY_S: Final = 0.1
_ROOM_S: Final = 0.1
CONNECT_TIMEOUT_S: Final = 10.0
FLUSH_TIMEOUT_S: Final = 60.0
_MOST_COUNTED: Final = 1_000
"""So many messages are counted at a time."""


class Producer:
    """Sends messages to the brokers of a cluster; `options` are librdkafka's own, by their names."""

    def __init__(
        self,
        brokers: str,
        *,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        transactional_id: str | None = None,
        transaction_timeout_s: float = DEFAULT_TIMEOUT_S,
        audit: Audit | None = None,
        options: Settings | None = None,
    ) -> None:
        parse_bootstrap_servers(brokers)
        options = options or {}
        self._transactions = None
        if ID_OPTION in options:
            raise UsageError(f"{ID_OPTION} is no option here, because a producer does more for it: give transactional_id=")
        if transactional_id is not None:
            self._transactions = Transactions(transactional_id, transaction_timeout_s, brokers, options)
            options = {**self._transactions.settings, **options}
        self._options = options
        self._first_failure: DeliveryFailed | None = None
        self._failures = 0
        self._polled_at = monotonic()
        self._is_closed = False
        self._audit = None if audit is None else ProducerAudit(audit, brokers, options)
        self._brokers = brokers
        reason = ConnectReason()
        self._client = self._open_client(reason)
        await_answer(self._client, brokers, reason, timeout_s=connect_timeout_s)
        if self._transactions is not None:
            self._transactions.start(self._client)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self._take_no_more()
            # What was sent still goes out, but an error of the block is more than one of the delivery.
            with suppress(MillstreamError):
                self._serve(self._client.flush, FLUSH_TIMEOUT_S)
            self._close_audit()

    def send(self, topic: str, messages: Sendable) -> None:
        """Send one message, a payload, or several of either."""
        if self._failures or monotonic() - self._polled_at > _POLL_EVERY_S:
            self._poll()
        if (audit := self._audit) is not None:
            self._send_audited(audit, topic, messages)
            return
        produce = self._client.produce
        for message in as_messages(messages):
            try:
                if type(message) is bytes:
                    produce(topic, message)
                elif type(message) is Message and message.extras is None:
                    produce(topic, message.payload, message.key)
                else:
                    self._produce(topic, message)
            except BufferError:
                self._wait_for_room(topic, message)
            except RefusedAtOnce as error:
                raise self._refusal(error, topic, message) from error

    def transaction(self) -> Transaction:
        """A transaction, for `with`: what is sent in the block is committed at its end, and aborted if there is an exception.

        It is the transaction of the whole producer: what other threads send meanwhile is part of it.
        """
        if self._transactions is None:
            raise UsageError("this producer has no transactions: make it with transactional_id='a name that stays the same'")
        self._check_not_closed()
        return Transaction(self._transactions, self)

    def take_failure(self) -> DeliveryFailed | None:
        """What is known not to have been written and was not raised yet."""
        failure, count = self._first_failure, self._failures
        self._first_failure, self._failures = None, 0
        if failure is None or count == 1:
            return failure
        return DeliveryFailed(f"{count} messages were not written, the first because: {failure}")

    def renew_client(self) -> None:
        """Go on with another client of librdkafka (`Transactions` says when)."""
        assert self._transactions is not None
        self._client = self._open_client(ConnectReason())
        self._transactions.start(self._client)

    def transaction_begun(self) -> None:
        """What is sent from now on is counted when it is committed (`Transaction` says so)."""
        if self._audit is not None:
            self._audit.counts.hold()

    def transaction_ended(self, *, is_committed: bool | None) -> None:
        """What became of what was sent; None if that is not known. What was aborted is not to be delivered any more."""
        self._first_failure, self._failures = None, 0
        if self._audit is not None and is_committed is not None:
            self._audit.counts.release(is_committed=is_committed)

    def flush(self, timeout_s: float = FLUSH_TIMEOUT_S) -> None:
        """Wait until everything sent has been written; `DeliveryFailed` for what was not, or not within the time."""
        left = self._serve(self._client.flush, timeout_s)
        if self._audit is not None:
            # Now it is known what has become of the messages; a queue that is never empty later would say so only after a while.
            self._audit.counts.settle()
        self._raise_failure()
        if left:
            raise DeliveryFailed(
                f"{left} messages were not written within {timeout_s:g} s; they are still being tried: are the brokers up?"
            )

    def close(self) -> None:
        """Flush, and publish the last counts of the audit; a producer needs no other end. Nothing can be sent from then on."""
        self._take_no_more()
        try:
            self.flush()
        finally:
            self._close_audit()

    def _open_client(self, reason: ConnectReason) -> Any:
        on_statistics = None if self._audit is None else self._audit.note_statistics
        client = open_producer(
            self._brokers, self._options, on_failure=self._note_failure, on_statistics=on_statistics, on_error=reason.note
        )
        if self._audit is not None:
            self._audit.follow(client)
        return client

    def _close_audit(self) -> None:
        if self._audit is not None:
            self._audit.close()

    def _produce(self, topic: str, message: Message | Payload) -> None:
        if not isinstance(message, Message):
            message = Message(message)
        self._client.produce(topic, message.payload, message.key, **(message.extras or {}))

    def _send_audited(self, audit: ProducerAudit, topic: str, messages: Sendable) -> None:
        """Send and count: what librdkafka may stamp all at once, from the first on that it may not, or that does not fit, one by one."""
        lane = audit.begin(topic)
        if type(messages) is bytes and lane is not None:
            try:
                self._client.produce(topic, messages, None, lane[0][2])
            except (BufferError, RefusedAtOnce):
                self._send_counted(audit, topic, [messages])
            else:
                audit.add_unstamped(lane, 1, len(messages))
            return
        left = messages if type(messages) is list else as_messages(messages)
        while lane is not None and type(left) is list and left:
            part = left if len(left) <= _MOST_COUNTED else left[:_MOST_COUNTED]
            count = (
                self._send_payloads(audit, topic, lane, part) if type(part[0]) is bytes else self._send_messages(audit, topic, lane, part)
            )
            if count == len(left):
                return
            left = left[count:]
            lane = audit.begin(topic) if count == len(part) else None
        self._send_counted(audit, topic, left)

    def _send_payloads(self, audit: ProducerAudit, topic: str, lane: Lane, payloads: "list[Message | Payload]") -> int:
        """Send payloads to one partition, up to the first that is none or does not fit; returns how many."""
        produce, partition = self._client.produce, lane[0][2]
        left = iter(payloads)
        is_whole = False
        try:
            for payload in left:
                if type(payload) is not bytes:
                    break
                produce(topic, payload, None, partition)
            else:
                is_whole = True
        except (BufferError, RefusedAtOnce):
            pass
        finally:
            # The one that was taken last was not sent.
            sent = payloads if is_whole else payloads[: len(payloads) - length_hint(left) - 1]
            audit.add_unstamped(lane, len(sent), sum(map(len, sent)))  # type: ignore[arg-type]
        return len(sent)

    def _send_messages(self, audit: ProducerAudit, topic: str, lane: Lane, messages: "list[Message | Payload]") -> int:
        """Send messages to the partitions of their keys, up to the first that has a time or headers, or does not fit; returns how many."""
        produce, keyless = self._client.produce, lane[0][2]
        partitions = audit.partitions.for_keys(topic)
        placed: list[int] = []
        place = placed.append
        size = 0
        try:
            for message in messages:
                if type(message) is not Message or message.extras is not None:
                    break
                payload = message.payload
                if (key := message.key) is None:
                    partition = keyless
                else:
                    partition = partitions[key]
                    size += len(key)
                produce(topic, payload, key, partition)
                place(partition)
                if payload is not None:
                    size += len(payload)
        except (BufferError, RefusedAtOnce):
            pass
        finally:
            audit.counts.add_placed(lane, placed, size)
        return len(placed)

    def _send_counted(self, audit: ProducerAudit, topic: str, messages: Iterable[Message | Payload]) -> None:
        """Stamp, place, send and count messages one by one."""
        for message in messages:
            audit.begin(topic)
            one = message if isinstance(message, Message) else Message(message)
            # 0 is the time of sending for librdkafka as well.
            timestamp_ms = one.timestamp_ms or int(time() * 1000)
            partition = audit.partitions.for_message(topic, one.key)
            try:
                self._send_placed(topic, one, timestamp_ms, partition)
            except RefusedAtOnce as error:
                if partition == ANY_PARTITION or not is_unknown_partition(error):
                    raise self._refusal(error, topic, message) from error
                audit.partitions.forget(topic)
                partition = ANY_PARTITION
                self._send_placed(topic, one, timestamp_ms, partition)
            audit.add(topic, one, timestamp_ms=timestamp_ms, partition=partition)

    def _send_placed(self, topic: str, message: Message, timestamp_ms: int, partition: int) -> None:
        """Send a message with its time to its partition; waits for room."""
        placed = Message(message.payload, message.key, headers=message.headers or None, timestamp=timestamp_ms)
        assert placed.extras is not None
        placed.extras["on_delivery"] = partial(self._note_failure, timestamp_ms=timestamp_ms, partition=partition)
        placed.extras["partition"] = partition
        try:
            self._produce(topic, placed)
        except BufferError:
            self._wait_for_room(topic, placed)

    def _wait_for_room(self, topic: str, message: Message | Payload) -> None:
        while True:
            self._serve(self._client.poll, _ROOM_S)
            self._raise_failure()
            try:
                self._produce(topic, message)
            except BufferError:
                continue
            return

    def _refusal(self, error: RefusedAtOnce, topic: str, message: Message | Payload) -> MillstreamError:
        """Why a message was not even queued."""
        if self._transactions is not None:
            self._transactions.check_usable()
            if is_out_of_turn(error) and not self._transactions.is_open:
                return UsageError("this producer has a transactional_id: send inside of `with producer.transaction():`")
            if is_out_of_turn(error):
                # librdkafka knows that the transaction has failed, and takes no more.
                return self.take_failure() or TransactionAborted("something in this transaction failed, so it is aborted: begin it again")
        return send_failure(error, topic, message, self._options)

    def _take_no_more(self) -> None:
        self._is_closed = True
        # So that every `send` looks, and none has to ask.
        self._polled_at = -inf

    def _check_not_closed(self) -> None:
        if self._is_closed:
            raise UsageError("this producer is closed: send before close(), or inside of its `with` block, or make a new one")

    def _poll(self) -> None:
        self._check_not_closed()
        self._polled_at = monotonic()
        self._serve(self._client.poll, 0)
        self._raise_failure()

    def _serve(self, call: Callable[[float], int], timeout_s: float) -> int:
        """Let librdkafka call back; an error after which the producer cannot go on is raised by it."""
        try:
            with raising_plainly():
                return call(timeout_s)
        except RefusedAtOnce as error:
            if self._transactions is None:
                raise fatal_failure(error) from error
            raise self._transactions.failure(error, "sending in a transaction") from error

    def _raise_failure(self) -> None:
        if (failure := self.take_failure()) is not None:
            raise failure

    def _note_failure(self, error: Any, message: Any, timestamp_ms: int | None = None, partition: int | None = None) -> None:
        if error is not None and not is_purged(error):
            self._failures += 1
            if self._transactions is not None:
                self._transactions.needs_new_client = True
            self._first_failure = self._first_failure or delivery_failure(error, message)
            if self._audit is not None:
                self._audit.note_failure(message, timestamp_ms, partition)
