"""The znodes as the active controller uses them: fenced writes, direct reads of partitions, and a view that has caught up."""

import asyncio
import logging
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final

from millstream.cluster.controller import Controller
from millstream.cluster.layout_conversion import convert_layout
from millstream.cluster.metadata_writer import MetadataWriter
from millstream.coordination import paths
from millstream.coordination.cluster_watcher import BROKERS, CHANGES, ClusterWatcher
from millstream.coordination.interface import Coordination
from millstream.coordination.partition_state import PartitionState
from millstream.topic_partition import TopicPartition
from millstream.zookeeper.errors import NoNode

logger = logging.getLogger(__name__)

AT_ONCE: Final = 250
"""Reads under way at a time."""


class ControlledTree:
    """Implements `ControllerTree`."""

    def __init__(self, coordination: Coordination, watcher: ClusterWatcher, writer: MetadataWriter, controller: Controller) -> None:
        self._coordination = coordination
        self._watcher = watcher
        self._writer = writer
        self._controller = controller
        self.write_states = writer.write_states
        self.announce = writer.announce

    async def catch_up(self, *, timeout_ms: int) -> bool:
        """Wait until the view of this broker has all that was written before the call; False when the time ran out first."""
        caught_up = (self._watcher.catch_up(stale, timeout_ms=timeout_ms) for stale in (CHANGES, BROKERS))
        return all(await asyncio.gather(*caught_up))

    async def finish_half_done(self) -> None:
        """End what another controller began, and take over what an older release left."""
        await convert_layout(self._coordination, self._writer)
        await self._controller.finish_half_done()

    async def read_states(self, known: Mapping[TopicPartition, PartitionState]) -> Mapping[TopicPartition, PartitionState]:
        """Partitions as they stand in the tree; without those that are gone."""
        found: dict[TopicPartition, PartitionState] = {}
        names: Iterator[TopicPartition] = iter(known)
        while some := list(islice(names, AT_ONCE)):
            states = await asyncio.gather(*(self._read_state(name, known[name]) for name in some))
            found.update((name, state) for name, state in zip(some, states, strict=True) if state is not None)
        return found

    async def _read_state(self, name: TopicPartition, known: PartitionState) -> PartitionState | None:
        """The state. One that makes no sense is taken for the known one, so that the next decision replaces it."""
        path = paths.partition(name.topic, name.partition)
        try:
            data, stat = await self._coordination.get(path)
        except NoNode:
            return None
        try:
            state = PartitionState.decode(data, partition_epoch=stat.version)
            state.check_follows(known)
        except ValueError as error:
            logger.error("the znode %s makes no sense, and is replaced with the next decision: %s", path, error)
            return known.read_at(stat.version)
        return state
