"""Merging: copies records into ordinary topics of any Kafka, beside what others write there, also from several sources into one.

    consume from the source ── header `__mirror` added ── produce to <prefix><topic>, same partition, key and timestamp ── commit

Offsets are the target's own then. The progress is committed after the target has acknowledged: at least once, and duplicates can be
recognised by their header. Several processes of one name share the partitions, as any consumers of a group do.

With `exactly_once` records and progress are written in one transaction of the target: the progress is kept there, for the topics of the
target, in the same group. Transactions do not reach over two clusters, so nothing but the transactional id distinguishes a process from its
successor: there is one for each name, and whoever comes later takes over from the one before.

Only what is committed at the source is copied. A record that was in the target's cluster before is left out: two clusters may merge each
other's topics. One thread, which blocks.
"""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka import KafkaError as LibrdkafkaError

from millstream.client.errors import BrokerUnavailable, DeliveryFailed
from millstream.mirror.clusters.librdkafka import LibrdkafkaFailed, open_consumer, open_producer, plain_errors
from millstream.mirror.merging.merge_settings import MergeSettings
from millstream.mirror.merging.merged_partition import MergedPartitions, MergedRecords
from millstream.mirror.merging.merged_topics import MergedTopics
from millstream.mirror.merging.provenance import HEADER, Provenance, went_through
from millstream.topic_partition import TopicPartition as Place

logger = logging.getLogger(__name__)

MAX_RECORDS: Final = 1000
_WAIT_S: Final = 0.2
_FLUSH_S: Final = 60.0
_TRANSACTION_MS: Final = 60_000
_MAX_BYTES: Final = 1_000_000_000
"""Of a record: the target decides how large one may be, and not librdkafka, which takes less than brokers do."""
_REFUSED: Final = frozenset({
    LibrdkafkaError.MSG_SIZE_TOO_LARGE, LibrdkafkaError.RECORD_LIST_TOO_LARGE, LibrdkafkaError.INVALID_MSG, LibrdkafkaError.INVALID_RECORD,
    LibrdkafkaError.INVALID_TIMESTAMP, LibrdkafkaError.POLICY_VIOLATION, LibrdkafkaError.TOPIC_AUTHORIZATION_FAILED,
})  # fmt: skip
_EXPLANATIONS: Final = 5
"""So many waits for what was fatal, after a call that only says that something was."""


class RecordRefused(DeliveryFailed):
    """The target does not take a record, however often it is tried."""

    def __init__(self, place: Place, text: str) -> None:
        super().__init__(text)
        self.place = place


