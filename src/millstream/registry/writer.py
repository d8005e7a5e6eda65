"""The one place that writes: commands are decided on the state, appended, and answered when they have been read back.

Of several instances one writes, the one whose claim is the last in the log (`state`); the others forward to it. There are no heartbeats and
no leases: whoever has something to write and cannot reach the writer claims the log for itself. A claim takes effect for all at its place
in the log, so two instances that both believe to be the writer cannot both be right: what the deposed one appends is ignored by everybody,
it finds that out when it reads its record back, and forwards.

Commands run one after the other: each is decided on a state that has all before it.
"""

import asyncio
import logging
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from millstream.registry.errors import LeaderUnknown, StoreFailed, StoreTimedOut
from millstream.registry.forwarding import Answer, Forwarded, Forwarder, LeaderAway
from millstream.registry.model.records import LogRecord
from millstream.registry.model.settings import Decision
from millstream.registry.model.state import Claim, RegistryState, claim_record
from millstream.registry.schema_log import SchemaLog

logger = logging.getLogger(__name__)

MAX_ATTEMPTS = 4

Decide = Callable[[], Decision]


class Deposed(Exception):
    """Another instance has claimed the log meanwhile."""


@dataclass(frozen=True, slots=True)
class Written:
    """An answer, and the offset up to which the log has to be read to see it."""

    answer: Any
    offset: int


class Writer:
    """Executes commands, here or by the instance that writes."""

    def __init__(self, state: RegistryState, log: SchemaLog, *, url: str, forwarder: Forwarder) -> None:
        self.instance = uuid.uuid4().hex
        self.url = url
        self._state = state
        self._log = log
        self._forwarder = forwarder
        self._lock = asyncio.Lock()
        self._term: str | None = None
        self._last_offset = -1
        self._was_ignored = False

    def record_ignored(self, term: str | None) -> None:
        """The log gave back a record that is ignored; perhaps one of ours."""
        self._was_ignored |= term is not None and term == self._term

    @property
    def is_leader(self) -> bool:
        """Whether this instance writes."""
        return self._term is not None and self._state.claim is not None and self._state.claim.term == self._term

    async def execute(self, decide: Decide, request: Forwarded) -> Written | Answer:
        """Carry out a command, here or where the writer is."""
        await self._log.caught_up()
        for _ in range(MAX_ATTEMPTS):
            claim = self._state.claim
            if request.was_forwarded and not self.is_leader:
                # Who forwarded it here decides what to do next.
                raise LeaderUnknown("This instance does not write any more.")
            if claim is not None and not self.is_leader and claim.url != self.url:
                try:
                    return await self._forward(request, claim)
                except LeaderAway as error:
                    logger.warning("the instance that writes, at %s, is away: %s", claim.url, error)
            try:
                return await self._execute_here(decide, instead_of=claim)
            except Deposed:
                continue
        raise LeaderUnknown("The instances of this registry take the log from each other; ask again.")

    async def _forward(self, request: Forwarded, claim: Claim) -> Answer:
        answer = await self._forwarder.forward(request, url=claim.url, instance=claim.instance)
        if answer.offset is not None:
            # So that who asks here next sees what it has just written there.
            await self._log.passed(answer.offset)
        return answer

    async def _execute_here(self, decide: Decide, *, instead_of: Claim | None) -> Written:
        async with self._lock:
            if not self.is_leader:
                if self._state.claim != instead_of:
                    # Another instance was faster.
                    raise Deposed
                await self._claim()
            decision = decide()
            if decision.records:
                await self._append(decision.records)
            return Written(decision.answer, self._last_offset)

    async def _claim(self) -> None:
        term = uuid.uuid4().hex
        claim = Claim(term, self.instance, self.url)
        self._last_offset = await self._log.append([claim_record(claim, self._state.highest_ids())], term=term)
        if self._state.claim != claim:
            raise Deposed
        self._term = term
        logger.info("this instance, at %s, writes now", self.url)
        if self._state.disputed:
            await self._append(())

    async def _append(self, records: Sequence[LogRecord]) -> None:
        assert self._term is not None
        term, claim = self._term, self._state.claim
        assert claim is not None
        batch = [*self._state.corrections(), *records]
        if any(record.value is None and record.key.type == "SCHEMA" for record in records):
            # An id must not come back when compaction has removed the last trace of its schema.
            batch.append(claim_record(claim, self._state.highest_ids()))
        self._was_ignored = False
        try:
            self._last_offset = await self._log.append(batch, term=term)
        except (StoreFailed, StoreTimedOut):
            # The records may still come, and may not: under a new term they are ignored if they come after its claim.
            self._term = None
            raise
        if self._was_ignored:
            raise Deposed
