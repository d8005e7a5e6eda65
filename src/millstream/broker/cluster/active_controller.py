"""The controller of the cluster, in every broker: it does something only while its broker is elected.

One serial queue: one task makes and writes one decision at a time, in this order of urgency: what follows from the newest view (brokers and
topics that came, went or changed), then what brokers and operators asked for, in their order. A view that is overtaken by the next one is
not looked at.

    elected     catch up with the tree, let the predecessor's half-done work be finished, decide about the brokers that are registered
    a failure   what was written is in doubt: a new `ControllerTerm` begins with the tree, when the connection is back or after a pause
    interrupted when the connection is back, topics are looked for whose creation or deletion broke off with it
    fenced off  the election is asked whether the claim still holds; it resigns if not

A decision about brokers is never lost: it follows from the tree, and the next term finds it again. Who asked for something while it failed
gets the error and asks again. Nothing that happens here ends the broker.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple, Protocol, TypeVar

from millstream.broker.cluster.controller_term import ControllerTerm, InSyncChange, MetadataTree
from millstream.cluster.controller.leader_election import ElectionRules
from millstream.coordination.cluster_view import ClusterView, TopicState
from millstream.coordination.election import ControllerClaim
from millstream.coordination.partition_state import PartitionState
from millstream.errors import KafkaError, MillstreamError, NotController
from millstream.topic_partition import TopicPartition

logger = logging.getLogger(__name__)

RETRY_S: Final = 1.0
CATCH_UP_MS: Final = 10_000

T = TypeVar("T")
Answers = Mapping[TopicPartition, PartitionState | KafkaError]


class ControllerTree(MetadataTree, Protocol):
    """What a controller needs of the tree of znodes."""

    async def catch_up(self, *, timeout_ms: int) -> bool:
        """Wait until the view of this broker has all that was written before the call; False when the time ran out first."""

    async def finish_half_done(self) -> None:
        """End what another controller began, or this one before it was interrupted: topics that were being created or deleted."""


class _Asked(NamedTuple):
    """A request that waits for its turn."""

    work: Callable[[ControllerTerm], Awaitable[object]]
    answer: "asyncio.Future[object]"


class ActiveController:
    """The shell around `ControllerTerm`: who may, when, and what after a failure."""

    def __init__(
        self,
        tree: ControllerTree,
        *,
        rules: Callable[[TopicState], ElectionRules],
        own_topics: Callable[[], Mapping[str, int]],
        doubt: Callable[[], None],
    ) -> None:
        self._tree = tree
        self._rules = rules
        self._own_topics = own_topics
        self._doubt = doubt
        self._wake = asyncio.Event()
        self._view: ClusterView | None = None
        self._term: ControllerTerm | None = None
        self._asked: deque[_Asked] = deque()
        self._stopping: dict[int, int] = {}
        self._was_interrupted = False
        self._warned = ""

    @property
    def is_active(self) -> bool:
        """Whether this broker is the controller, as far as it knows."""
        return self._term is not None

    # --- what it is called with: never waits --------------------------------------------------------------------------------------------

    def elected(self, _claim: ControllerClaim) -> None:
        """This broker is the controller from now on."""
        self._stopping.clear()
        self._begin_term()

    def resigned(self) -> None:
        """This broker is the controller no more."""
        self._term = None
        asked, self._asked = self._asked, deque()
        for one in asked:
            if not one.answer.done():
                one.answer.set_exception(NotController("this broker is not the controller any more"))

    def view_changed(self, view: ClusterView) -> None:
        """The newest view of this broker."""
        self._view = view
        self._wake.set()

    def connection_is_back(self) -> None:
        """Whatever failed for want of a connection may be tried again, or has left something half done."""
        self._was_interrupted = True
        self._wake.set()

    # --- what it is asked for -----------------------------------------------------------------------------------------------------------

    async def alter_partitions(self, broker: int, broker_epoch: int, changes: Mapping[TopicPartition, InSyncChange]) -> Answers:
        """Change in-sync sets, as their leader asks for it."""
        return await self._ask(lambda term: term.alter_partitions(broker, broker_epoch, changes))

    async def relieve(self, broker: int, broker_epoch: int) -> None:
        """Move leadership away from a broker that is about to stop."""
        await self._ask(lambda term: term.relieve(broker, broker_epoch))

    async def elect_leaders(self, names: Collection[TopicPartition], *, is_unclean: bool) -> Answers:
        """Elect preferred leaders, or any at all."""
        return await self._ask(lambda term: term.elect(names, is_unclean=is_unclean))

    async def reassign(self, targets: Mapping[TopicPartition, Sequence[int] | None], *, may_grow: bool) -> Answers:
        """Move partitions to other brokers, or (None) take that back."""
        return await self._ask(lambda term: term.reassign(targets, may_grow=may_grow))

    async def reassignments(self) -> Mapping[TopicPartition, PartitionState]:
        """The partitions that are being moved."""
        return await self._ask(lambda term: term.reassignments())

    async def _ask(self, work: Callable[[ControllerTerm], Awaitable[T]]) -> T:
        if self._term is None:
            raise NotController("this broker is not the controller")
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._asked.append(_Asked(work, answer))  # type: ignore[arg-type]  # a future of whatever the work returns
        self._wake.set()
        return await answer

    # --- the one task -------------------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Do the controller's work while this broker is elected, until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            term = self._term
            if term is None:
                continue
            try:
                await self._work(term)
            except Exception as error:  # noqa: BLE001 -- the next term begins with the znodes, whatever it was
                self._failed(term, error)

    async def balance_leaders(self, *, interval_s: float) -> None:
        """Let preferred leaders lead again, from time to time, until cancelled."""
        while True:
            await asyncio.sleep(interval_s)
            if self._term is not None and not any(one.work is _balance for one in self._asked):
                answer: asyncio.Future[object] = asyncio.get_running_loop().create_future()
                answer.add_done_callback(_seen)
                self._asked.append(_Asked(_balance, answer))
                self._wake.set()

    async def _work(self, term: ControllerTerm) -> None:
        if term.view is None or self._was_interrupted:
            self._was_interrupted = False
            await self._begin(term)
        while self._term is term:
            view = self._view
            if view is not None and view is not term.view:
                await term.follow(view)
                self._warned = ""
            elif self._asked:
                await self._carry_out(self._asked.popleft(), term)
            else:
                return

    async def _begin(self, term: ControllerTerm) -> None:
        if not await self._tree.catch_up(timeout_ms=CATCH_UP_MS):
            raise TimeoutError(f"the znodes could not be read within {CATCH_UP_MS} ms")
        if self._term is term:
            await self._tree.finish_half_done()

    async def _carry_out(self, asked: _Asked, term: ControllerTerm) -> None:
        if asked.answer.cancelled():
            return
        try:
            answer = await asked.work(term)
        except Exception as error:
            if not asked.answer.done():
                asked.answer.set_exception(error)
            if isinstance(error, KafkaError) and not isinstance(error, NotController):
                return  # refused: nothing was begun
            raise
        if not asked.answer.done():
            asked.answer.set_result(answer)

    def _begin_term(self) -> None:
        self._term = ControllerTerm(
            self._tree,
            rules=self._rules,
            own_topics=self._own_topics,
            stopping=self._stopping,
            newest=lambda: self._view,
            is_in_office=lambda term: self._term is term,
        )
        self._wake.set()

    def _failed(self, term: ControllerTerm, error: Exception) -> None:
        if self._term is not term:
            return  # the next one has begun, or there is none: nothing to begin anew
        self._report(error)
        if isinstance(error, NotController):
            self._doubt()
        self._begin_term()
        self._wake.clear()
        asyncio.get_running_loop().call_later(RETRY_S, self._wake.set)

    def _report(self, error: Exception) -> None:
        """Log a failure, once while it stays the same."""
        if isinstance(error, (MillstreamError, TimeoutError)):
            if str(error) != self._warned:
                self._warned = str(error)
                logger.warning("what the controller wrote is in doubt, it reads the znodes again until that works: %r", error)
        else:
            logger.error("a mistake in the controller, which begins anew with what is in the znodes", exc_info=error)


async def _balance(term: ControllerTerm) -> None:
    await term.balance_leaders()


def _seen(answer: "asyncio.Future[object]") -> None:
    """The queue logs what came of it; no caller waits for it."""
    if not answer.cancelled():
        answer.exception()
