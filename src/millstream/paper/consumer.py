"""The paper's consumer: message streams of topics that a group reads together, coordinated over ZooKeeper without a master.

    with Consumer(zookeeper="localhost:2181", group="search") as consumer:
        [stream] = consumer.create_message_streams("clicks", 1)
        for message in stream:
            handle(message.payload)

Consumers of one group share the partitions of a topic; each group has the whole topic. Offsets are kept in ZooKeeper, not in the broker,
and stored at an interval, after the messages were handled, or by `commit`. The brokers are found through ZooKeeper as well.

With `audit="name"` it counts what it handles, for the audit, and can ask what the audit says: `consumer.audit.verdict(topic, bucket)`.

A consumer has one thread, with the event loop on which its `GroupMember` lives; the calls here hand their work to it and wait. Messages do
not pass through it: each stream pulls in the thread that iterates it.
"""

import asyncio
import os
import socket
import threading
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final, Self, TypeVar
from uuid import uuid4

from millstream.audited.settings import Audit
from millstream.client.errors import ClientError
from millstream.coordination.ensemble.kazoo_adapter import KazooCoordination
from millstream.coordination.interface import Coordination
from millstream.errors import MillstreamError, StartupError, UsageError
from millstream.paper.consumer_audit import ConsumerAudit
from millstream.paper.errors import ConsumerClosed, ZooKeeperUnavailable
from millstream.paper.groups.assignment import StreamId
from millstream.paper.groups.group_member import GroupMember
from millstream.paper.puller import Puller
from millstream.paper.settings import ConsumerSettings, Expired, Isolation, Setting, Start
from millstream.paper.start_offsets import Target
from millstream.paper.stream import MessageStream, current_holder
from millstream.zookeeper.errors import BadArguments, ConnectionLost, SessionExpired, ZooKeeperError
from millstream.zookeeper.znode import check_path

T = TypeVar("T")

_GRACE_S: Final = 30.0
_MILLISECONDS: Final = 1000


