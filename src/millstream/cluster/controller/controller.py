"""The controller's decisions about topics: creation, growth, deletion, options.

Decisions are made on the `ClusterView` and then written (`metadata_writer`, which also makes sure that this broker is the controller); the
version of the topic's znode is part of the write, so a decision made on an old picture fails and is made again. Nothing here touches a log:
brokers follow the znodes.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from uuid import UUID, uuid4
from weakref import WeakValueDictionary

from millstream.cluster.controller.layout_conversion import convert_layout
from millstream.cluster.controller.metadata_writer import MetadataWriter
from millstream.cluster.controller.placement import check_assignment, place
from millstream.coordination import paths
from millstream.coordination.cluster_view import DEFAULT_BROKER, ClusterView, TopicState, decode_configs, encode_configs
from millstream.coordination.cluster_watcher import CHANGES, ClusterWatcher, Stale
from millstream.coordination.interface import Coordination, Create, SetData
from millstream.coordination.partition_state import PartitionState
from millstream.coordination.topic_header import CREATING, TopicHeader
from millstream.coordination.topic_names import check_collision, check_name
from millstream.errors import (
    InvalidConfig,
    InvalidPartitions,
    InvalidReplicaAssignment,
    RequestTimedOut,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from millstream.zookeeper.errors import BadVersion, NodeExists, NoNode

logger = logging.getLogger(__name__)

MAX_TRIES = 5
MAX_CONFIGS_BYTES = 100_000
"""Of the own options of a topic or a broker. ZooKeeper ends the connection of whoever sends it 1 MB, and all others on it wait."""
REGISTERED_WITHIN_MS = 5_000
"""How long a request waits for the controller's own broker, which is registered anew after its session has ended."""


