"""Writes topics, partitions and the lives of brokers, as the controller: the only one who does.

Every write is a multi that checks the controller epoch (`claim.fence`): a controller that was replaced without knowing it cannot write any
more. What brokers have to notice is named in the list of changes (`/changes`), which the same multi sets. No other broker can write that
list meanwhile, so this writer keeps it in memory. Writes are sent one after the other, those that wait together. A write that failed leaves
its change in the list; then something is read that did not change.

What is too large for one transaction is written in several. Of a topic, the last one makes it visible:

    creation   topic in phase "creating", partitions in chunks, then the phase becomes ""
    growth     partitions in chunks, then their number
    deletion   phase "deleting" (from here on the topic is gone for everybody), partitions in chunks, then the topic
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from millstream.coordination import paths
from millstream.coordination.change_log import MAX_CHANGES, ChangeLog
from millstream.coordination.cluster_view import TopicState
from millstream.coordination.cluster_watcher import ClusterWatcher
from millstream.coordination.election import ControllerClaim
from millstream.coordination.interface import Check, Coordination, Create, Delete, Operation, SetData
from millstream.coordination.many_reads import children_of
from millstream.coordination.partition_state import PartitionState
from millstream.coordination.topic_header import COMPLETE, CREATING, DELETING, TopicHeader
from millstream.errors import NotController
from millstream.topic_partition import TopicPartition
from millstream.zookeeper.errors import BadVersion, ConnectionLost, NodeExists, NoNode, NotEmpty, ZooKeeperError

logger = logging.getLogger(__name__)

MAX_OPERATIONS: Final = 500
"""In one transaction: the embedded tree makes it in one turn of the loop."""
MAX_BYTES: Final = 400_000
"""Of paths and data in one transaction; ZooKeeper takes 1 MB, and the list of changes comes on top."""
_OPERATION_BYTES: Final = 40
READ_WITHIN_S: Final = 10.0
FEW_CHANGES: Final = 500
"""How many of the changes that are older than that stay in the list, for brokers that come back."""

Touched = Sequence[tuple[str, tuple[int, ...] | None]]
Write = Create | SetData | Delete
LIVES: Final[Touched] = (("", None),)
NOTHING: Final[Touched] = ()


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    """A write that is to be sent."""

    claim: ControllerClaim
    operations: Sequence[Operation]
    touched: Touched
    written: asyncio.Future[None]

    @property
    def size(self) -> int:
        return sum(map(_size, self.operations))


class MetadataWriter:
    """Writes; decisions are made by others."""

    def __init__(self, coordination: Coordination, watcher: ClusterWatcher, *, claim: Callable[[], ControllerClaim | None]) -> None:
        self._coordination = coordination
        self._watcher = watcher
        self._claim = claim
        self._changes = ChangeLog()
        self._changes_of: ControllerClaim | None = None
        """The claim under which the list of changes was read: before it, others wrote the list."""
        self._forgettable = self._marked = 0
        """Changes up to the first are older than `READ_WITHIN_S`; the second becomes the first when that time has passed."""
        self._marked_at = 0.0
        self._queue: deque[_Waiting] = deque()
        self._sending = asyncio.Lock()
        self._sends: set[asyncio.Task[None]] = set()
        self._under_way: set[str] = set()
        """Topics that are being created or deleted."""

    async def write_states(self, states: Mapping[TopicPartition, PartitionState], lives: Mapping[int, int] | None = None) -> None:
        """Replace partitions, each in the version that its `partition_epoch` says; then the lives that have been dealt with by that.

        BadVersion (NoNode) if a partition was changed (removed) meanwhile; what was written before, in other chunks, stays.
        """
        named = sorted(states)
        written = [SetData(paths.partition(*name), states[name].encode(), states[name].partition_epoch) for name in named]
        last = [await self._life(broker, epoch) for broker, epoch in (lives or {}).items()]
        start = 0
        for chunk in chunks_of(written):
            touched = _touched(named[start : start + len(chunk)])
            start += len(chunk)
            is_last = start == len(written)
            await self.write([*chunk, *(last if is_last else ())], [*touched, *(LIVES if last and is_last else ())])
        if last and not written:
            await self.write(last, LIVES)

    async def announce(self, names: Iterable[TopicPartition]) -> None:
        """Have every broker read these partitions again, which another hand has changed."""
        await self.write([], _touched(names))

    async def restore_partition(self, topic: TopicState, number: int, state: PartitionState) -> bool:
        """Create the znode of a partition that another hand has removed, in the version that it had: brokers ignore lower ones.

        False if the topic is not in this version any more (it may be on its way out), or the znode is there after all.
        """
        path, data = paths.partition(topic.name, number), state.encode()
        writes: list[Write] = [Create(path, data), *(SetData(path, data, version) for version in range(state.partition_epoch))]
        try:
            for chunk in chunks_of(writes):
                await self.write([Check(paths.topic(topic.name), topic.version), *chunk], NOTHING)
        except (BadVersion, NoNode, NodeExists) as error:
            logger.warning("the znode %s is gone, and cannot be brought back: %r", path, error)
            return False
        logger.warning("the znode %s was removed by another hand, and is back as it was", path)
        return True

    async def create_topic(self, topic: TopicState) -> None:
        """Write a topic that is not there; NodeExists if it is. One that was left half created or half deleted is removed first."""
        name = topic.name
        if name in self._under_way:
            raise NodeExists(paths.topic(name))
        self._under_way.add(name)
        try:
            await self._create_topic(topic)
        except NodeExists:
            if not await self._remove_unfinished(name):
                raise
            await self._create_topic(topic)
        finally:
            self._under_way.discard(name)

    async def _create_topic(self, topic: TopicState) -> None:
        path, header = paths.topic(topic.name), topic.header
        chunks = list(chunks_of(_creations(topic.name, topic.partitions, first=0), room=len(header.encode())))
        whole = [(topic.name, None)]
        if len(chunks) == 1:
            await self.write([Create(path, header.encode()), Create(paths.partitions(topic.name)), *chunks[0]], whole)
            return
        begun = header._replace(phase=CREATING)
        await self.write([Create(path, begun.encode()), Create(paths.partitions(topic.name))], whole)
        for chunk in chunks:
            await self.write([Check(path, 0), *chunk], NOTHING)
        await self.write([SetData(path, header.encode(), 0)], whole)

    async def grow_topic(self, topic: TopicState) -> None:
        """Add the partitions that the topic has more than in the tree, where its znode has `topic.version`; else BadVersion or NoNode."""
        try:
            await self._grow_topic(topic)
        except NodeExists:
            await self._remove_partitions_beyond(topic)
            await self._grow_topic(topic)

    async def _grow_topic(self, topic: TopicState) -> None:
        path, header = paths.topic(topic.name), topic.header
        try:
            present, version = await self.read_header(topic.name)
        except ValueError as error:
            raise BadVersion(f"{path} makes no sense: {error}") from None
        if version != topic.version:
            raise BadVersion(path)
        creations = _creations(topic.name, topic.partitions, first=present.partitions)
        chunks = list(chunks_of(creations, room=len(header.encode())))
        for chunk in chunks[:-1]:
            await self.write([Check(path, topic.version), *chunk], NOTHING)
        await self.write([SetData(path, header.encode(), topic.version), *chunks[-1]], [(topic.name, None)])

    async def set_header(self, name: str, header: TopicHeader, *, version: int) -> None:
        """Replace what a topic's own znode says, in this version."""
        await self.write([SetData(paths.topic(name), header.encode(), version)], [(name, None)])

    async def delete_topic(self, name: str, header: TopicHeader, *, version: int) -> None:
        """Remove a topic whose znode has this version; else BadVersion or NoNode."""
        self._under_way.add(name)
        try:
            await self._delete_topic(name, header, version=version)
        finally:
            self._under_way.discard(name)

    async def _delete_topic(self, name: str, header: TopicHeader, *, version: int) -> None:
        path, whole = paths.topic(name), [(name, None)]
        children = await children_of(self._coordination, paths.partitions(name))
        chunks = list(chunks_of([Delete(f"{paths.partitions(name)}/{child}") for child in children]))
        parent = [Delete(paths.partitions(name))] if await self._coordination.exists(paths.partitions(name)) is not None else []
        if len(chunks) > 1 and header.phase != DELETING:
            await self.set_header(name, header._replace(phase=DELETING), version=version)
            version += 1
        for chunk in chunks[:-1]:
            await self.write([Check(path, version), *chunk], NOTHING)
        await self.write([*(chunks[-1] if chunks else ()), *parent, Delete(path, version)], whole)

    async def finish(self, name: str) -> None:
        """Remove the topic if it was left half created or half deleted, and no one is at it."""
        if name in self._under_way:
            return
        try:
            await self._remove_unfinished(name)
        except (BadVersion, NoNode, NodeExists, NotEmpty) as error:
            logger.warning("topic %s was left unfinished, and is written to by others: %r", name, error)

    async def read_header(self, name: str) -> tuple[TopicHeader, int]:
        """A topic's header as it is in the tree, and its version; NoNode if there is none, ValueError if it makes no sense."""
        data, stat = await self._coordination.get(paths.topic(name))
        return TopicHeader.decode(name, data), stat.version

    async def write(self, operations: Sequence[Operation], touched: Touched = NOTHING) -> None:
        """A fenced write, all or nothing; with `touched`, it also sets the list of changes. NotController if there is another controller.

        Writes that wait at the same time are sent together: thousands of topics are created in few transactions.
        """
        claim = self._claim()
        if claim is None:
            raise NotController("this broker is not the controller")
        waiting = _Waiting(claim, operations, touched, asyncio.get_running_loop().create_future())
        self._queue.append(waiting)
        try:
            async with self._sending:
                if not waiting.written.done() and self._queue:
                    sending = asyncio.create_task(self._send(self._next_batch()))
                    self._sends.add(sending)
                    sending.add_done_callback(self._sends.discard)
                    await asyncio.shield(sending)  # others wait for it too, so it does not end with this caller
            await waiting.written
        except asyncio.CancelledError:
            waiting.written.cancel()
            if waiting in self._queue:
                self._queue.remove(waiting)
            raise

    def _next_batch(self) -> "list[_Waiting]":
        """What goes into one transaction: as much as fits, of one claim."""
        batch = [self._queue.popleft()]
        room = MAX_BYTES - batch[0].size
        count = len(batch[0].operations)
        while self._queue:
            waiting = self._queue[0]
            room -= waiting.size
            count += len(waiting.operations)
            if room < 0 or count > MAX_OPERATIONS or waiting.claim != batch[0].claim:
                break
            batch.append(self._queue.popleft())
        return batch

    async def _send(self, batch: "list[_Waiting]") -> None:
        """One transaction. If one write cannot be done, that one fails, and the others are sent again."""
        failure: Exception = ConnectionLost("the write was given up")
        try:
            while batch:
                settled, outcome = await self._try_to_send(batch)
                _settle(settled, outcome)
                batch = [waiting for waiting in batch if waiting not in settled]
        except ZooKeeperError as error:
            failure = error
        finally:
            _settle(batch, failure)

    async def _try_to_send(self, batch: "list[_Waiting]") -> "tuple[list[_Waiting], Exception | None]":
        """Which writes are settled by that, and what was wrong with them."""
        claim = batch[0].claim
        if claim != self._claim():
            return list(batch), NotController("this broker is not the controller any more")
        if self._changes_of != claim:
            await self._read_changes(claim)
        operations: list[Operation] = [claim.fence()]
        owners: list[_Waiting | None] = [None]
        for waiting in batch:
            operations += waiting.operations
            owners += [waiting] * len(waiting.operations)
        touched = [one for waiting in batch for one in waiting.touched]
        if touched:
            self._forget_old_changes()
            self._changes = self._changes.with_changes(touched)
            operations.append(SetData(paths.CHANGES, self._changes.encode()))
        try:
            await self._coordination.multi(operations)
        except (BadVersion, NoNode, NodeExists, NotEmpty) as error:
            index = error.operation_index or 0
            if index == 0:
                return list(batch), NotController("another broker is the controller by now")
            if index == len(owners):
                self._changes_of = None  # the list was removed: it is made again
                return [], None
            culprit = owners[index]
            assert culprit is not None
            return [culprit], error
        return list(batch), None

    def _forget_old_changes(self) -> None:
        """What every broker has had time to read need not be written again with each change."""
        now = asyncio.get_running_loop().time()
        if now > self._marked_at + READ_WITHIN_S:
            self._forgettable, self._marked, self._marked_at = self._marked, self._changes.last, now
        self._changes = self._changes.forgetting(self._forgettable, keep=FEW_CHANGES)

    async def _read_changes(self, claim: ControllerClaim) -> None:
        """Take over the list that the last controller left. After a list that was lost, ours begins behind every number of it."""
        highest = max(self._changes.last, self._watcher.last_change)
        try:
            data, stat = await self._coordination.get(paths.CHANGES)
        except NoNode:
            with suppress(NodeExists):
                await self._coordination.create(paths.CHANGES)
            data, stat = await self._coordination.get(paths.CHANGES)
        try:
            changes = ChangeLog.decode(data)
        except ValueError:
            changes = ChangeLog()
        if not changes.changes or changes.last < highest:
            # Transactions are numbered upwards, and none of them names so many changes.
            changes = ChangeLog(max(highest + MAX_CHANGES, stat.mzxid * MAX_CHANGES))
        self._changes = changes
        self._changes_of = claim

    async def _life(self, broker: int, epoch: int) -> Operation:
        path, data = paths.broker_epoch(broker), str(epoch).encode()
        return Create(path, data) if await self._coordination.exists(path) is None else SetData(path, data)

    async def _remove_unfinished(self, name: str) -> bool:
        """Whether there was such a topic, which was left half created or half deleted and is gone now."""
        try:
            header, version = await self.read_header(name)
        except (NoNode, ValueError):
            return False
        if header.phase == COMPLETE:
            return False
        await self._delete_topic(name, header, version=version)
        return True

    async def _remove_partitions_beyond(self, topic: TopicState) -> None:
        """Remove what a growth left behind that was not finished."""
        header, version = await self.read_header(topic.name)
        children = await children_of(self._coordination, paths.partitions(topic.name))
        numbers = [child for child in children if not _is_one_of(child, header.partitions)]
        for chunk in chunks_of([Delete(f"{paths.partitions(topic.name)}/{child}") for child in numbers]):
            await self.write([Check(paths.topic(topic.name), version), *chunk], NOTHING)


