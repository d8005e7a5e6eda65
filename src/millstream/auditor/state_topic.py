"""The topic `_audit_state` as one auditor sees it: the state of a partition read and claimed, written, and a zombie kept out.

Every record carries a *term* in a header. Whoever is given a partition reads its state and claims it with a term that is higher than any in
it; from there on records of lower terms are ignored by everybody who reads (`state_log.Newest`). So an auditor that stood still for longer
than its session, and writes before it notices that its partitions are another one's, changes nothing. Two steps follow:

- Each write says where it landed. If that is not behind the last one, another process wrote, and what it was is read: with a higher term
  the partition is lost (`StateTaken`); with a lower one its keys are written anew with what they held before, since a compaction would
  keep the zombie's.
- Who writes nothing looks once a minute whether another process did.

The number of partitions that `_audit` had at first is kept as well (`spread`): reports of a topic belong to the same partition for good,
however many partitions `_audit` has later.
"""

import json
import logging
from collections.abc import Iterator, Sequence
from time import monotonic, sleep, time
from typing import TYPE_CHECKING, Final

from millstream.audit.reports.report import AUDIT_STATE_TOPIC, AUDIT_TOPIC
from millstream.auditor.state_log import CLAIM, SPREAD, Entry, Newest, PartitionState, encode_spread, read_state
from millstream.auditor.topic_reading import read_partition
from millstream.client.admin.topic_creation import find_or_create
from millstream.client.cluster import Cluster
from millstream.client.codecs.produce import BatchFor
from millstream.client.codecs.request import MessageRequest
from millstream.client.key_values import batches_of
from millstream.errors import MillstreamError, UsageError
from millstream.offset import LATEST
from millstream.topic_partition import TopicPartition
from millstream.wire.api import ApiKey
from millstream.wire.compression import Codec
from millstream.wire.records import KeyValue, Record, encode_batch

if TYPE_CHECKING:
    from millstream.wire.responses.create_partitions import CreatePartitionsResponse

logger = logging.getLogger(__name__)

CONFIGS: Final = {"cleanup.policy": "compact", "max.message.bytes": str(8 << 20)}
CHECK_S: Final = 60.0
CLAIMS: Final = 5
TERM_HEADER: Final = "term"
_GROW_MS: Final = 5_000


class StateTaken(MillstreamError):
    """Another auditor has claimed the state of a partition."""


