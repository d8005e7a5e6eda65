"""The topic `_audit` as those see it who report: made if it is missing, and reports written to it. Blocking; one thread.

A report's key is the name of the topic that was counted, so all reports of a topic are in one partition of `_audit`. A write that is tried
again may be there twice: a report is known by its reporter and sequence, so nothing is counted twice.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Final

from millstream.audit.reports.report import AUDIT_TOPIC, Report
from millstream.audit.reports.report_fields import report_fields
from millstream.audit.reports.report_json import encode_report
from millstream.audit.reports.report_schema import REPORT_SCHEMA
from millstream.audited.settings import AuditSettings
from millstream.client.admin.topic_creation import find_or_create
from millstream.client.cluster import Cluster
from millstream.client.key_partition import key_partition
from millstream.client.key_values import write_key_values
from millstream.client.security.client_security import NO_SECURITY, ClientSecurity
from millstream.topic_partition import TopicPartition

if TYPE_CHECKING:
    from millstream.registry.client import RegistryClient

PARTITIONS: Final = 8
CONFIGS: Final = {
    "retention.ms": str(30 * 24 * 3_600_000),
    # By the broker's clock it is known how long a reporter has been silent, whatever its own says.
    "message.timestamp.type": "LogAppendTime",
}
TIMEOUT_S: Final = 5.0

Encode = Callable[[Report], bytes]


class AuditTopic:
    """Where the reports about the topics of one cluster go."""

    def __init__(
        self,
        brokers: str,
        *,
        registry: "RegistryClient | None" = None,
        timeout_s: float = TIMEOUT_S,
        security: ClientSecurity = NO_SECURITY,
    ) -> None:
        """With a registry the reports are Avro, and it is closed with the topic; without one they are JSON."""
        self._registry = registry
        self._encode = encode_report if registry is None else _avro_encoder(registry)
        self._timeout_ms = round(timeout_s * 1000)
        self._cluster = Cluster(brokers, client_id="millstream-audit", timeout_s=timeout_s, security=security)
        self._cluster_id: str | None = None

    def close(self) -> None:
        """Close the connections."""
        self._cluster.close()
        if self._registry is not None:
            self._registry.close()

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
        count = len(find_or_create(self._cluster, AUDIT_TOPIC, partitions=PARTITIONS, configs=CONFIGS).partitions)
        placed = sorted((key_partition(key, count), number) for number, (key, _) in enumerate(pairs))
        for partition, numbers in groupby(placed, key=lambda place: place[0]):
            own = [pairs[number] for _, number in numbers]
            write_key_values(self._cluster, TopicPartition(AUDIT_TOPIC, partition), own, timeout_ms=self._timeout_ms)


def open_audit_topic(brokers: str, settings: AuditSettings, options: Mapping[str, object]) -> AuditTopic:
    """Where the reports of a tier go; nothing is connected yet. `options` are those of the client that is counted."""
    security = ClientSecurity.of({name: str(value) for name, value in {**options, **settings.options}.items()})
    if settings.registry is None:
        return AuditTopic(brokers, security=security)
    from millstream.registry.client import RegistryClient  # its client is for those who have one

    return AuditTopic(brokers, registry=RegistryClient(settings.registry, timeout_s=TIMEOUT_S, retries=0), security=security)


def _avro_encoder(registry: "RegistryClient") -> Encode:
    from millstream.registry.avro_serializer import AvroSerializer  # brings fastavro along

    serialize = AvroSerializer(registry, REPORT_SCHEMA)
    return lambda report: serialize(report_fields(report), AUDIT_TOPIC) or b""
