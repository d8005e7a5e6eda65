"""A handler of Produce whose tasks run on the loop of the test."""

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from millstream.broker.cluster.live_settings import LiveSettings
from millstream.broker.cluster.peers import Peers
from millstream.broker.handlers.produce.produce import ProduceFamily
from millstream.broker.storage.record_turns import RecordTurns
from millstream.broker.tasks import Spawn
from millstream.broker.transactions.verification import TransactionVerification
from millstream.clock import Clock
from millstream.cluster.replicas import Replicas
from millstream.coordination.cluster_view import ClusterView
from millstream.topic_partition import TopicPartition
from millstream.transactions.commands import AddPartitions, VerifyPartitions
from millstream.transactions.transaction import Producer


class AgreeingCoordinator:
    """Stands in for the coordinator of every transactional id: answers with `code`, at once or when the test wants it."""

    def __init__(self) -> None:
        self.code = 0
        self.is_answering = True
        self.questions: list[AddPartitions | VerifyPartitions] = []
        self.known: set[tuple[str, Producer, TopicPartition]] = set()
        """What it is known to confirm without being asked."""
        self._waiting: list[Callable[[], None]] = []

    def ask(self, question: AddPartitions | VerifyPartitions, done: Callable[[dict[TopicPartition, int]], None]) -> None:
        """Answer, or keep the question."""
        self.questions.append(question)
        codes = dict.fromkeys(question.partitions, self.code)
        if self.is_answering:
            done(codes)
        else:
            self._waiting.append(lambda: done(codes))

    def answer(self) -> None:
        """Answer what was kept."""
        waiting, self._waiting = self._waiting, []
        for answer in waiting:
            answer()

    def verification(
        self, spawn: Spawn, *, coordinator_of: Callable[[str], int] = lambda _transactional_id: 1, **options: str
    ) -> TransactionVerification:
        """What asks it; options by Kafka's names with `_`."""
        peers = Peers(view=ClusterView, client_id="tests")
        settings = LiveSettings({name.replace("_", "."): value for name, value in options.items()}, node_id=1)
        return TransactionVerification(
            node_id=1,
            coordinator_of=coordinator_of,
            ask_own=self.ask,
            is_part=lambda *asked: asked in self.known,
            peers=peers,
            settings=settings,
            spawn=spawn,
        )


def produce_family(
    replicas: Replicas, clock: Clock, *, turns: RecordTurns | None = None, coordinator: AgreeingCoordinator | None = None
) -> ProduceFamily:
    """The handler, with threads of its own for what is large."""
    tasks: set[asyncio.Task[None]] = set()

    def spawn(work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    verification = (coordinator or AgreeingCoordinator()).verification(spawn)
    return ProduceFamily(replicas, clock, verification=verification, turns=turns or RecordTurns(ThreadPoolExecutor(1)), spawn=spawn)
