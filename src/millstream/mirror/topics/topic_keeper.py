"""Keeps the topics of the target in step with those of the source: finds new ones and new partitions, creates, grows, copies options, and
says who copies what from where to where.

A look costs a Metadata request to each side; what the options are is asked now and then, and for topics that are new. A topic that cannot
be mirrored (`Stopped`) is said once, and looked at again with each look: when the reason is gone it is mirrored.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Final

from millstream.client.codecs.metadata import ClusterMetadata, TopicMetadata
from millstream.client.codecs.mirror_append import MirrorAppend
from millstream.errors import MillstreamError, TopicAlreadyExists, UnsupportedVersion, UsageError
from millstream.mirror.clusters.side import Side
from millstream.mirror.clusters.topic_admin import create_topic, grow_topic, options_of, set_options
from millstream.mirror.copying.copies import Copies
from millstream.mirror.copying.mirrored_topic import MirroredTopic
from millstream.mirror.copying.partition_copy import PartitionCopy
from millstream.mirror.mirror_source import OPTION, MirrorSource
from millstream.mirror.settings import MirrorSettings
from millstream.mirror.sharing.assignment import Assignment
from millstream.mirror.topics.topic_plan import SourceTopic, TargetTopic, TopicPlan, plan_topic
from millstream.mirror.trouble import Stopped
from millstream.topic_partition import TopicPartition

logger = logging.getLogger(__name__)

NOT_MIRRORED: Final = frozenset({"_audit", "_audit_state", "_mirror"})
"""Topics that are about one cluster. Those of the brokers themselves, whose names begin with two underscores, are not mirrored either."""

OPTIONS_EVERY: Final = 10
"""Options are asked for only with every tenth look: describing all those of a thousand topics is work for a broker."""

Options = dict[str, dict[str, str]]


class TopicKeeper:
    """The topics of one mirror."""

    def __init__(self, source: Side, target: Side, copies: Copies, *, settings: MirrorSettings, assignment: Assignment) -> None:
        self._source = source
        self._target = target
        self._copies = copies
        self._pattern = settings.pattern
        self._refresh_s = settings.refresh_s
        self._assignment = assignment
        self._loop = asyncio.get_running_loop()
        self._is_target_checked = False
        self._source_options: Options = {}
        self._target_options: Options = {}
        self._options_asked_at = 0.0
        self._refused_options: dict[str, Mapping[str, str | None]] = {}
        """What the target refused, by topic, so that it is not asked again and again."""
        self.refused: dict[str, str] = {}
        """Topics that cannot be mirrored, and why."""

    async def look(self) -> None:
        """Make the target agree with the source, and the copies with both; raises what is in the way of all topics."""
        source, target = await self._source.refresh(), await self._target.refresh()
        if source.cluster_id == target.cluster_id:
            raise UsageError(f"{self._source} and {self._target} are the same cluster ({source.cluster_id}): it cannot be its own mirror")
        await self._check_target()
        names = [name for name, topic in sorted(source.topics.items()) if self._is_wanted(topic)]
        await self._ask_options(names, target)
        has_changed = False
        for name in names:
            has_changed |= await self._look_at(source.topics[name], target.topics.get(name), len(target.brokers))
        if has_changed:
            target = await self._target.refresh()
            self._target_options |= await options_of(self._target, [name for name in names if name in target.topics])
            for name in names:
                await self._look_at(source.topics[name], target.topics.get(name), len(target.brokers))
        self._drop_others(names)
        self._place()

    async def _check_target(self) -> None:
        """Before anything is created there: can it keep offsets?"""
        if not self._is_target_checked:
            try:
                await self._target.ask(MirrorAppend([]))
            except UnsupportedVersion:
                raise UsageError(
                    f"the cluster at {self._target} cannot keep offsets, because it is not Millstream; --merge copies the records into "
                    "ordinary topics, with offsets of their own"
                ) from None
            self._is_target_checked = True

    def _is_wanted(self, topic: TopicMetadata) -> bool:
        is_own = topic.name.startswith("__") or topic.name in NOT_MIRRORED
        return not topic.error_code and not is_own and self._pattern.fullmatch(topic.name) is not None

    async def _ask_options(self, names: Iterable[str], target: ClusterMetadata) -> None:
        names = list(names)
        now = self._loop.time()
        if now - self._options_asked_at >= self._refresh_s * OPTIONS_EVERY:
            self._source_options, self._target_options = {}, {}
            self._options_asked_at = now
        missing = [name for name in names if name not in self._source_options]
        if missing:
            self._source_options |= await options_of(self._source, missing)
        missing = [name for name in names if name not in self._target_options and name in target.topics]
        if missing:
            self._target_options |= await options_of(self._target, missing)

    async def _look_at(self, topic: TopicMetadata, target: TopicMetadata | None, broker_count: int) -> bool:
        """Do for one topic what has to be done; whether the target has changed by it."""
        name = topic.name
        try:
            source = self._describe_source(topic)
            plan = plan_topic(source, self._describe_target(target), target_cluster=self._target.cluster_id, broker_count=broker_count)
            has_changed = await self._carry_out(source.source, plan)
            if target is not None and target.topic_id is not None:
                self._copy(source, target)
            self.refused.pop(name, None)
        except Stopped as error:
            self._refuse(name, str(error))
            return False
        except MillstreamError as error:
            logger.warning("the topic %s is not mirrored for now: %s", name, error)
            self.refused[name] = str(error)
            return False
        return has_changed

    def _describe_source(self, topic: TopicMetadata) -> SourceTopic:
        if topic.topic_id is None:
            raise Stopped("the source has no topic ids; it has to be Millstream, or Apache Kafka 3.5 or newer")
        options = self._source_options.get(topic.name, {})
        replicas = max((len(partition.replicas) for partition in topic.partitions.values()), default=1)
        source = MirrorSource(self._source.cluster_id, topic.topic_id, topic.name)
        return SourceTopic(source, len(topic.partitions), replicas, options)

    def _describe_target(self, topic: TopicMetadata | None) -> TargetTopic | None:
        if topic is None or topic.topic_id is None:
            return None
        replicas = min((len(partition.replicas) for partition in topic.partitions.values()), default=1)
        return TargetTopic(topic.topic_id, len(topic.partitions), replicas, self._target_options.get(topic.name, {}))

    async def _carry_out(self, source: MirrorSource, plan: TopicPlan) -> bool:
        name = source.topic
        if plan.create_partitions:
            logger.info("the topic %s is created at the target with %d partition(s)", name, plan.create_partitions)
            try:
                await create_topic(
                    self._target, name, partitions=plan.create_partitions, replicas=plan.replica_count, options={OPTION: str(source)}
                )
            except TopicAlreadyExists:
                return True  # Another process was quicker; the next look says whether it was a mirror.
        if plan.grow_to:
            logger.info("the topic %s gets %d partitions at the target", name, plan.grow_to)
            await grow_topic(self._target, name, partitions=plan.grow_to)
        if plan.options and self._refused_options.get(name) != plan.options:
            await self._set_options(name, plan.options)
        return bool(plan.create_partitions or plan.grow_to)

    async def _set_options(self, name: str, changes: Mapping[str, str | None]) -> None:
        refused = await set_options(self._target, name, changes)
        known = self._target_options.setdefault(name, {})
        for option, value in changes.items():
            if option in refused:
                continue
            if value is None:
                known.pop(option, None)
            else:
                known[option] = value
        for option, reason in refused.items():
            logger.warning(
                "the target refuses the option %s=%s of the topic %s, which keeps its own: %s", option, changes[option], name, reason
            )
        if refused:
            self._refused_options[name] = {option: changes[option] for option in refused}
        else:
            self._refused_options.pop(name, None)

    def _copy(self, source: SourceTopic, target: TopicMetadata) -> None:
        """Copy those partitions that both sides have and that are ours."""
        assert target.topic_id is not None
        name = target.name
        is_compacted = "compact" in source.options.get("cleanup.policy", "")
        topic = self._copies.topics.get(name)
        if topic is None or topic.source != source.source or topic.target_id != target.topic_id:
            topic = self._copies.topics[name] = MirroredTopic(source.source, target.topic_id, is_compacted)
        topic.is_compacted = is_compacted
        wanted = {
            index
            for index in range(min(source.partition_count, len(target.partitions)))
            if self._assignment.owns(TopicPartition(name, index))
        }
        for index in topic.copies.keys() - wanted:
            del topic.copies[index]
        for index in sorted(wanted - topic.copies.keys()):
            copy = topic.copies[index] = PartitionCopy(TopicPartition(name, index))
            copy.is_paused = self._copies.is_paused(name)

    def _refuse(self, name: str, reason: str) -> None:
        if self.refused.get(name) != reason:
            logger.error("the topic %s is not mirrored: %s", name, reason)
        self.refused[name] = reason
        self._copies.topics.pop(name, None)

    def _drop_others(self, names: Iterable[str]) -> None:
        wanted = set(names)
        for name in self._copies.topics.keys() - wanted:
            logger.info("the topic %s is gone from the source; the target keeps what was copied", name)
            del self._copies.topics[name]
        for name in self.refused.keys() - wanted:
            del self.refused[name]

    def _place(self) -> None:
        """Say who reads and who writes each partition."""
        for copy in self._copies:
            copy.source_leader, copy.target_leader = self._source.leader(copy.name), self._target.leader(copy.name)
