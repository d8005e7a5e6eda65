"""The audit for programs that use aiokafka: wrap the producer or consumer, and use it as before.

    producer = AuditedProducer(AIOKafkaProducer(bootstrap_servers=brokers), audit="checkout", brokers=brokers)
    consumer = AuditedConsumer(AIOKafkaConsumer("orders", bootstrap_servers=brokers), audit="billing", brokers=brokers)

A message is sent when its future says so; messages of a transaction count when it is committed. `await producer.stop()`, or `async with`,
publishes the last counts. The bytes of messages are counted where `send` is given bytes; those of a `send_batch` all count in the bucket
in which it is called.

`auto_commit_interval_s` is for a consumer with `enable_auto_commit=False` (see `wrapper`). This client rebalances in the background, while
a message may be in hand: partitions that go to others are not committed before, and what was handled since the last commit comes again.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from time import time
from typing import Any, Self

from aiokafka.errors import KafkaError

from millstream.audit.reports.report import Kind
from millstream.audited.settings import Audit
from millstream.audited.transaction_hold import Sent, TransactionHold
from millstream.audited.wrapper import AuditedClient, InHand, handled_record, say_not_committed


class AuditedProducer(AuditedClient):
    """An `AIOKafkaProducer` that counts what was sent."""

    def __init__(self, producer: Any, *, audit: Audit, brokers: str) -> None:
        super().__init__(producer, Kind.PRODUCER, audit=audit, brokers=brokers)
        self._hold = TransactionHold(self._tier)

    async def __aenter__(self) -> Self:
        await self._client.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def send(self, topic: str, value: Any = None, key: Any = None, **kwargs: Any) -> "asyncio.Future[Any]":
        """Send a message, with the arguments of the client's own `send`; returns its future."""
        size = sum(len(part) for part in (key, value) if isinstance(part, bytes))
        return await self._count(topic, self._client.send(topic, value, key, **kwargs), size, 1)

    async def send_batch(self, batch: Any, topic: str, *, partition: int) -> "asyncio.Future[Any]":
        """Send a batch that was built with `create_batch`; returns its future."""
        return await self._count(topic, self._client.send_batch(batch, topic, partition=partition), batch.size(), batch.record_count())

    async def send_and_wait(self, topic: str, value: Any = None, key: Any = None, **kwargs: Any) -> Any:
        """Send a message and wait for its metadata."""
        return await (await self.send(topic, value, key, **kwargs))

    async def begin_transaction(self) -> None:
        """Begin a transaction: its messages count when it is committed."""
        await self._client.begin_transaction()
        self._hold.begin()

    async def commit_transaction(self) -> None:
        """Commit the transaction, and count its messages."""
        await self._client.commit_transaction()
        # What the last futures call comes in the next turn of the loop.
        await asyncio.sleep(0)
        self._hold.end(is_committed=True)

    async def abort_transaction(self) -> None:
        """Abort the transaction: its messages were not sent."""
        await self._client.abort_transaction()
        # What the last futures call comes in the next turn of the loop.
        await asyncio.sleep(0)
        self._hold.end(is_committed=False)

    def transaction(self) -> Any:
        """The client's own `async with producer.transaction()`, which begins and ends it with the methods above."""
        return type(self._client.transaction())(self)

    async def stop(self) -> None:
        """Wait until everything has been sent, stop the producer, and publish the last counts."""
        await self._client.stop()
        # What the last futures call comes in the next turn of the loop.
        await asyncio.sleep(0)
        await asyncio.to_thread(self._tier.close)

    async def _count(self, topic: str, sending: "Awaitable[asyncio.Future[Any]]", size: int, count: int) -> "asyncio.Future[Any]":
        token, sent_ms = self._tier.sending(topic), int(time() * 1000)
        try:
            future = await sending
        except BaseException:
            self._tier.failed(token)
            raise

        def done(answered: "asyncio.Future[Any]") -> None:
            if answered.cancelled() or answered.exception() is not None:
                self._tier.failed(token)
            else:
                metadata = answered.result()
                timestamp_ms = metadata.timestamp if metadata.timestamp >= 0 else sent_ms
                self._hold.note(Sent(token, topic, timestamp_ms, size, metadata.partition, count))

        future.add_done_callback(done)
        return future


class AuditedConsumer(AuditedClient):
    """An `AIOKafkaConsumer` that counts what was handled."""

    def __init__(self, consumer: Any, *, audit: Audit, brokers: str, auto_commit_interval_s: float | None = None) -> None:
        """With `auto_commit_interval_s` the wrapper commits what was handled; the client must have `enable_auto_commit=False`."""
        super().__init__(consumer, Kind.CONSUMER, audit=audit, brokers=brokers)
        self._in_hand = InHand(self._tier, handled_record, auto_commit_interval_s=auto_commit_interval_s)
        commits, group = consumer._enable_auto_commit, consumer._group_id
        self._in_hand.check(group=group, client_commits=commits, option="enable_auto_commit=False")

    async def __aenter__(self) -> Self:
        await self._client.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        await self._auto_commit()
        record = await anext(self._client)
        self._in_hand.give(record.topic, [record])
        return record

    async def getone(self, *partitions: Any) -> Any:
        """The next message; the one before it has been handled."""
        await self._auto_commit()
        record = await self._client.getone(*partitions)
        self._in_hand.give(record.topic, [record])
        return record

    async def getmany(self, *partitions: Any, **kwargs: Any) -> dict[Any, list[Any]]:
        """The next messages; those before them have been handled."""
        await self._auto_commit()
        records: dict[Any, list[Any]] = await self._client.getmany(*partitions, **kwargs)
        for place, some in records.items():
            self._in_hand.give(place.topic, some)
        return records

    async def commit(self, *args: Any) -> None:
        """Commit offsets; what was handed out has been handled, and is published first."""
        await asyncio.to_thread(self._in_hand.publish)
        await self._client.commit(*args)

    async def stop(self) -> None:
        """Publish the last counts and stop the consumer; what was handed out has been handled."""
        await self._auto_commit(at_once=True)
        await asyncio.to_thread(self._tier.close)
        await self._client.stop()

    async def _auto_commit(self, *, at_once: bool = False) -> None:
        if self._in_hand.is_commit_due(at_once=at_once) and await asyncio.to_thread(self._in_hand.publish):
            try:
                await self._client.commit()
            except KafkaError as error:
                say_not_committed(error)
