"""A handler of Produce whose tasks run on the loop of the test."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from millstream.broker.handlers.produce import ProduceFamily
from millstream.broker.storage.record_turns import RecordTurns
from millstream.clock import Clock
from millstream.cluster.replicas import Replicas


def produce_family(replicas: Replicas, clock: Clock, *, turns: RecordTurns | None = None) -> ProduceFamily:
    """The handler, with threads of its own for what is large."""
    tasks: set[asyncio.Task[None]] = set()

    def spawn(work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    return ProduceFamily(replicas, clock, turns=turns or RecordTurns(ThreadPoolExecutor(1)), spawn=spawn)
