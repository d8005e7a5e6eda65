"""The znodes as the active controller uses them: fenced writes, direct reads of partitions, and a view that has caught up."""

import asyncio
import logging
from collections.abc import Mapping

from millstream.cluster.controller.controller import Controller
from millstream.cluster.controller.metadata_writer import MetadataWriter
from millstream.coordination import paths
from millstream.coordination.cluster_watcher import BROKERS, CHANGES, ClusterWatcher
from millstream.coordination.interface import Coordination
from millstream.coordination.many_reads import Found, get_all
from millstream.coordination.partition_state import PartitionState
from millstream.topic_partition import TopicPartition

logger = logging.getLogger(__name__)


class ControlledTree:
    """Implements `ControllerTree`."""

    def __init__(self, coordination: Coordination, watcher: ClusterWatcher, writer: MetadataWriter, controller: Controller) -> None:
        self._coordination = coordination
        self._watcher = watcher
        self.write_states = writer.write_states
        self.announce = writer.announce
        self.restore_partition = writer.restore_partition
        self.finish_half_done = controller.finish_half_done

    async def catch_up(self, *, timeout_ms: int) -> bool:
        """Wait until the view of this broker has all that was written before the call; False when the time ran out first."""
        caught_up = (self._watcher.catch_up(stale, timeout_ms=timeout_ms) for stale in (CHANGES, BROKERS))
        return all(await asyncio.gather(*caught_up))

    async def read_states(self, known: Mapping[TopicPartition, PartitionState]) -> Mapping[TopicPartition, PartitionState]:
        """Partitions as they stand in the tree; without those that are gone."""
        found = await get_all(self._coordination, (paths.partition(*name) for name in known))
        return {name: _state(name, one, known[name]) for name, one in zip(known, found, strict=True) if one is not None}


def _state(name: TopicPartition, found: Found, known: PartitionState) -> PartitionState:
    """The state. One that makes no sense is taken for the known one, so that the next decision replaces it."""
    try:
        state = PartitionState.decode(found.data, partition_epoch=found.stat.version)
        state.check_follows(known)
    except ValueError as error:
        logger.error("the znode %s makes no sense, and is replaced with the next decision: %s", paths.partition(*name), error)
        return known.read_at(found.stat.version)
    return state
