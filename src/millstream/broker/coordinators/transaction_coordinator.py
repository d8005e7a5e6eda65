"""The transaction coordinator of this broker: decides about transactional ids whose partition of `__transaction_state` it leads.

The runtime keeps the machines and their logs; here is what is special to transactions: the topic, which is created when a coordinator is
first looked for; producer ids, which are taken before a machine is asked, because that may wait; and the markers, which go to the sender
when the decision that asks for them is committed.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Final, cast

from millstream.broker.cluster.live_settings import LiveSettings
from millstream.broker.cluster.topics_on_demand import TopicsOnDemand, WantedTopic
from millstream.broker.coordinators.context import Answerable, CoordinatorContext
from millstream.broker.coordinators.coordinator_topic import CoordinatorTopic, replicas_of
from millstream.broker.coordinators.decided_transaction import DecidedTransaction
from millstream.broker.coordinators.held_ends import EndReply, HeldEnds
from millstream.broker.coordinators.reply import AwaitedReply, CoordinatorReply, Refusal, Shape
from millstream.broker.coordinators.runtime import CoordinatorRuntime
from millstream.broker.network.api import Fields, Later, Request
from millstream.broker.network.outbox import Chunk
from millstream.broker.tasks import Spawn
from millstream.broker.transactions.marker_sender import MarkerSender
from millstream.clock import Clock
from millstream.cluster.replicas import Replicas
from millstream.coordination.cluster_view import ClusterView
from millstream.coordination.topic_names import TRANSACTIONS_TOPIC
from millstream.coordinator_shard import Fields as DecidedFields
from millstream.coordinator_shard import Outcome
from millstream.errors import KafkaError
from millstream.options.settings import BrokerSettings
from millstream.topic_partition import TopicPartition
from millstream.transactions.commands import AddPartitions, EndTransaction, InitProducerId, TransactionCommand, VerifyPartitions
from millstream.transactions.producer_ids import ProducerIds
from millstream.transactions.settings import TransactionSettings
from millstream.transactions.shard import TransactionOutcome, TransactionShard
from millstream.transactions.transaction import PREPARED, Producer, State
from millstream.wire.compression import Codec

logger = logging.getLogger(__name__)

COMMIT_TIMEOUT_MS: Final = 5_000
"""Time within which a decision has to reach all in-sync replicas; else its client is to ask again."""

PartitionErrors = dict[TopicPartition, int]
"""An error code per partition; 0 if all is well."""


class TransactionCoordinator:
    """Takes commands and questions about transactional ids."""

    def __init__(
        self,
        replicas: Replicas,
        on_demand: TopicsOnDemand,
        producer_ids: ProducerIds,
        markers: MarkerSender,
        *,
        settings: LiveSettings,
        transaction_settings: TransactionSettings,
        clock: Clock,
        executor: Executor,
        spawn: Spawn,
    ) -> None:
        self._producer_ids = producer_ids
        self.markers = markers
        """What the coordinators of this broker have to send."""
        self._ends = HeldEnds()
        self._settings = settings
        self._view = ClusterView()
        self.runtime = CoordinatorRuntime(
            TRANSACTIONS_TOPIC,
            replicas,
            new_shard=lambda leader_epoch: TransactionShard(transaction_settings, coordinator_epoch=leader_epoch),
            on_committed=self._send_markers,
            codec=Codec.NONE,
            load_bytes=settings.current.integer("transaction.state.log.load.buffer.size"),
            commit_timeout_ms=COMMIT_TIMEOUT_MS,
            clock=clock,
            executor=executor,
            spawn=spawn,
        )
        self.topic = CoordinatorTopic("the topic of transactions", self.runtime, on_demand, wanted=self._wanted_topic)

    def submit(
        self, command: TransactionCommand, request: Request, *, refuse: Refusal, shape: Shape | None = None
    ) -> Sequence[Chunk] | Later | None:
        """Let the machine of the transactional id decide a command; what a handler returns for it."""
        if self._needs_producer_id(command):
            return self._decide_with_producer_id(command, refuse=refuse, shape=shape)
        reply = CoordinatorReply(request, refuse, shape=shape)
        self.handle(command, reply)
        return reply.result()

    def handle(self, command: TransactionCommand, reply: Answerable) -> None:
        """Let the machine of the transactional id decide a command; commands of one turn of the loop share a batch of the log."""
        if isinstance(command, EndTransaction):
            reply = EndReply(reply, partial(self._end_decided, command.transactional_id))
        self.runtime.write(command.transactional_id, lambda shard, now_ms: shard.handle(command, reply, now_ms=now_ms), reply, batched=True)

    def add_partitions(self, command: AddPartitions | VerifyPartitions, done: Callable[[PartitionErrors], None]) -> None:
        """Make partitions part of a transaction, or only ask whether they are (KIP-890); `done` is called once, possibly at once.

        If it is called later it may append to any log: nothing else is under way then.
        """
        reply = _PartitionsReply(command.partitions, done)
        self.handle(command, reply)
        reply.is_late = True

    def is_part(self, transactional_id: str, producer: Producer, partition: TopicPartition) -> bool:
        """Whether this broker knows, here and now, that a partition is part of the producer's open transaction.

        If not, it may be all the same: another broker is the coordinator, or what it knows is not committed yet.
        """
        try:
            context = self.runtime.context(transactional_id)
        except KafkaError:
            return False
        return context.shows_committed and context.shard.is_part(transactional_id, producer, partition)

    def apply(self, view: ClusterView) -> None:
        """Follow a new view; the partitions of this broker follow it already."""
        self._view = view
        self.runtime.apply(view.topics.get(TRANSACTIONS_TOPIC))
        self.markers.view_changed()

    def close(self) -> None:
        """The broker stops."""
        self.runtime.close()
        self.markers.close()

    def _needs_producer_id(self, command: TransactionCommand) -> bool:
        if isinstance(command, AddPartitions | VerifyPartitions):
            return False
        try:
            return self.runtime.context(command.transactional_id).shard.needs_producer_id(command)
        except KafkaError:
            return False  # It is refused, whatever it needs.

    async def _decide_with_producer_id(self, command: TransactionCommand, *, refuse: Refusal, shape: Shape | None) -> Fields:
        """As `submit`, after a producer id was taken. If it is not needed by then, because another request came first, it is not used."""
        assert isinstance(command, InitProducerId | EndTransaction)
        try:
            producer_id = await self._producer_ids.take()
        except KafkaError as error:
            fields = refuse(error)
        else:
            reply = AwaitedReply(refuse)
            self.handle(command._replace(new_producer_id=producer_id), reply)
            fields = await reply.fields
        return fields if shape is None else shape(fields)

    def _end_decided(self, transactional_id: str, reply: Answerable, fields: DecidedFields) -> None:
        """The end of a transaction is decided; the answer waits for its markers, if there are any, for a moment."""
        try:
            state = self.runtime.context(transactional_id).shard.describe(transactional_id).state
        except KafkaError:
            state = State.DEAD  # It is another coordinator's by now.
        if state in PREPARED:
            self._ends.hold(transactional_id, reply, fields)
        else:
            reply.answer(fields)

    def _send_markers(self, context: CoordinatorContext[TransactionShard], outcome: Outcome) -> None:
        self.markers.send(
            DecidedTransaction(markers, context, on_complete=self._ends.release) for markers in cast(TransactionOutcome, outcome).markers
        )

    def _wanted_topic(self) -> WantedTopic:
        settings = self._settings.current
        return WantedTopic(
            TRANSACTIONS_TOPIC,
            partitions=settings.integer("transaction.state.log.num.partitions"),
            replication_factor=replicas_of(settings.integer("transaction.state.log.replication.factor"), self._view),
            configs=transactions_topic_configs(settings),
        )


class _PartitionsReply:
    """Waits for what is decided about the partitions of a transaction."""

    __slots__ = ("_done", "_partitions", "is_late")

    def __init__(self, partitions: frozenset[TopicPartition], done: Callable[[PartitionErrors], None]) -> None:
        self.is_late = False
        """Whether the one who asked has gone on to something else: then the answer comes in a turn of its own."""
        self._partitions = partitions
        self._done = done

    def answer(self, fields: DecidedFields) -> None:
        """One code for all of them, or one for each."""
        errors = fields.get("errors")
        code = cast(int, fields["error_code"])
        self._finish(dict.fromkeys(self._partitions, code) if errors is None else cast(PartitionErrors, errors))

    def fail(self, error: KafkaError) -> None:
        """The coordinator cannot say."""
        self._finish(dict.fromkeys(self._partitions, error.code))

    def _finish(self, errors: PartitionErrors) -> None:
        if self.is_late:
            asyncio.get_running_loop().call_soon(self._done, errors)
        else:
            self._done(errors)


def transaction_settings(settings: BrokerSettings) -> TransactionSettings:
    """What the options say, which are read once, at start, as in Kafka."""
    return TransactionSettings(
        max_timeout_ms=settings.integer("transaction.max.timeout.ms"),
        transactional_id_expiration_ms=settings.integer("transactional.id.expiration.ms"),
        abort_interval_ms=settings.integer("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
        expiration_interval_ms=settings.integer("transaction.remove.expired.transaction.cleanup.interval.ms"),
    )


def transactions_topic_configs(settings: BrokerSettings) -> dict[str, str]:
    """The options of the topic of transactions, as Kafka sets them: never cut by an election, never rewritten."""
    return {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": str(settings.integer("transaction.state.log.min.isr")),
        "segment.bytes": str(settings.integer("transaction.state.log.segment.bytes")),
        "unclean.leader.election.enable": "false",
    }
