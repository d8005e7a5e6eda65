"""A transaction whose end is decided and committed, and which partitions still need their marker: what the coordinator hands to the sender.

It belongs to one machine. When that is given up or led elsewhere, nothing more is to be sent for it: the next one begins anew with all
partitions, in another epoch of the coordinator.
"""

from collections.abc import Callable, Iterable

from millstream.broker.coordinators.context import CoordinatorContext
from millstream.errors import CoordinatorNotAvailable, KafkaError
from millstream.topic_partition import TopicPartition
from millstream.transactions.shard import MarkerBatch, TransactionShard


class DecidedTransaction:
    """Complete when every partition has its marker, or is gone."""

    __slots__ = ("_context", "_is_fenced", "_markers", "_on_complete", "_shard", "_unmarked")

    def __init__(self, markers: MarkerBatch, context: CoordinatorContext[TransactionShard], *, on_complete: Callable[[str], None]) -> None:
        """`on_complete` is called with the transactional id when the next transaction may begin."""
        self._markers = markers
        self._context = context
        self._shard = context.shard
        self._unmarked = set(markers.partitions)
        self._is_fenced = False
        self._on_complete = on_complete

    @property
    def markers(self) -> MarkerBatch:
        """What is to be written, and where."""
        return self._markers

    @property
    def is_wanted(self) -> bool:
        """Whether its markers are still this coordinator's business."""
        return not self._is_fenced and self._context.is_active and self._context.shard is self._shard

    @property
    def is_marked(self) -> bool:
        """Whether no partition needs a marker any more."""
        return not self._unmarked

    def marked(self, partitions: Iterable[TopicPartition]) -> None:
        """These partitions have their marker, or are gone."""
        self._unmarked.difference_update(partitions)

    def fenced(self) -> None:
        """A partition has seen a later coordinator, which does the rest."""
        self._is_fenced = True

    def complete(self) -> bool:
        """Have the end of the transaction written down; False if that has to wait, for replicas that are not in sync."""
        if not self.is_wanted:
            return True
        transactional_id, producer, partitions = self._markers.transactional_id, self._markers.producer, self._markers.partitions
        try:
            self._context.check_writable()
            self._context.write(lambda shard, now_ms: shard.markers_written(transactional_id, producer, partitions, now_ms), batched=True)
        except CoordinatorNotAvailable:
            return False
        except KafkaError:
            return True  # The log was lost: whoever reads it next does the rest.
        self._on_complete(transactional_id)
        return True
