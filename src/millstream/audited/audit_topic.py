"""The topic `_audit` as those see it who report: made if it is missing, and reports written to it. Blocking; one thread.

A report's key is the name of the topic that was counted, so all reports of a topic are in one partition of `_audit`. A write that is tried
again may be there twice: a report is known by its reporter and sequence, so nothing is counted twice.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from time import time
from typing import TYPE_CHECKING, Final

from millstream.audit.report import AUDIT_TOPIC, Report
from millstream.audit.report_json import encode_report
from millstream.audited.settings import AuditSettings
from millstream.client.cluster import Cluster
from millstream.client.connection import OpenSocket, open_tcp
from millstream.client.errors import kafka_error
from millstream.client.key_partition import key_partition
from millstream.client.metadata import TopicMetadata
from millstream.client.produce import BatchFor
from millstream.client.request import MessageRequest
from millstream.client.retry import retry
from millstream.errors import KafkaError, TopicAlreadyExists, UnknownTopicOrPartition
from millstream.wire.api import ApiKey
from millstream.wire.compression import Codec
from millstream.wire.records import encode_key_values

if TYPE_CHECKING:
    from millstream.wire.responses.create_topics import CreateTopicsResponse

PARTITIONS: Final = 8
MOST_REPLICAS: Final = 3
RETENTION_MS: Final = 30 * 24 * 3_600_000
_MOST_BATCH_BYTES: Final = 500_000
"""Half of what a topic takes by default: a batch is measured before it is compressed."""
_CREATE_TIMEOUT_MS: Final = 5_000

Encode = Callable[[Report], bytes]
KeyAndReport = tuple[bytes, bytes]


class AuditTopic:
    """Where reports of one cluster go."""

    def __init__(self, brokers: str, *, encode: Encode = encode_report, timeout_s: float = 5.0, open_socket: OpenSocket = open_tcp) -> None:
        self._brokers = brokers
        self._encode = encode
        self._timeout_s = timeout_s
        self._cluster = Cluster(brokers, client_id="millstream-audit", timeout_s=timeout_s, open_socket=open_socket)
        self._cluster_id: str | None = None

    def close(self) -> None:
        """Close the connections."""
        self._cluster.close()

    def cluster_id(self) -> str:
        """The id of the cluster; asks a broker once."""
        if self._cluster_id is None:
            self._cluster_id = self._cluster.refresh([]).cluster_id or ""
        return self._cluster_id

    def publish(self, reports: Iterable[Report]) -> None:
        """Write reports; raises if one of them may not have been written. Then all may be written again."""
        pairs = [(report.topic.encode(), self._encode(report)) for report in reports]
        if not pairs:
            return
        partition_count = len(self._find_or_create().partitions)
        placed = sorted((key_partition(key, partition_count), number) for number, (key, _) in enumerate(pairs))
        for partition, numbers in groupby(placed, key=lambda place: place[0]):
            for batch in _batches([pairs[number] for _, number in numbers]):
                encoded = encode_key_values(batch, timestamp=int(time() * 1000), codec=Codec.LZ4)
                self._cluster.produce(BatchFor(AUDIT_TOPIC, partition, encoded), timeout_ms=round(self._timeout_s * 1000))

    def _find_or_create(self) -> TopicMetadata:
        try:
            return self._cluster.topic(AUDIT_TOPIC)
        except UnknownTopicOrPartition:
            self._create()
        # The other brokers hear of a new topic a little later.
        return retry(
            lambda: self._cluster.topic(AUDIT_TOPIC),
            timeout_s=self._timeout_s,
            may_pass=lambda error: isinstance(error, KafkaError),
        )

    def _create(self) -> None:
        replicas = min(MOST_REPLICAS, len(self._cluster.metadata.brokers) or 1)
        topic = {
            "name": AUDIT_TOPIC,
            "num_partitions": PARTITIONS,
            "replication_factor": replicas,
            "assignments": [],
            "configs": [{"name": "retention.ms", "value": str(RETENTION_MS)}],
        }
        fields = {"topics": [topic], "timeout_ms": _CREATE_TIMEOUT_MS, "validate_only": False}
        request: MessageRequest[CreateTopicsResponse] = MessageRequest(ApiKey.CREATE_TOPICS, fields)
        [answer] = self._cluster.call(request).topics
        code = int(answer.error_code)
        if code and code != TopicAlreadyExists.code:
            reason = kafka_error(code, answer.error_message or "")
            raise kafka_error(
                code,
                f"the topic {AUDIT_TOPIC} is missing at {self._brokers} and could not be created ({reason}): create it with "
                f"`millstream topic create {AUDIT_TOPIC} --partitions {PARTITIONS}`, or let this client create and write it",
            )


def open_audit_topic(brokers: str, settings: AuditSettings) -> AuditTopic:
    """Where the reports of a tier go; nothing is connected yet."""
    return AuditTopic(brokers)


def _batches(pairs: Sequence[KeyAndReport]) -> Iterator[list[KeyAndReport]]:
    batch: list[KeyAndReport] = []
    size = 0
    for key, value in pairs:
        if batch and size + len(value) > _MOST_BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append((key, value))
        size += len(key) + len(value)
    yield batch