class Merger:
    """One merging process: `run()` until `stop()` is called."""

    def __init__(
        self, settings: MergeSettings, partitions: MergedPartitions, *, refused: Mapping[Place, str], is_paused: Callable[[str], bool]
    ) -> None:
        """`partitions` is updated with what the target has; those that are `refused`, with the reason, are not merged."""
        self._settings = settings
        self._partitions = partitions
        self._partitions.begin({}, is_all=True)
        self._refused = refused
        self._is_paused = is_paused
        self.topics = MergedTopics(settings)
        self.is_merging = False
        """Whether it has looked at both clusters, and found nothing in the way."""
        self._failure: Any = None
        self._is_stopping = self._is_closing = False
        self._merged: dict[Place, MergedRecords] = {}
        """What was handed to the producer of each partition since the last commit."""
        self._ends: dict[Place, int] = {}
        """Partitions that were read to their end, markers of transactions included, and where that is."""
        self._assigned: set[Place] = set()
        self._paused: set[Place] = set()
        self._stopped: set[Place] = set()
        """Partitions whose offsets went back at the source, or that have a record which the target does not take."""
        self._consumer = self._open_consumer()
        self._producer = self._open_producer()
        self._keeper = self._open_keeper() if settings.exactly_once else None
        """With `exactly_once`: reads the progress at the target, and names the group in transactions."""
        self._is_in_transaction = False

    def stop(self) -> None:
        """Let `run` commit and return; from any thread or signal handler."""
        self._is_stopping = True

    def run(self) -> None:
        """Copy until `stop` is called; raises what cannot be cured by trying again."""
        looked_at = committed_at = -float("inf")
        try:
            while not self._is_stopping:
                now = time.monotonic()
                if now - looked_at >= self._settings.refresh_s:
                    self._follow_topics()
                    looked_at = now
                self._obey_pauses()
                self._copy(self._consume())
                if now - committed_at >= self._settings.commit_s:
                    self._commit()
                    committed_at = now
            self._commit()
        finally:
            self._close()

    def _open_consumer(self) -> Consumer:
        settings = self._settings
        return open_consumer(
            settings.source,
            settings.source_security,
            {
                "group.id": settings.group,
                "auto.offset.reset": "error",  # so that it can be said: `_find_place`
                "enable.auto.offset.store": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                "partition.assignment.strategy": "cooperative-sticky",
                "session.timeout.ms": 10_000,
                "topic.metadata.refresh.interval.ms": int(settings.refresh_s * 1000),
            },
        )

    def _open_producer(self) -> Producer:
        own: dict[str, Any] = {"enable.idempotence": True, "linger.ms": 20, "compression.type": "lz4", "message.max.bytes": _MAX_BYTES}
        if self._settings.exactly_once:
            own |= {"transactional.id": self._settings.group, "transaction.timeout.ms": _TRANSACTION_MS}
        producer = open_producer(self._settings.target, self._settings.target_security, own)
        if self._settings.exactly_once:
            with plain_errors(self._settings.target):
                producer.init_transactions(_FLUSH_S)
        return producer

    def _open_keeper(self) -> Consumer:
        return open_consumer(self._settings.target, self._settings.target_security, {"group.id": self._settings.group})

    def _follow_topics(self) -> None:
        try:
            has_changed = self.topics.look()
        except BrokerUnavailable as error:
            logger.warning("nothing new is found out for now, and it is tried again: %s", error)
            return
        self.is_merging = True
        if not has_changed:
            return
        self._commit()
        if self._keeper is not None:
            self._assign(self._resumed())
        elif self.topics.names:
            with plain_errors(self._settings.source):
                self._consumer.subscribe(
                    sorted(self.topics.names), on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
                )
        else:
            self._consumer.unsubscribe()

    def _assign(self, partitions: list[TopicPartition]) -> None:
        """Read these partitions, and no others."""
        with plain_errors(self._settings.source):
            self._consumer.assign(partitions)
        self._assigned, self._paused, self._stopped = {_place(each) for each in partitions}, set(), set()
        self._partitions.begin({_place(each): each.offset for each in partitions}, is_all=True)
        self._leave_out_refused()

    def _leave_out_refused(self) -> None:
        for place in self._assigned & self._refused.keys():
            self._stop(place, self._refused[place])
        self._obey_pauses()

    def _obey_pauses(self) -> None:
        """Read nothing of paused topics, nor of partitions that were stopped."""
        paused = {place for place in self._assigned if place in self._stopped or self._is_paused(place.topic)}
        if paused == self._paused:
            return
        with plain_errors(self._settings.source):
            self._consumer.pause([TopicPartition(*place) for place in paused - self._paused])
            self._consumer.resume([TopicPartition(*place) for place in self._paused - paused])
        self._paused = paused
        self._partitions.pause(paused - self._stopped)

    def _resumed(self) -> list[TopicPartition]:
        """All partitions, each from where the target's group says that it was copied to."""
        assert self._keeper is not None
        target = [TopicPartition(self._settings.target_topic(name), index) for name, index in self.topics.partitions]
        with plain_errors(self._settings.target):
            committed = self._keeper.committed(target, timeout=_FLUSH_S) if target else []
        return [
            TopicPartition(name, index, found.offset if found.offset >= 0 else OFFSET_BEGINNING)
            for (name, index), found in zip(self.topics.partitions, committed, strict=True)
        ]

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        consumer.incremental_assign(partitions)
        places = {_place(each) for each in partitions}
        self._assigned |= places
        self._partitions.begin(dict.fromkeys(places, -1) | self._committed(partitions))
        self._leave_out_refused()

    def _committed(self, partitions: list[TopicPartition]) -> dict[Place, int]:
        """Where the group was, for the status; as far as the source says it at once."""
        try:
            found = self._consumer.committed(partitions, timeout=_WAIT_S * 5)
        except KafkaException as error:
            logger.debug("where the group was is not known yet: %s", error)
            return {}
        return {_place(each): each.offset for each in found if each.offset >= 0}

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Commit what goes to another process, so that it is not copied twice."""
        self._commit()
        self._on_lost(consumer, partitions)

    def _on_lost(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Others have them already, and would be set back by a commit."""
        if self._is_closing:
            return  # The status keeps what it was at the end.
        places = {_place(each) for each in partitions}
        for place in places:
            self._merged.pop(place, None)
            self._ends.pop(place, None)
        self._assigned -= places
        self._paused -= places
        self._stopped -= places
        self._partitions.end(places)

    def _consume(self) -> list[Message]:
        with plain_errors(self._settings.source):
            found: list[Message] = self._consumer.consume(MAX_RECORDS, _WAIT_S)
        records = []
        for message in found:
            error = message.error()
            if error is None:
                records.append(message)
            elif error.code() == LibrdkafkaError._PARTITION_EOF:
                self._ends[_place(message)] = int(message.offset() or 0)
            elif error.code() == LibrdkafkaError._AUTO_OFFSET_RESET:
                self._find_place(_place(message), message.offset())
            elif error.fatal():
                raise LibrdkafkaFailed(f"at {self._settings.source}: {error.str()}", error.code())
            else:
                logger.warning("the source at %s: %s; it is tried again", self._settings.source, error.str())
        return records

    def _find_place(self, place: Place, asked: int | None) -> None:
        """Begin where the source begins: nothing was merged of it, or what comes next is gone. What went back is stopped."""
        beginning = TopicPartition(*place, OFFSET_BEGINNING)
        with plain_errors(self._settings.source):
            if asked is not None and asked >= 0:
                start, end = self._consumer.get_watermark_offsets(beginning, timeout=_FLUSH_S)
                if asked > end:
                    why = f"records were lost there, or the topic was created anew. Set the offset of the group {self._settings.group}"
                    self._stop(place, f"{place} ends at {end} at the source, and was merged up to {asked}: {why}")
                else:
                    logger.warning("offsets %d to %d of %s are gone at the source; merging goes on at %d", asked, start - 1, place, start)
                    self._partitions.skip(place, asked, start)
            self._consumer.incremental_unassign([beginning])
            self._consumer.incremental_assign([beginning])
        self._paused.discard(place)
        self._obey_pauses()

    def _stop(self, place: Place, reason: str) -> None:
        logger.error("%s; nothing more of it is merged until then, others go on", reason)
        self._stopped.add(place)
        self._partitions.stop(place, reason)

    def _copy(self, messages: list[Message]) -> None:
        if messages and self._keeper is not None and not self._is_in_transaction:
            with plain_errors(self._settings.target):
                self._producer.begin_transaction()
            self._is_in_transaction = True
        for message in messages:
            self._produce(message)
        self._poll(0)
        if self._keeper is None:  # A transaction says at its commit what became of its records.
            self._check()

    def _produce(self, message: Message) -> None:
        place, offset = _place(message), int(message.offset() or 0)
        merged = self._merged.setdefault(place, MergedRecords())
        merged.next_offset = offset + 1
        headers: Any = message.headers()
        if went_through(headers, self.topics.target_cluster):
            merged.left_out += 1
            return
        origin = Provenance(self.topics.source_cluster, *place, offset)
        self._hand_over(message, place.partition, [*(headers or ()), (HEADER, origin.encode())])
        merged.count += 1
        merged.size_bytes += len(message.key() or b"") + len(message.value() or b"")
        merged.last_timestamp = max(merged.last_timestamp, message.timestamp()[1])

    def _hand_over(self, message: Message, partition: int, headers: list[Any]) -> None:
        """Give a record to the producer; waits while its queue is full, and for a partition that is new."""
        topic = self._settings.target_topic(str(message.topic()))
        kind, timestamp = message.timestamp()
        deadline = time.monotonic() + _FLUSH_S
        while True:
            try:
                with plain_errors(self._settings.target):
                    self._producer.produce(
                        topic,
                        message.value(),
                        message.key(),
                        partition,
                        on_delivery=self._on_delivery,
                        timestamp=timestamp if kind else 0,
                        headers=headers,
                    )
                return
            except BufferError:
                self._poll(_WAIT_S)
            except LibrdkafkaFailed as error:
                if error.is_unexplained:
                    self._explain()
                if error.code in _REFUSED:
                    raise self._refusal(topic, partition, str(error)) from None
                if error.code != LibrdkafkaError._UNKNOWN_PARTITION or time.monotonic() > deadline:
                    raise
                with plain_errors(self._settings.target):
                    self._producer.list_topics(topic, timeout=_FLUSH_S)
                self._poll(_WAIT_S)

    def _explain(self) -> None:
        """Raise what was fatal to the producer: whether a successor was it decides whether to begin again."""
        for _ in range(_EXPLANATIONS):
            self._poll(_WAIT_S)

    def _poll(self, wait_s: float) -> None:
        with plain_errors(self._settings.target):  # it raises what is fatal to the producer, such as a successor
            self._producer.poll(wait_s)

    def _on_delivery(self, error: Any, message: Message) -> None:
        # What a transaction that is given up does to its other records says less than why it was.
        if error is not None and (self._failure is None or error.code() in _REFUSED):
            self._failure = error, str(message.topic()), int(message.partition() or 0)

    def _check(self) -> None:
        if self._failure is not None:
            error, topic, partition = self._failure
            if error.code() in _REFUSED:
                raise self._refusal(topic, partition, error.str())
            raise DeliveryFailed(f"records for {topic}-{partition} were not written at {self._settings.target}: {error.str()}")

    def _refusal(self, target_topic: str, partition: int, why: str) -> RecordRefused:
        place = Place(target_topic.removeprefix(self._settings.prefix), partition)
        return RecordRefused(
            place,
            f"{target_topic}-{partition} does not take a record at {self._settings.target}: {why}. Change that and start the mirror again",
        )

    def _commit(self) -> None:
        """Wait for the target, and then say how far it is."""
        if not self._merged:
            self._report()
            return
        if self._keeper is None:
            with plain_errors(self._settings.target):
                left = self._producer.flush(_FLUSH_S)
            self._check()
            if left:
                raise BrokerUnavailable(f"{left} records were not taken at {self._settings.target} within {_FLUSH_S:.0f} s")
            offsets = [TopicPartition(*place, merged.next_offset) for place, merged in self._merged.items()]
            with plain_errors(self._settings.source):
                self._consumer.commit(offsets=offsets, asynchronous=False)
        else:
            try:
                self._commit_transaction(self._keeper)
            except LibrdkafkaFailed as error:
                self._check()
                if not error.is_fenced:
                    # Kafka's answer to one that is being fenced at this moment may be an unknown error: what it answers next says more.
                    self._abort_transaction()
                raise
        self._report()
        self._merged.clear()

    def _report(self) -> None:
        """The target has what was handed to the producer, up to where partitions end."""
        self._partitions.merged(self._merged)
        self._partitions.merged({place: MergedRecords(end) for place, end in self._ends.items()})
        self._ends.clear()

    def _commit_transaction(self, keeper: Consumer) -> None:
        target_topic = self._settings.target_topic
        offsets = [TopicPartition(target_topic(topic), index, merged.next_offset) for (topic, index), merged in self._merged.items()]
        with plain_errors(self._settings.target):
            self._producer.send_offsets_to_transaction(offsets, keeper.consumer_group_metadata(), _FLUSH_S)
            self._producer.commit_transaction(_FLUSH_S)
        self._is_in_transaction = False

    def _abort_transaction(self) -> None:
        with plain_errors(self._settings.target):
            self._producer.abort_transaction(_FLUSH_S)
        self._is_in_transaction = False

    def _close(self) -> None:
        self._merged.clear()  # leaving the group calls for a commit of what is in doubt
        self._ends.clear()
        self._is_closing = True
        self._consumer.close()
        if self._keeper is not None:
            self._keeper.close()


def _place(found: TopicPartition | Message) -> Place:
    """The partition of the source that librdkafka speaks of."""
    topic, partition = (found.topic(), found.partition()) if isinstance(found, Message) else (found.topic, found.partition)
    return Place(str(topic), int(partition or 0))