def _settle(writes: Iterable[_Waiting], outcome: Exception | None) -> None:
    for waiting in writes:
        if waiting.written.done():
            continue
        if outcome is None:
            waiting.written.set_result(None)
        else:
            waiting.written.set_exception(outcome)


def _creations(name: str, partitions: Sequence[PartitionState], *, first: int) -> list[Write]:
    return [Create(paths.partition(name, number), partitions[number].encode()) for number in range(first, len(partitions))]


def _touched(names: Iterable[TopicPartition]) -> list[tuple[str, tuple[int, ...]]]:
    """The partitions of each topic together."""
    found: dict[str, list[int]] = {}
    for topic, partition in names:
        found.setdefault(topic, []).append(partition)
    return [(topic, tuple(partitions)) for topic, partitions in found.items()]


def _is_one_of(child: str, count: int) -> bool:
    return child.isdecimal() and int(child) < count


def chunks_of(operations: Sequence[Write], *, room: int = 0) -> Iterator[list[Write]]:
    """The operations in portions that fit into one transaction each, with `room` bytes for something else."""
    chunk: list[Write] = []
    size = room
    for operation in operations:
        needed = _size(operation)
        if chunk and (len(chunk) == MAX_OPERATIONS or size + needed > MAX_BYTES):
            yield chunk
            chunk, size = [], room
        chunk.append(operation)
        size += needed
    if chunk:
        yield chunk


def _size(operation: Operation) -> int:
    return len(operation.path) + _OPERATION_BYTES + (len(operation.data or b"") if isinstance(operation, Create | SetData) else 0)