class StateTopic:
    """Reads and writes states; one thread."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._ends: dict[int, int] = {}
        """By partition: where the next record of this auditor lands, unless another process writes."""
        self._checked: dict[int, float] = {}

    def open(self, partitions: int) -> int:
        """Make sure that the topic is there, with so many partitions at least; returns over how many of `_audit` topics are spread."""
        found = find_or_create(self._cluster, AUDIT_STATE_TOPIC, partitions=partitions, configs=CONFIGS)
        newest = Newest(state_entries(self._cluster, 0))
        if newest.spread is None:
            first = TopicPartition(AUDIT_STATE_TOPIC, 0)
            newest.spread = min(len(found.partitions), partitions)
            self._produce(first, [(SPREAD, encode_spread(newest.spread))], term=0)
        if len(found.partitions) < partitions:
            self._grow(partitions)
        return min(newest.spread, partitions)

    def load(self, partition: int, *, bucket_ms: int) -> PartitionState:
        """The state of a partition, which is this auditor's from now on."""
        place = TopicPartition(AUDIT_STATE_TOPIC, partition)
        if partition not in self._cluster.topic(AUDIT_STATE_TOPIC).partitions:
            self._grow(len(self._cluster.refresh([AUDIT_TOPIC]).topics[AUDIT_TOPIC].partitions))
        for _ in range(CLAIMS):
            end = self._cluster.offsets({place: LATEST})[place].offset
            state = read_state(state_entries(self._cluster, partition), bucket_ms=bucket_ms)
            state.term += 1
            landed = self._produce(place, [(CLAIM, json.dumps({"id": state.id}).encode())], term=state.term)
            if landed == end:
                self._ends[partition] = landed + 1
                self._checked[partition] = monotonic()
                begin_again_if_anew(self._cluster, partition, state)
                return state
        raise StateTaken(f"the state of partition {partition} of {AUDIT_TOPIC} is claimed by several auditors at once; it is tried again")

    def write(self, partition: int, state: PartitionState) -> None:
        """Write what changed; raises `StateTaken` if the partition is another auditor's by now."""
        place = TopicPartition(AUDIT_STATE_TOPIC, partition)
        for batch in batches_of((entry.key, entry.value) for entry in state.entries()):
            landed = self._produce(place, batch, term=state.term)
            self._look_at(partition, state, up_to=landed)
            self._ends[partition] = landed + len(batch)
        self._checked[partition] = monotonic()

    def check(self, partition: int, state: PartitionState) -> None:
        """Look, once a minute, whether another process wrote."""
        if monotonic() >= self._checked[partition] + CHECK_S:
            place = TopicPartition(AUDIT_STATE_TOPIC, partition)
            end = self._cluster.offsets({place: LATEST})[place].offset
            self._look_at(partition, state, up_to=end)
            self._ends[partition] = end
            self._checked[partition] = monotonic()

    def _look_at(self, partition: int, state: PartitionState, *, up_to: int) -> None:
        """What others wrote before this offset."""
        if up_to == self._ends[partition]:
            return
        others = [
            entry
            for entry in state_entries(self._cluster, partition, start=self._ends[partition], end=up_to)
            if entry.key != SPREAD and entry.term != state.term
        ]
        if any(entry.term > state.term for entry in others):
            raise StateTaken(f"another auditor has taken over partition {partition} of {AUDIT_TOPIC}")
        if others:
            state.repairs.update(Newest(state_entries(self._cluster, partition)).repairs())

    def _grow(self, partitions: int) -> None:
        fields = {
            "topics": [{"name": AUDIT_STATE_TOPIC, "count": partitions, "assignments": None}],
            "timeout_ms": _GROW_MS,
            "validate_only": False,
        }
        request: MessageRequest[CreatePartitionsResponse] = MessageRequest(ApiKey.CREATE_PARTITIONS, fields)
        [answer] = self._cluster.call(request).results
        # Another auditor may have been faster; and the other brokers hear of it a little later.
        deadline = monotonic() + _GROW_MS / 1000
        while len(self._cluster.refresh([AUDIT_STATE_TOPIC]).topics[AUDIT_STATE_TOPIC].partitions) < partitions:
            if monotonic() > deadline:
                refused = f"{AUDIT_STATE_TOPIC} has too few partitions, and cannot be given more ({answer.error_message or 'no answer'})"
                raise UsageError(f"{refused}: give it as many as {AUDIT_TOPIC} has, {partitions}")
            sleep(0.05)

    def _produce(self, place: TopicPartition, pairs: Sequence[KeyValue], *, term: int) -> int:
        """Write one batch; returns the offset of its first record."""
        now_ms, headers = int(time() * 1000), ((TERM_HEADER, b"%d" % term),)
        records = [Record(number, now_ms, key, value, headers) for number, (key, value) in enumerate(pairs)]
        produced = self._cluster.produce(BatchFor(*place, encode_batch(records, codec=Codec.LZ4)))
        assert produced is not None
        return produced.base_offset


def begin_again_if_anew(cluster: Cluster, partition: int, state: PartitionState) -> None:
    """Read `_audit` from its start if it was created anew: its id is another one, or it ends before where the state has got to."""
    place = TopicPartition(AUDIT_TOPIC, partition)
    topic_id = audit_topic_id(cluster)
    is_another = None not in (topic_id, state.topic_id) and topic_id != state.topic_id
    end = cluster.offsets({place: LATEST})[place].offset
    if state.position and (is_another or state.position > end):
        logger.error("%s was created anew, and is read from its start; it ends at %d and was read up to %d", place, end, state.position)
        state.begin_again()
    state.topic_id = topic_id or state.topic_id


def audit_topic_id(cluster: Cluster) -> str | None:
    """The id of `_audit`, as the cluster was last asked, if it has such."""
    known = cluster.metadata.topics.get(AUDIT_TOPIC)
    return str(known.topic_id) if known is not None and known.topic_id is not None else None


def state_entries(cluster: Cluster, partition: int, *, start: int = 0, end: int | None = None) -> Iterator[Entry]:
    """The records of a partition of the state, in order."""
    for record in read_partition(cluster, TopicPartition(AUDIT_STATE_TOPIC, partition), start=start):
        if end is None or record.offset < end:
            yield Entry(record.key or b"", record.value, _term(record))


def _term(record: Record) -> int:
    for name, value in record.headers:
        if name == TERM_HEADER and value is not None and value.isdigit():
            return int(value[:18])
    return 0