class Controller:
    """Creates, changes and deletes topics."""

    def __init__(self, coordination: Coordination, watcher: ClusterWatcher, writer: MetadataWriter) -> None:
        self._coordination = coordination
        self._watcher = watcher
        self._writer = writer
        self._altering: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @property
    def view(self) -> ClusterView:
        """The cluster as it was read last: decisions are made about topics, too, that clients do not see yet."""
        return self._watcher.newest

    async def wait_for_brokers(self) -> None:
        """Return when there is a broker for partitions to be placed on; RequestTimedOut, after which clients ask again, if none comes.

        The controller's own broker lives: while none is in the view, its session has just ended, and it is registered in the next one soon.
        """
        if not await self._watcher.until(lambda view: bool(view.brokers), timeout_ms=REGISTERED_WITHIN_MS):
            raise RequestTimedOut(f"no broker was registered for {REGISTERED_WITHIN_MS} ms; try again")

    def plan_topic(
        self,
        name: str,
        *,
        partitions: int,
        replication_factor: int,
        configs: Mapping[str, str],
        assignment: Mapping[int, Sequence[int]] | None = None,
    ) -> TopicState:
        """The topic as it would be created; raises whatever stands against it."""
        check_name(name)
        if name in self.view.topics:
            raise TopicAlreadyExists(f"topic {name!r} already exists")
        check_collision(name, self.view.topics)
        _check_size(configs)
        topic_id = uuid4()
        states = self._plan_partitions(topic_id, count=partitions, factor=replication_factor, assignment=assignment)
        return TopicState(name=name, topic_id=topic_id, partitions=states, configs=dict(configs))

    async def create_topic(self, topic: TopicState, *, timeout_ms: int) -> None:
        """Write a planned topic and wait until this broker has opened its logs."""
        try:
            await self._writer.create_topic(topic)
        except NodeExists:
            raise TopicAlreadyExists(f"topic {topic.name!r} already exists") from None
        options = "".join(f", {name}={value}" for name, value in sorted(topic.configs.items()))
        logger.info(
            "topic %s created: %d partition(s), %d replica(s)%s",
            topic.name,
            len(topic.partitions),
            len(topic.partitions[0].replicas),
            options,
        )
        was_known = False

        def is_settled(view: ClusterView) -> bool:
            nonlocal was_known
            is_known = topic.topic_id in self.view.topics_by_id
            is_deleted_again, was_known = was_known and not is_known, was_known or is_known
            return topic.topic_id in view.topics_by_id or is_deleted_again

        await self._settle(is_settled, timeout_ms, f"topic {topic.name!r} was created")

    async def delete_topic(self, topic: TopicState, *, timeout_ms: int) -> None:
        """Remove a topic, and not another one that has its name by now, and wait until this broker has let go of it."""

        async def write() -> None:
            header, version = await self._read_header(topic.name)
            if header.topic_id != topic.topic_id:
                raise UnknownTopicOrPartition(f"topic {topic.name!r} was deleted and created again")
            await self._writer.delete_topic(topic.name, header, version=version)

        await self._retry_on_conflict(write)
        logger.info("topic %s deleted, with %d partition(s)", topic.name, len(topic.partitions))
        await self._settle(lambda _view: topic.topic_id not in self.view.topics_by_id, timeout_ms, f"topic {topic.name!r} was deleted")

    def plan_partitions(self, name: str, *, count: int, assignments: Sequence[Sequence[int]] | None) -> TopicState:
        """The topic with more partitions; raises whatever stands against it."""
        topic = self._topic(name)
        present = len(topic.partitions)
        if count <= present:
            raise InvalidPartitions(f"topic {name!r} has {present} partitions already; {count} is not more")
        given = None
        if assignments is not None:
            if len(assignments) != count - present:
                raise InvalidReplicaAssignment(f"{count - present} new partitions, but {len(assignments)} assignments")
            given = {present + number: replicas for number, replicas in enumerate(assignments)}
        factor = len(topic.partitions[0].target_replicas)
        added = self._plan_partitions(topic.topic_id, count=count - present, factor=factor, assignment=given, first=present)
        return replace(topic, partitions=topic.partitions + added)

    async def create_partitions(self, topic: TopicState, *, timeout_ms: int) -> None:
        """Write a planned growth and wait until this broker has opened the logs."""
        try:
            await self._writer.grow_topic(topic)
        except (BadVersion, NoNode):
            raise InvalidPartitions(f"topic {topic.name!r} was changed by another request at the same time; try again") from None
        count = len(topic.partitions)
        logger.info("topic %s altered: it has %d partitions now", topic.name, count)
        await self._settle(lambda view: _partition_count(view, topic.name) >= count, timeout_ms, f"partitions of {topic.name!r} were added")

    async def alter_topic_configs(self, name: str, change: Callable[[Mapping[str, str]], Mapping[str, str]], *, timeout_ms: int) -> None:
        """Replace a topic's own configs by `change(configs)`, on whatever they are at the moment of writing."""

        async def write() -> None:
            header, version = await self._read_header(name)
            configs = _check_size(change(header.configs))
            await self._writer.set_header(name, header._replace(configs=configs), version=version)
            logger.info("topic %s altered: %s", name, _difference(header.configs, configs))

        await self._alter(paths.topic(name), write)
        await self._catch_up(CHANGES, timeout_ms, f"configs of topic {name!r} were changed")

    async def finish_half_done(self) -> None:
        """What a newly elected controller does first, on a view that is caught up: end what was left half done, by whatever release."""
        await convert_layout(self._coordination, self._writer)
        for name in sorted(self._watcher.unfinished_topics):
            await self._writer.finish(name)

    async def alter_broker_configs(self, broker: str, change: Callable[[Mapping[str, str]], Mapping[str, str]], *, timeout_ms: int) -> None:
        """Replace the dynamic configs of one broker (or of all, `<default>`) by `change(configs)`, as above."""
        path = paths.broker_config(None if broker == DEFAULT_BROKER else int(broker))

        async def write() -> None:
            try:
                data, stat = await self._coordination.get(path)
            except NoNode:
                await self._writer.write([Create(path, encode_configs(_check_size(change({}))))])
            else:
                configs = _check_size(change(self._configs_in(data, broker)))
                await self._writer.write([SetData(path, encode_configs(configs), stat.version)])

        await self._alter(path, write)
        await self._catch_up(("config", broker), timeout_ms, f"configs of broker {broker} were changed")

    def _plan_partitions(
        self, topic_id: UUID, *, count: int, factor: int, assignment: Mapping[int, Sequence[int]] | None, first: int = 0
    ) -> tuple[PartitionState, ...]:
        """New partitions, on these brokers or by the rule; brokers that are gone for now may be among them, as in Kafka."""
        view = self.view
        if assignment is not None:
            fixed = factor if first else None
            replicas = check_assignment(assignment, {*view.brokers, *view.lives}, first_partition=first, replication_factor=fixed)
        else:
            racks = {broker.node_id: broker.rack for broker in view.brokers.values()}
            replicas = place(
                racks, gone=view.lives, partitions=count, replication_factor=factor, first_partition=first, shift=topic_id.int >> 64
            )
        alive = frozenset(view.brokers)
        for number, brokers in enumerate(replicas, first):
            if alive.isdisjoint(brokers):
                raise InvalidReplicaAssignment(f"none of the brokers for partition {number} is alive: {list(brokers)}")
        return tuple(PartitionState.first(brokers, alive=alive) for brokers in replicas)

    def _topic(self, name: str) -> TopicState:
        topic = self.view.topics.get(name)
        if topic is None:
            raise UnknownTopicOrPartition(f"topic {name!r} does not exist")
        return topic

    async def _settle(self, predicate: Callable[[ClusterView], bool], timeout_ms: int, what: str) -> None:
        if not await self._watcher.until(predicate, timeout_ms=max(timeout_ms, 1)):
            raise RequestTimedOut(f"{what}, but this broker had not taken it up within {timeout_ms} ms")

    async def _catch_up(self, stale: Stale, timeout_ms: int, what: str) -> None:
        """Wait until this broker has seen the write; not until it sees what was written, which may be overwritten by then."""
        if not await self._watcher.catch_up(stale, timeout_ms=max(timeout_ms, 1)):
            raise RequestTimedOut(f"{what}, but this broker had not taken it up within {timeout_ms} ms")

    async def _read_header(self, name: str) -> tuple[TopicHeader, int]:
        """What the topic's znode says in the tree, which may be ahead of the view, and its version."""
        try:
            data, stat = await self._coordination.get(paths.topic(name))
        except NoNode:
            raise UnknownTopicOrPartition(f"topic {name!r} does not exist") from None
        try:
            header = TopicHeader.decode(name, data)
        except ValueError:
            # The watcher has logged it. What was known before stays true, and is what is changed.
            header = self._topic(name).header
        if header.phase == CREATING:
            raise UnknownTopicOrPartition(f"topic {name!r} does not exist")
        return header, stat.version

    def _configs_in(self, data: bytes, broker: str) -> Mapping[str, str]:
        try:
            return decode_configs(data)
        except ValueError:
            return self.view.broker_configs.get(broker, {})

    async def _alter(self, path: str, write: Callable[[], Awaitable[None]]) -> None:
        """Read, change and write one thing, after all others who are doing so."""
        async with self._altering.setdefault(path, asyncio.Lock()):
            await self._retry_on_conflict(write)

    async def _retry_on_conflict(self, write: Callable[[], Awaitable[None]]) -> None:
        """Read, decide and write again after a concurrent write."""
        for _ in range(MAX_TRIES):
            try:
                await write()
                return
            except (BadVersion, NodeExists, NoNode):
                continue
        raise RequestTimedOut(f"others changed the same thing {MAX_TRIES} times in a row; try again")


def _check_size(configs: Mapping[str, str]) -> dict[str, str]:
    """The options, if they are not too large to be written."""
    size = len(encode_configs(configs))
    if size > MAX_CONFIGS_BYTES:
        longest = max(configs, key=lambda name: len(configs[name]))
        raise InvalidConfig(f"these options take {size} bytes, most of them {longest}; at most {MAX_CONFIGS_BYTES} are allowed")
    return dict(configs)


def _difference(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """What an alteration of options comes to."""
    parts = [f"{name}={value}" for name, value in sorted(after.items()) if before.get(name) != value]
    parts += [f"{name} as by default" for name in sorted(before.keys() - after.keys())]
    return ", ".join(parts) or "nothing"


def _partition_count(view: ClusterView, name: str) -> int:
    topic = view.topics.get(name)
    return len(topic.partitions) if topic else 0