class Consumer:
    """A member of a consumer group; what the keywords mean stands in `ConsumerSettings`."""

    def __init__(
        self,
        zookeeper: str,
        group: str,
        *,
        consumer_id: str | None = None,
        start: Start = "earliest",
        expired: Expired = "earliest",
        auto_commit_interval_s: float | None = 1.0,
        session_timeout_s: float = 6.0,
        connect_timeout_s: float = 10.0,
        handover_timeout_s: float = 10.0,
        isolation: Isolation = "read_committed",
        audit: Audit | None = None,
        options: Mapping[str, Setting] | None = None,
    ) -> None:
        self.group = check_name(group, "the group")
        self.consumer_id = check_name(consumer_id, "the consumer id") if consumer_id is not None else _new_id()
        self.streams: list[MessageStream] = []
        self._audit = None if audit is None else ConsumerAudit(audit, self._brokers, options or {})
        self._settings = ConsumerSettings(
            start=start,
            expired=expired,
            auto_commit_interval_s=auto_commit_interval_s,
            session_timeout_s=session_timeout_s,
            connect_timeout_s=connect_timeout_s,
            handover_timeout_s=handover_timeout_s,
            isolation=isolation,
            options=options or {},
        )
        self._zookeeper = zookeeper
        self._member: GroupMember | None = None
        self._following: asyncio.Task[None] | None = None
        self._is_closed = False
        self._closing = threading.Lock()
        self._stop: asyncio.Event | None = None
        self._connected: Future[tuple[asyncio.AbstractEventLoop, Coordination]] = Future()
        # A daemon, so that a program which forgot to close its consumer still ends; its session then runs out.
        self._thread = threading.Thread(target=self._run, name=f"consumer-{self.consumer_id}", daemon=True)
        self._thread.start()
        self._loop, self._coordination = self._connected.result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self._close, current_holder())

    def create_message_streams(self, topics: str | Mapping[str, int], count: int = 1) -> list[MessageStream]:
        """Join the group with `count` streams of one topic, or with the numbers of streams given for several; all in one call.

        The streams come in the order of the topics. A stream for which there is no partition waits until there is one.
        """
        wanted = _wanted_streams(topics, count)
        self._check_open()
        if self.streams:
            raise UsageError("the streams of this consumer have been made: name all topics in one call, or make another consumer")
        _check_topics(wanted)
        # librdkafka finds out by itself when retention overtakes a reader.
        options = {"isolation.level": self._settings.isolation, **self._settings.options, "auto.offset.reset": self._settings.expired}
        on_handled = None if self._audit is None else self._audit.note_handled
        self.streams = [
            MessageStream(
                topic, StreamId(self.consumer_id, number), Puller(topic, group=self.group, options=options), on_handled=on_handled
            )
            for topic, number_of_streams in wanted.items()
            for number in range(number_of_streams)
        ]
        try:
            self._do(self._join(), timeout_s=self._settings.session_timeout_s * 2 + _GRACE_S)
        except BaseException:
            self.streams = []
            raise
        return self.streams

    def commit(self) -> None:
        """Store the offsets of what has been handled, now. A message that the calling thread (or task) has in hand counts as handled."""
        self._check_open()
        if self._member is not None:
            self._do(self._member.commit(holder=current_holder()))

    def rewind(self, topic: str, *, to: Target) -> dict[int, int]:
        """Consume again from an offset, a point in time, or "earliest" (or skip to "latest").

        This concerns the partitions of the topic that this consumer owns. Returns their new offsets; an offset outside of a log becomes the
        end nearest to it.
        """
        self._check_open()
        if self._member is None or topic not in {stream.topic for stream in self.streams}:
            raise UsageError(f"this consumer has no stream of {topic!r}")
        return self._do(self._member.rewind(topic, to))

    @property
    def audit(self) -> ConsumerAudit:
        """What the audit says about the topics of this consumer, which counts what it handles."""
        if self._audit is None:
            raise UsageError("this consumer does not take part in the audit: make it with audit='the name of its tier'")
        return self._audit

    def close(self) -> None:
        """End the streams, store the offsets and leave the group; other consumers take over at once."""
        self._close(current_holder())

    def _close(self, holder: object) -> None:
        with self._closing:
            if self._is_closed:
                return
            self._is_closed = True
            for stream in self.streams:
                stream.end()
            if self._member is not None:
                # ZooKeeper may be away, which only means that some messages will be repeated.
                with suppress(ZooKeeperError, ClientError):
                    self._do(self._leave(self._member, holder), timeout_s=self._settings.handover_timeout_s + _GRACE_S)
            for stream in self.streams:
                stream.close()
            if self._audit is not None:
                self._audit.close()
            if self._thread.is_alive() and self._stop is not None:
                self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(_GRACE_S)

    def _brokers(self) -> str:
        return next((stream.brokers for stream in self.streams if stream.brokers), "")

    def _check_open(self) -> None:
        if self._is_closed:
            raise ConsumerClosed("this consumer has been closed: make a new one")

    def _do(self, work: Coroutine[Any, Any, T], *, timeout_s: float = _GRACE_S) -> T:
        """Let the consumer's thread do something, and wait for it."""
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout_s)
        except TimeoutError as error:
            raise ZooKeeperUnavailable(f"the ZooKeeper at {self._zookeeper} does not answer") from error
        except (ConnectionLost, SessionExpired) as error:
            raise ZooKeeperUnavailable(f"the ZooKeeper at {self._zookeeper} is away: {error}; try again when it is back") from error

    # --- in the consumer's own thread

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except BaseException as error:  # noqa: BLE001 - it is raised again, in the thread that makes the consumer or iterates a stream
            self._failed(error)

    async def _main(self) -> None:
        self._stop = asyncio.Event()
        coordination = await self._connect()
        try:
            self._connected.set_result((asyncio.get_running_loop(), coordination))
            await self._stop.wait()
        finally:
            if self._following is not None:
                self._following.cancel()
            await coordination.close()

    async def _connect(self) -> Coordination:
        settings = self._settings
        try:
            return await KazooCoordination.connect(
                self._zookeeper,
                session_timeout_ms=round(settings.session_timeout_s * _MILLISECONDS),
                connect_timeout_ms=round(settings.connect_timeout_s * _MILLISECONDS),
                timeout_option="connect_timeout_s",
            )
        except StartupError as error:
            raise ZooKeeperUnavailable(str(error)) from None
        except ValueError as error:
            raise UsageError(f"zookeeper={self._zookeeper!r} is no address: give HOST:PORT, several with commas, then a /path") from error

    async def _join(self) -> None:
        member = GroupMember(
            self._coordination,
            group=self.group,
            consumer_id=self.consumer_id,
            streams=self.streams,
            settings=self._settings,
            before_storing=None if self._audit is None else self._audit.publish,
        )
        await member.join()
        self._member = member
        self._following = asyncio.create_task(member.run())
        self._following.add_done_callback(self._followed)

    async def _leave(self, member: GroupMember, holder: object) -> None:
        # First of all: what follows the group would take again what is given up.
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
        await member.leave(holder=holder)

    def _followed(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed(error)

    def _failed(self, error: BaseException) -> None:
        if isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        if not self._connected.done():
            # Where in our thread it was raised says nothing to whoever made the consumer.
            self._connected.set_exception(error.with_traceback(None) if isinstance(error, MillstreamError) else error)
            return
        failure = error if isinstance(error, MillstreamError) else ClientError(f"the consumer's thread ended: {error!r}")
        for stream in self.streams:
            stream.fail(failure)


def _new_id() -> str:
    """An id that no other consumer has, and that shows a person where it runs."""
    return f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:8]}"


def _wanted_streams(topics: str | Mapping[str, int], count: int) -> dict[str, int]:
    if isinstance(topics, str):
        return {topics: count}
    if not isinstance(topics, Mapping):
        raise UsageError(
            f"topics={topics!r}: give one by its name, or several with their numbers of streams, as {{'page-views': 2, 'clicks': 1}}"
        )
    return dict(topics)


def _check_topics(topics: Mapping[str, int]) -> None:
    if not topics:
        raise UsageError("name at least one topic")
    for topic, count in topics.items():
        check_name(topic, "the topic")
        if count < 1:
            raise UsageError(f"{count!r} streams of {topic!r}: give a number from 1 on")


def check_name(name: str, what: str) -> str:
    """A name that may stand in a path."""
    try:
        check_path(f"/consumers/{name}")
        is_good = "/" not in name
    except BadArguments:
        is_good = False
    if not is_good:
        raise UsageError(f"{what} {name!r} cannot be: it becomes part of a path in ZooKeeper, so no slash, no control character, not empty")
    return name
