"""The partitions this broker keeps, by topic: what a request looks up, kept in step with the `ClusterView`.

`apply` is called with each new view before it is shown to clients. It lets go of partitions that went, hands changed state and configs to
all that stay, and notes which logs have to be opened or created for those that came. `open_logs` does that, portion by portion in a thread
(new files are synced), while further views are applied: whoever has to lead a thousand partitions anew does so at once, whatever is being
opened. With the first view of the broker the logs are opened before `apply` returns. The look-ups are plain dictionaries on the event loop.

A log that was opened is put to use with what the newest view says by then: the state of its partition, or that its topic is gone, and then
the log goes too. Until then its partition is answered as one that another broker leads, as in Kafka: clients come back.

What the view says of this broker is said of one life of it (`ClusterView.lives`). While that is not the present one, because the controller
has not dealt with it yet, logs are opened, and the roles stay as they are.

A replica that another broker has instead (a reassignment was completed or cancelled) is deleted when a view says so that is about the
present life: then it has all that was decided before this broker was registered, and what is decided later counts only what this broker has
by then. A log that is found at a start although it belongs elsewhere is set aside, as in Kafka, and a person decides: the znodes might be
older than it is.

A partition whose log cannot be used is offline: it is answered with a storage error, and is never begun anew and empty on another disk
because the one that holds it failed while the logs were opened.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar
from uuid import UUID

from millstream.cluster.partition import LocalBroker, Partition
from millstream.cluster.topic_access import Client, Operation, check_access, check_mirrored
from millstream.cluster.unopened_logs import Portion, UnopenedLogs
from millstream.coordination.cluster_view import ClusterView, TopicState
from millstream.coordination.partition_state import PartitionState
from millstream.errors import KafkaError, NotLeaderOrFollower, StorageError, UnknownTopicId, UnknownTopicOrPartition
from millstream.log.config import LogConfig
from millstream.log.directories.directory import LogDirectory
from millstream.log.directories.manager import LogManager
from millstream.log.log import Log

logger = logging.getLogger(__name__)

NO_LIFE = -1
PARTITIONS_PER_TURN = 256
"""How many take over their state before others have a turn: some milliseconds."""
DELETED_PER_TURN = 64
"""How many are deleted before others have a turn: the directory of each is renamed."""
TRUNCATION_CHECK_S = 0.005
NAMED_IN_LOG = 5

T = TypeVar("T")
TopicKey = str | bytes
"""A topic by its name or by the 16 bytes of its id."""


class HostedTopic:
    """A topic of which this broker keeps at least one partition."""

    __slots__ = ("lost", "name", "offline", "partitions", "topic_id")

    def __init__(self, name: str, topic_id: UUID) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions: dict[int, Partition] = {}
        self.offline: set[int] = set()
        """Partitions that belong here and whose logs cannot be used."""
        self.lost: set[int] = set()
        """Those of them whose logs were not found at the start and may be on a disk that failed: they wait for it."""


class Replicas:
    """All partitions of this broker."""

    def __init__(
        self,
        logs: LogManager,
        *,
        broker: LocalBroker,
        life: Callable[[], int],
        log_config: Callable[[TopicState], LogConfig],
        remove_later: Callable[[Path, int], None],
    ) -> None:
        """`life` is the broker epoch of the present registration; -1 without one."""
        self._logs = logs
        self._broker = broker
        self._life = life
        self._log_config = log_config
        self._remove_later = remove_later
        self._topics: dict[TopicKey, HostedTopic] = {}
        self._incomplete: set[str] = set()
        """Topics with partitions that are offline: they are tried again with every view."""
        self._unopened = UnopenedLogs()
        self._is_opening = False
        self._newest = ClusterView()
        """The view that is being applied, or was applied last."""
        self._applied: ClusterView | None = None
        self._is_life_known = False
        """Whether the last view was about the present life of this broker."""
        self._applied_life = NO_LIFE
        """The life for which roles were taken last."""
        self._unread: set[str] = set()
        """Topics that could not be read at the start: they are older than it, so their logs are looked for as if they had been."""

    def __iter__(self) -> Iterator[Partition]:
        for key, topic in list(self._topics.items()):
            if isinstance(key, str):
                yield from list(topic.partitions.values())

    def topic(self, key: TopicKey) -> HostedTopic | None:
        """The topic of that name or id, if this broker keeps any of it."""
        return self._topics.get(key)

    def partition_for(self, client: Client, operation: Operation, key: TopicKey | None, index: int) -> Partition:
        """The partition, if the client may do this with it: every partition that a request names is looked up here."""
        partition = self.partition(key, index)
        check_access(client, operation, partition.topic)
        if partition.log.is_mirrored or operation is Operation.MIRROR:
            check_mirrored(operation, partition.topic, partition.log.config.mirror_source)
        return partition

    def partition(self, key: TopicKey | None, index: int) -> Partition:
        """The partition, for the broker itself; raises with Kafka's code for what is unknown."""
        topic = self._topics.get(key)  # type: ignore[arg-type]  # None is no topic's key
        partition = None if topic is None else topic.partitions.get(index)
        if partition is None:
            raise self._missing(key, index)
        return partition

    def state_of(self, key: TopicKey, index: int) -> PartitionState | None:
        """What was decided about a partition, whether it is kept here or elsewhere; None if there is none."""
        hosted = self._topics.get(key)
        if hosted is not None and index in hosted.partitions:
            return hosted.partitions[index].state
        topic = self._known(key)
        return topic.partitions[index] if topic is not None and 0 <= index < len(topic.partitions) else None

    def _known(self, key: TopicKey | None) -> TopicState | None:
        return self.view.topics_by_id.get(UUID(bytes=key)) if isinstance(key, bytes) else self.view.topics.get(key or "")

    def _missing(self, key: TopicKey | None, index: int) -> KafkaError:
        """Why there is no such partition here."""
        hosted = self._topics.get(key)  # type: ignore[arg-type]
        if hosted is not None and index in hosted.offline:
            return StorageError(f"the log of {hosted.name}-{index} cannot be used; the broker's log says why")
        topic = self._known(key)
        if topic is not None and 0 <= index < len(topic.partitions):
            # Kafka's word for it: a client that gets it looks again for who leads.
            is_mine = self._broker.node_id in topic.partitions[index].replicas
            why = "has not opened its log yet" if is_mine else "keeps no replica"
            return NotLeaderOrFollower(f"broker {self._broker.node_id} {why}: {topic.name}-{index}")
        if topic is not None:
            return UnknownTopicOrPartition(f"topic {topic.name!r} has no partition {index}")
        if isinstance(key, bytes):
            return UnknownTopicId(f"no topic has the id {UUID(bytes=key)}")
        return UnknownTopicOrPartition(f"topic {key!r} does not exist")

    @property
    def view(self) -> ClusterView:
        """The view that all of this agrees with."""
        return self._applied or ClusterView()

    @property
    def is_confirmed(self) -> bool:
        """Whether the roles are those of the present registration: after another one nothing is known until a view has spoken of it."""
        return self._applied_life != NO_LIFE and self._applied_life == self._life()

    def has_copies_elsewhere(self, directory: LogDirectory) -> bool:
        """Whether other brokers have replicas of what is kept in that directory."""
        return any(partition.log.directory is directory and len(partition.state.replicas) > 1 for partition in self)

    def high_watermark_of(self, log: Log) -> int:
        """How far the log is committed; of a log without a partition, how far it was when that was last written down."""
        topic = self._topics.get(log.topic)
        partition = topic.partitions.get(log.partition) if topic is not None else None
        if partition is not None:
            return partition.high_watermark.value
        return min(max(self._logs.high_watermarks.get(log.topic_partition, 0), log.log_start_offset), log.log_end_offset)

    def log_shortened(self, log: Log) -> None:
        """Old records of the log were dropped: its readers learn where it begins now."""
        topic = self._topics.get(log.topic)
        partition = topic.partitions.get(log.partition) if topic is not None else None
        if partition is not None:
            partition.watchers.noted()

    @property
    def shown_partitions(self) -> Mapping[str, int]:
        """The topics with logs that are to be opened, and how many of their partitions can be shown to clients until they are."""
        return self._unopened.shown_partitions

    async def apply(self, view: ClusterView) -> None:
        """Make what this broker keeps agree with the view, but for logs that have to be opened (`open_logs`).

        Topics that are as they were in the last view are not looked at.
        """
        life, last = self._life(), self._applied
        is_life_known = view.lives.get(self._broker.node_id) == life
        names = self._names_to_look_at(view, is_life_known=is_life_known)
        self._is_life_known, self._newest = is_life_known, view
        if last is None:
            self._unread = set(view.unreadable_topics)
        gone = [topic for name in names if (topic := self._topics.get(name)) is not None and not _is_same(topic, view.topics.get(name))]
        for topic in gone:
            self._unopened.forget(topic.name)
        await self._let_go(gone)
        states = [view.topics[name] for name in names if name in view.topics]
        is_new_life = is_life_known and self._applied_life != life
        await self._move(states)
        if is_new_life:
            await self._set_strays_aside(view)
        self._applied_life = life if is_life_known else NO_LIFE
        for state in states:
            self._take_up(state, last)
        self._unread &= view.unreadable_topics
        if last is None:
            await self.open_logs()
        self._applied = view
        if last is not None and not last.brokers.keys() <= view.brokers.keys():
            self._commit_what_waits()

    async def open_logs(self, on_opened: Callable[[], None] = lambda: None) -> None:
        """Open the logs that are to be opened; `on_opened` is called when all of a topic are. At once if that is under way already."""
        if self._is_opening:
            return
        self._is_opening = True
        try:
            while (portion := self._unopened.next_portion()) is not None:
                config = self._log_config(self._newest.topics[portion.topic])
                self._put_to_use(portion, await _in_thread(partial(self._open_portion, portion, config)))
                if self._unopened.done(portion):
                    await self._begin_to_follow(self._topics[portion.topic])
                    on_opened()
        finally:
            self._is_opening = False

    def _commit_what_waits(self) -> None:
        """A follower that was about to join, and is gone, holds nothing up any more; there may be no other fetch that notices."""
        for partition in self:
            if partition.leading is not None and partition.high_watermark.value < partition.log.log_end_offset:
                partition.leading.commit()

    async def _move(self, states: Iterable[TopicState]) -> None:
        """Hand their states and configs to the partitions that are here."""
        follows: list[Partition] = []
        began: list[Partition] = []
        ceased: list[Partition] = []
        gone: list[Partition] = []
        count = 0
        for state in states:
            topic = self._topics.get(state.name)
            if topic is None:
                continue
            config = self._log_config(state)
            for present in list(topic.partitions.values()):  # logs are opened meanwhile
                if present.index < len(state.partitions):
                    was_leader = present.is_leader
                    self._update(present, state, config, follows)
                    if self._is_kept_elsewhere(state, present.index) and present.state == state.partitions[present.index]:
                        gone.append(present)
                    if present.is_leader is not was_leader:
                        (ceased if was_leader else began).append(present)
                else:
                    logger.error(
                        "topic %s claims to have %d partitions; partition %d stays", state.name, len(state.partitions), present.index
                    )
                count += 1
                if count % PARTITIONS_PER_TURN == 0:
                    await asyncio.sleep(0)
        if began or ceased:
            logger.info("this broker leads %s, and no longer %s", _named(began), _named(ceased))
            ceased.clear()
        await self._follow(follows)
        await self._give_away(gone)

    def _is_kept_elsewhere(self, state: TopicState, index: int) -> bool:
        """Whether it is certain that this broker keeps no replica of the partition."""
        return self._is_life_known and index < len(state.partitions) and self._broker.node_id not in state.partitions[index].replicas

    async def _give_away(self, partitions: list[Partition]) -> None:
        """Delete replicas that other brokers have instead. The list is used up: thousands are not freed in one turn of the loop."""
        if not partitions:
            return
        logger.info("this broker keeps %s no longer: other brokers do", _named(partitions))
        for count in range(1, len(partitions) + 1):
            partition = partitions.pop()
            topic = self._topics[partition.topic]
            del topic.partitions[partition.index]
            await self._end(
                partition, NotLeaderOrFollower(f"broker {self._broker.node_id} no longer keeps {partition.topic}-{partition.index}")
            )
            self._delete(partition.log)
            if count % DELETED_PER_TURN == 0:
                await asyncio.sleep(0)

    async def _set_strays_aside(self, view: ClusterView) -> None:
        """Put the logs out of the way that this broker has, and that other brokers are to keep: it was away when that was decided."""
        for count, log in enumerate(self._logs, 1):
            topic, hosted = view.topics.get(log.topic), self._topics.get(log.topic)
            is_in_use = hosted is not None and log.partition in hosted.partitions
            if topic is not None and log.topic_id == topic.topic_id and not is_in_use and self._is_kept_elsewhere(topic, log.partition):
                try:
                    logger.warning("%s belongs to other brokers by now; it is kept as %s", log.path, self._logs.set_log_aside(log).name)
                except KafkaError as error:
                    logger.error("cannot set the log of %s aside: %s", log.topic_partition, error)
            if count % DELETED_PER_TURN == 0:
                await asyncio.sleep(0)

    def _is_older_than_the_start(self, name: str) -> bool:
        return self._applied is None or name in self._unread

    def _names_to_look_at(self, view: ClusterView, *, is_life_known: bool) -> Collection[str]:
        """What changed, and what could not be had the last time; everything at first, and when options of brokers changed."""
        last = self._applied
        if last is None or view.broker_configs is not last.broker_configs or is_life_known is not self._is_life_known:
            return dict.fromkeys([*(key for key in self._topics if isinstance(key, str)), *view.topics])
        return {*view.topics_changed_since(last), *self._incomplete}

    def _take_up(self, state: TopicState, last: ClusterView | None) -> None:
        """Note which partitions are not here yet."""
        mine = [index for index, partition in enumerate(state.partitions) if self._broker.node_id in partition.replicas]
        topic = self._topics.get(state.name)
        if topic is None:
            if not mine:
                return
            topic = HostedTopic(state.name, state.topic_id)
            self._topics[state.name] = self._topics[state.topic_id.bytes] = topic
        if self._is_older_than_the_start(state.name) and self._is_a_disk_missing:
            topic.lost = {index for index in mine if self._logs.get(state.name, index) is None}
            for index in sorted(topic.lost):
                logger.error("partition %s-%d is offline: its log was not found and may be on the disk that failed", state.name, index)
        elif self._is_life_known:
            topic.lost.intersection_update(mine)  # what other brokers keep by now would be a new replica here
        topic.offline = (topic.offline | topic.lost).intersection(mine)
        self._note_offline(topic)
        missing = [index for index in mine if index not in topic.partitions and index not in topic.lost]
        if missing:
            known = None if last is None else last.topics_by_id.get(state.topic_id)
            self._unopened.add(state, missing, shown=0 if known is None else len(known.partitions))

    def _note_offline(self, topic: HostedTopic) -> None:
        (self._incomplete.add if topic.offline else self._incomplete.discard)(topic.name)

    def _put_to_use(self, portion: Portion, logs: Mapping[int, Log]) -> None:
        """Begin with logs that were opened, or delete them if their topic, or the replica, is not wanted any more."""
        topic, state = self._topics.get(portion.topic), self._newest.topics.get(portion.topic)
        if topic is None or state is None or not portion.topic_id == topic.topic_id == state.topic_id:
            for log in logs.values():
                self._delete(log)
            return
        config = self._log_config(state)
        for index, log in logs.items():
            if self._is_kept_elsewhere(state, index):
                self._delete(log)
                continue
            if log.config != config:
                log.update_config(config)
            self._begin(topic, index, log, state)
        missing = {index for index in portion.indexes if index not in topic.partitions and not self._is_kept_elsewhere(state, index)}
        topic.offline = topic.offline.difference(topic.partitions) | missing
        self._note_offline(topic)

    @property
    def _is_a_disk_missing(self) -> bool:
        return any(directory.offline is not None for directory in self._logs.directories)

    def _update(self, present: Partition, state: TopicState, config: LogConfig, follows: list[Partition]) -> None:
        decided = state.partitions[present.index]
        if self._is_life_known and (present.role is None or (present.state is not decided and present.state != decided)):
            self._apply(present, decided, follows)
        if present.log.config is not config and present.log.config != config:
            present.log.update_config(config)

    def _begin(self, topic: HostedTopic, index: int, log: Log, state: TopicState) -> None:
        decided = state.partitions[index]
        known = self._logs.high_watermarks.get(log.topic_partition, 0)
        partition = Partition(topic.name, index, log, broker=self._broker, state=decided, high_watermark=known)
        if not self._is_life_known or self._apply(partition, decided, []):
            topic.partitions[index] = partition

    async def _begin_to_follow(self, topic: HostedTopic) -> None:
        """Not before all logs of a new topic are open: the leaders open theirs at the same time, and would refuse most fetches."""
        await self._follow([partition for partition in topic.partitions.values() if partition.following is not None])

    async def _follow(self, partitions: Sequence[Partition]) -> None:
        """Hand over those that follow another leader than before. What becomes of them meanwhile is handed over by that."""
        for start in range(0, len(partitions), PARTITIONS_PER_TURN):
            if start:
                await asyncio.sleep(0)
            self._broker.on_follow(partitions[start : start + PARTITIONS_PER_TURN])

    def _apply(self, partition: Partition, decided: PartitionState, follows: list[Partition]) -> bool:
        try:
            if partition.apply(decided):
                follows.append(partition)
        except StorageError as error:
            logger.error("partition %s-%d is offline: %s", partition.topic, partition.index, error)
            return False
        return True

    def _open_portion(self, portion: Portion, config: LogConfig) -> dict[int, Log]:
        logs = {}
        for index in portion.indexes:
            try:
                logs[index] = self._logs.create(portion.topic, index, topic_id=portion.topic_id, config=config)
            except StorageError as error:
                logger.error("partition %s-%d is offline: %s", portion.topic, index, error)
        return logs

    async def _let_go(self, topics: Iterable[HostedTopic]) -> None:
        """Delete topics. Their partitions are used up: thousands are not freed in one turn of the loop."""
        count = 0
        for topic in topics:
            self._incomplete.discard(topic.name)
            del self._topics[topic.name]
            del self._topics[topic.topic_id.bytes]
            while topic.partitions:
                _, partition = topic.partitions.popitem()
                await self._end(partition, UnknownTopicOrPartition(f"topic {topic.name!r} was deleted"))
                self._delete(partition.log)
                count += 1
                if count % DELETED_PER_TURN == 0:
                    await asyncio.sleep(0)

    def _delete(self, log: Log) -> None:
        try:
            deleted = self._logs.delete(log.topic, log.partition)
        except KafkaError as error:
            logger.error("cannot delete the log of %s: %s", log.topic_partition, error)
            return
        if deleted is not None:
            self._remove_later(deleted, log.config.file_delete_delay_ms)

    async def _end(self, partition: Partition, error: KafkaError) -> None:
        """Take the partition out of use, once nothing works on its log any more."""
        while partition.log.is_truncating or partition.log.local.is_arriving:  # noqa: ASYNC110 -- milliseconds, and very rare
            await asyncio.sleep(TRUNCATION_CHECK_S)
        is_followed = partition.following is not None
        partition.fail_waiters(error)
        partition.leading = partition.following = None
        if is_followed:
            self._broker.on_follow([partition])


async def _in_thread(work: Callable[[], T]) -> T:
    """What comes of it. Who is cancelled waits for its end: nothing is opened any more when the broker closes its logs."""
    running = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise


def _is_same(topic: HostedTopic, state: TopicState | None) -> bool:
    """Whether the view still has the topic: another one of its name has another id."""
    return state is not None and state.topic_id == topic.topic_id


def _named(partitions: Sequence[Partition]) -> str:
    """How many there are, and the first of them by name."""
    names = ", ".join(f"{partition.topic}-{partition.index}" for partition in partitions[:NAMED_IN_LOG])
    more = ", ..." if len(partitions) > NAMED_IN_LOG else ""
    return f"{len(partitions)} partition(s)" + (f" ({names}{more})" if names else "")
