"""Who is the controller: the first broker to create `/controller`, until its session ends.

    /controller          ephemeral, JSON {"broker_id": 1}
    /controller_epoch    decimal, one more with every election; its znode version fences

Winning is one multi: set `/controller_epoch` from the version that was read, and create `/controller`. So an epoch belongs to one broker,
and every later write of that controller carries `claim.fence()`, a check of the epoch's version: a controller that was replaced while it
was paused or cut off cannot write any more.

A candidate that lost watches `/controller` and tries again when it goes. When the session is lost the claim is void at once
(`on_resigned` first, then a new candidature in the next session). `on_elected` and `on_resigned` are plain functions, called on the event
loop, always in turn.
"""

import asyncio
import json
import logging
from collections.abc import Callable
from typing import NamedTuple

from millstream.coordination import paths
from millstream.coordination.cluster_view import decode_controller_epoch
from millstream.coordination.complaints import Complaints
from millstream.coordination.interface import Check, Coordination, Create, Operation, SessionState, SetData, WatchEvent, ZnodeStat
from millstream.zookeeper.errors import BadVersion, ConnectionLost, NodeExists, NoNode, SessionExpired, ZooKeeperError

_log = logging.getLogger(__name__)


class ControllerClaim(NamedTuple):
    """The right to write as controller, for one epoch."""

    broker_id: int
    epoch: int
    epoch_version: int

    def fence(self) -> Check:
        """Goes into every multi of this controller: it fails with `BadVersion` once there is a newer one."""
        return Check(paths.CONTROLLER_EPOCH, self.epoch_version)


class ControllerElection:
    """One broker's candidature, from `start` to `stop`."""

    def __init__(
        self,
        coordination: Coordination,
        *,
        broker_id: int,
        on_elected: Callable[[ControllerClaim], None],
        on_resigned: Callable[[], None],
    ) -> None:
        self.claim: ControllerClaim | None = None
        self._coordination = coordination
        self._broker_id = broker_id
        self._on_elected = on_elected
        self._on_resigned = on_resigned
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._last_epoch = 0
        self._complaints = Complaints()
        coordination.add_session_listener(self._on_session)

    async def start(self) -> None:
        """Stand for election; returns after the first try, won or lost."""
        await self._ensure_epoch()
        await self._compete()
        self._task = asyncio.create_task(self._run(), name="controller-election")

    async def stop(self) -> None:
        """Stand no longer; a claim is given up, so that another broker is elected at once."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        if self.claim is not None:
            self._resign()
            try:
                await self._delete_controller()
            except (ConnectionLost, SessionExpired) as error:
                _log.info("the controller's znode goes with its session: %r", error)

    def doubt(self) -> None:
        """A write was refused as that of a former controller: look whether the claim still holds, and resign if not."""
        self._wake.set()

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                await self._compete()
            except ZooKeeperError as error:
                _log.info("the election waits for the session to come back: %r", error)

    async def _compete(self) -> None:
        """Become controller, or watch the one there is."""
        while True:
            stat = await self._coordination.exists(paths.CONTROLLER, watch=self._on_controller_change)
            is_ours = stat is not None and stat.ephemeral_owner == self._coordination.session_id
            if self.claim is not None:
                if stat is not None and is_ours and not stat.version and await self._is_epoch_untouched(self.claim):
                    return
                # Our znode was removed, which is how a person asks for another controller, or it names another one by now, or the epoch
                # was written to.
                self._resign()
            if stat is not None and not is_ours:
                return
            if is_ours:
                # From a multi whose answer was lost, or before the epoch was touched. Only a fresh election shows which epoch is ours.
                await self._delete_controller()
            await self._claim()

    async def _claim(self) -> None:
        try:
            data, stat = await self._coordination.get(paths.CONTROLLER_EPOCH)
        except NoNode:
            # It was removed.
            await self._ensure_epoch()
            return
        epoch = self._epoch_in(data, stat) + 1
        session_id = self._coordination.session_id
        content = json.dumps({"broker_id": self._broker_id}).encode()
        operations: list[Operation] = [
            SetData(paths.CONTROLLER_EPOCH, str(epoch).encode(), stat.version),
            Create(paths.CONTROLLER, content, ephemeral=True),
        ]
        try:
            await self._coordination.multi(operations)
        except (BadVersion, NodeExists):
            return
        if session_id == self._coordination.session_id:
            self.claim = ControllerClaim(self._broker_id, epoch, stat.version + 1)
            self._last_epoch = epoch
            _log.info("broker %d is the controller, epoch %d", self._broker_id, epoch)
            self._on_elected(self.claim)

    def _epoch_in(self, data: bytes, stat: ZnodeStat) -> int:
        """The epoch in its znode. If it makes no sense, none below those before: the version, which fences, grows with every election."""
        try:
            epoch = decode_controller_epoch(data)
        except ValueError as error:
            self._complaints.report(paths.CONTROLLER_EPOCH, stat.mzxid, error)
            return max(stat.version, self._last_epoch)
        self._complaints.forget(paths.CONTROLLER_EPOCH)
        return max(epoch, self._last_epoch)

    async def _is_epoch_untouched(self, claim: ControllerClaim) -> bool:
        """Whether this controller can write; a foreign write to the epoch fences it off, and no other broker would be elected."""
        stat = await self._coordination.exists(paths.CONTROLLER_EPOCH, watch=self._on_controller_change)
        return stat is not None and stat.version == claim.epoch_version

    async def _ensure_epoch(self) -> None:
        try:
            await self._coordination.create(paths.CONTROLLER_EPOCH, b"0")
        except NodeExists:
            return

    async def _delete_controller(self) -> None:
        try:
            await self._coordination.delete(paths.CONTROLLER)
        except NoNode:
            return

    def _on_controller_change(self, _event: WatchEvent) -> None:
        self._wake.set()

    def _on_session(self, state: SessionState) -> None:
        if state is SessionState.LOST and self.claim is not None:
            self._resign()
        if state is SessionState.CONNECTED:
            self._wake.set()

    def _resign(self) -> None:
        _log.info("broker %d is no longer the controller", self._broker_id)
        self.claim = None
        self._on_resigned()
