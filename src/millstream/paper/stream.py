"""A message stream: iterating it never ends, it blocks until the next message. In order within a partition, at least once.

    for message in stream:                 async for message in stream:
        handle(message.payload)                await handle(message.payload)

**Which thread does what.** The thread that iterates pulls the messages and hands them out. The thread of the group member grants and takes
away partitions, asks what may be committed, and renews the lease. One lock guards what both touch; the loop over a batch does not take it.
Instead it puts a message in hand, and then looks at one number, `_deadline`: the end of the lease, or 0 if something has changed. Whoever
changes something does the opposite: first the number, then look what is in hand. So a message is either seen as handed out, or not handed
out (both are single steps under the interpreter's lock).

**The lease.** Only while ZooKeeper is known to hold our session may another consumer not own our partitions. A process that was stopped,
or cut off, for longer finds its lease over and hands out nothing until the group member knows better.

**Handled** is a message when the next one is asked for. One that is in hand when its partition goes to another consumer is waited for, so
that a change in the group repeats nothing.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from functools import partial
from time import monotonic
from typing import Final, Self

from millstream.errors import MillstreamError, UsageError
from millstream.paper.groups.assignment import StreamId
from millstream.paper.message import ConsumedMessage
from millstream.paper.progress import Claim, Progress
from millstream.paper.puller import Puller

_PULL_S: Final = 0.1
"""How long one pull waits: the longest that a change or a close goes unnoticed by a stream without messages."""
_NEVER: Final = 0.0

OnHandled = Callable[[str, Sequence[ConsumedMessage]], None]
"""Called with a topic and messages of it that have been handled, each once."""


class MessageStream:
    """The messages of the partitions that this stream owns at the moment. One thread, or one task, iterates it."""

    def __init__(self, topic: str, stream_id: StreamId, puller: Puller, *, on_handled: OnHandled | None = None) -> None:
        self.topic = topic
        self.stream_id = stream_id
        self._puller = puller
        self._changed = threading.Condition()
        self._turn = threading.Lock()
        self._progress = Progress(None if on_handled is None else partial(on_handled, topic))
        self._deadline = self._lease_end = _NEVER
        self._brokers = ""
        self._is_stale = self._is_first = False
        self._is_closed = False
        self._error: MillstreamError | None = None
        self._holder: object = None
        self._waiting: list[Callable[[], None]] = []
        self._executor: ThreadPoolExecutor | None = None

    # --- for whoever iterates

    @property
    def partitions(self) -> list[int]:
        """The partitions that this stream owns at the moment."""
        with self._changed:
            return sorted(self._progress.claims)

    def __iter__(self) -> Iterator[ConsumedMessage]:
        self._holder = threading.get_ident()
        progress, clock = self._progress, monotonic
        while self._next_batch():
            for message in progress.rest:
                progress.in_hand = message
                if clock() >= self._deadline:
                    self._withdraw(message)
                    break
                yield message

    def __next__(self) -> ConsumedMessage:
        for message in self:
            return message
        raise StopIteration

    def __aiter__(self) -> AsyncIterator[ConsumedMessage]:
        return self._async_messages()

    def seek(self, offset: int, partition: int | None = None) -> None:
        """Go on from this offset of a partition that the stream owns; which one need not be said if it owns a single one."""
        claims = self._progress.claims
        if partition is None and len(claims) == 1:
            (partition,) = claims
        if partition is None or partition not in claims:
            raise UsageError(f"this stream owns the partitions {self.partitions} of {self.topic!r}: name one of them to seek")
        if offset < 0:
            raise UsageError(f"there is no offset {offset}: the first one of a partition that has lost nothing is 0")
        self.move({partition: offset})

    def close(self) -> None:
        """End the iteration, in whatever thread it is; the partitions stay with this consumer until it is closed as well."""
        self.end()
        with self._turn:
            self._puller.close()
        if self._executor is not None:
            self._executor.shutdown(wait=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"MessageStream({self.topic!r}, {self.stream_id}, partitions={self.partitions})"

    # --- for the consumer and its group member

    @property
    def brokers(self) -> str:
        """The brokers to pull from; empty as long as they are not known."""
        return self._brokers

    def end(self) -> None:
        """Hand out nothing more; the loop over the stream ends when it asks for the next message."""
        with self._changed:
            self._is_closed = True
            self._interrupt()

    def grant(self, claims: Iterable[Claim]) -> None:
        """From now on these partitions are pulled as well."""
        with self._changed:
            self._interrupt()
            self._progress.claims.update({claim.partition: claim for claim in claims})

    def use_brokers(self, brokers: str) -> None:
        """Pull from these brokers, if they are others than before."""
        with self._changed:
            if brokers != self._brokers:
                self._interrupt()
                self._brokers = brokers

    def take_away(self, partitions: Iterable[int]) -> list[Claim]:
        """Hand out nothing more from these partitions, as far as they are owned; a message that is in hand may still be handled."""
        with self._changed:
            self._interrupt()
            claims = self._progress.claims
            return [claims.pop(partition) for partition in list(partitions) if partition in claims]

    def is_in_hand(self, claim: Claim) -> bool:
        """Whether a message of a claim that was taken away is still being handled."""
        with self._changed:
            return self._progress.is_in_hand(claim)

    def when_handled(self, claim: Claim, call: Callable[[], None]) -> None:
        """Call when no message of a claim that was taken away is in hand any more: maybe at once."""
        with self._changed:
            if self._progress.is_in_hand(claim):
                self._waiting.append(call)
                return
        call()

    def move(self, offsets: dict[int, int]) -> None:
        """Go on from other offsets; what is in hand does not count for the partitions that are moved."""
        with self._changed:
            self._interrupt()
            for partition, claim in self._progress.claims.items():
                if partition in offsets:
                    claim.move_to(offsets[partition])

    def claims(self) -> dict[int, Claim]:
        """The partitions owned at the moment."""
        with self._changed:
            return dict(self._progress.claims)

    def changed_claims(self, *, holder: object = None) -> list[Claim]:
        """What may be committed. A `holder` that holds the message in hand vouches for it: it counts as handled."""
        with self._changed:
            if self.is_held_by(holder):
                self._progress.vouch()
                self._call_waiting()
            return self._progress.changed()

    def is_held_by(self, holder: object) -> bool:
        """Whether this thread or task is the one that iterates."""
        return holder is not None and holder == self._holder

    def renew(self, lease_end: float) -> None:
        """The session is known to live until then; 0 when it is not known to live."""
        with self._changed:
            self._lease_end = lease_end
            if not self._is_stale:
                self._deadline = lease_end
            self._changed.notify_all()

    def fail(self, error: MillstreamError) -> None:
        """Let the iteration end with an error, now and whenever it is tried again."""
        with self._changed:
            self._error = error
            self._interrupt()

    # --- in the thread that iterates

    def _next_batch(self, is_wanted: Callable[[], bool] = lambda: True) -> bool:
        """Whatever was handed out has been handled; wait until there is more to hand out. False when the stream is closed."""
        if not self._turn.acquire(timeout=1):
            raise UsageError("two threads iterate one stream: give each thread a stream of its own")
        try:
            while is_wanted():
                state = self._prepare()
                if state is _State.READY:
                    return True
                if state is _State.CLOSED:
                    return False
                if state is _State.EMPTY:
                    self._pull()
            return True
        finally:
            self._turn.release()

    def _prepare(self) -> "_State":
        with self._changed:
            self._ask()
            if self._error is not None:
                raise self._error
            if self._is_closed:
                return _State.CLOSED
            self._deadline = self._lease_end
            if not self._progress.claims or monotonic() >= self._lease_end:
                self._changed.wait(_PULL_S)
                return _State.WAITING
            if self._progress.rest:
                return _State.READY
            brokers, is_stale, self._is_stale = self._brokers, self._is_stale, False
            offsets = [(claim.partition, claim.next) for claim in self._progress.claims.values()]
        if is_stale:
            self._puller.assign(brokers, offsets)
            self._is_first = True
        return _State.EMPTY

    def _pull(self) -> None:
        try:
            messages = self._puller.pull(_PULL_S)
        except MillstreamError:
            # Whoever iterates on gets it again, unless something has changed until then.
            with self._changed:
                self._is_stale = True
            raise
        if messages:
            with self._changed:
                if not self._is_stale:
                    self._progress.begin(messages, is_first=self._is_first)
                    self._is_first = False

    def _withdraw(self, message: ConsumedMessage) -> None:
        with self._changed:
            self._progress.withdraw(message)
            self._call_waiting()

    def _ask(self) -> None:
        self._progress.ask()
        self._call_waiting()

    def _call_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            call()

    def _interrupt(self) -> None:
        """Something is about to change: the loop over a batch stops before its next message."""
        self._deadline = _NEVER
        self._progress.interrupt()
        self._is_stale = True
        self._changed.notify_all()

    async def _async_messages(self) -> AsyncIterator[ConsumedMessage]:
        self._holder = asyncio.current_task()
        progress, clock = self._progress, monotonic
        while await self._next_batch_in_thread():
            for message in progress.rest:
                progress.in_hand = message
                if clock() >= self._deadline:
                    self._withdraw(message)
                    break
                yield message

    async def _next_batch_in_thread(self) -> bool:
        if self._is_closed:
            return False
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, thread_name_prefix=f"stream-{self.stream_id}")
        is_wanted = threading.Event()
        is_wanted.set()
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, self._next_batch, is_wanted.is_set)
        finally:
            # A task that is cancelled while it waits must not leave a thread that waits on.
            is_wanted.clear()


class _State(Enum):
    """What a stream can do next."""

    READY = "there are messages to hand out"
    EMPTY = "messages have to be pulled"
    WAITING = "no partition, or no lease"
    CLOSED = "the end"


def current_holder() -> object:
    """Who is iterating, if the caller is: a task, or a thread without an event loop."""
    try:
        return asyncio.current_task()
    except RuntimeError:
        return threading.get_ident()
