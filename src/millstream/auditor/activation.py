"""An auditor beside a broker: a process of its own (`process`), started when there is something to audit.

Until the topic `_audit` exists, which the first tier that reports makes, nothing is started or asked: a broker without audit pays a
pending future for it. The work of the auditor is Python and would hold up the broker's clients on its loop. A child that ends, for whatever
reason, is started again after a pause. With several brokers each has one, and they share the topics.
"""

import asyncio
import logging
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable
from typing import Final, Self

from millstream.address import Address
from millstream.registry.child import end_process

logger = logging.getLogger(__name__)

PROCESS: Final = ("-P", "-m", "millstream.auditor.process")
AUDIT_TOPIC: Final = "_audit"
FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 60.0
LONG_LIFE_S: Final = 60.0


class AuditActivation:
    """Runs the child: `async with AuditActivation(server.topic_exists, broker=...)`."""

    def __init__(
        self,
        topic_exists: Callable[[str], Awaitable[None]],
        *,
        broker: tuple[str, int],
        registry: str | None = None,
        log_level: str = "info",
        log_format: str = "text",
        pause_s: float = FIRST_PAUSE_S,
    ) -> None:
        self._topic_exists = topic_exists
        self._broker = broker
        self._registry = registry
        self._log_flags = ["--log-level", log_level, "--log-format", log_format]
        self._pause_s = pause_s
        self._task: asyncio.Task[None] | None = None
        self.process: Process | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        await self._topic_exists(AUDIT_TOPIC)
        loop = asyncio.get_running_loop()
        pause_s = self._pause_s
        while True:
            started = loop.time()
            await self._run_once()
            pause_s = self._pause_s if loop.time() - started > LONG_LIFE_S else min(pause_s * 2, LONGEST_PAUSE_S)
            await asyncio.sleep(pause_s)

    async def _run_once(self) -> None:
        try:
            self.process = await asyncio.create_subprocess_exec(sys.executable, *PROCESS, *self._arguments(), stdin=PIPE)
        except OSError as error:
            logger.error("the auditor cannot be started: %s", error)
            return
        try:
            code = await self.process.wait()
        except asyncio.CancelledError:
            await end_process(self.process)
            raise
        logger.warning("the auditor ended with %d; it is started again", code)

    def _arguments(self) -> list[str]:
        registry = ["--registry", self._registry] if self._registry is not None else []
        return ["--brokers", str(Address(*self._broker).on_this_machine), *registry, *self._log_flags]
