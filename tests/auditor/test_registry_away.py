"""Reports in Avro while the schema registry is away: their partition of `_audit` waits, and goes on by itself."""

from pathlib import Path

import pytest

from millstream.audited.audit_topic import AuditTopic
from millstream.auditor.cluster_auditor import ClusterAuditor
from millstream.auditor.settings import AuditorSettings
from millstream.client.key_partition import key_partition
from tests.auditor.audited_topic import AUDIT_PARTITIONS, AuditedTopic
from tests.auditor.auditor_process import audit_report, rows_of
from tests.brokers import Broker
from tests.registry.registry_process import RegistryProcess
from tests.waiting import wait_until

UNKNOWN_SCHEMA = b"\x00\x00\x0f\x42\x40report"


def name_in(partition: int, kind: str) -> str:
    """A topic whose reports are in this partition of `_audit`."""
    names = (f"{kind}-{number}" for number in range(1_000))
    return next(name for name in names if key_partition(name.encode(), AUDIT_PARTITIONS) == partition)


def web_count(broker: Broker, topic: AuditedTopic, *arguments: str) -> int:
    row = rows_of(broker.bootstrap_servers, topic.name, "--no-logs", *arguments).get("web", {})
    return int(row.get("count", 0))


def test_reports_wait_for_the_registry_and_others_do_not_wait_for_them(
    broker: Broker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    registry = RegistryProcess(broker.bootstrap_servers, tmp_path)
    registry.start()
    settings = AuditorSettings(
        {"bootstrap.servers": broker.bootstrap_servers}, group="registry", flush_s=0.1, registry=registry.url, reads_logs=False
    )
    auditor = ClusterAuditor(settings)
    with (
        AuditedTopic(broker.bootstrap_servers, name_in(0, "avro")) as avro,
        AuditedTopic(broker.bootstrap_servers, name_in(1, "json")) as plain,
    ):
        try:
            audit = AuditTopic(broker.bootstrap_servers, registry=registry.client())
            registry_url = ("--registry", registry.url)
            avro.publish_raw([UNKNOWN_SCHEMA])
            avro.sent(100, by=audit)
            avro.sent(20)
            audit.close()
            registry.kill()

            def audited(topic: AuditedTopic) -> bool:
                auditor.turn(0.05)
                return any(ledger.topic == topic.name for ledger in auditor.ledgers())

            plain.sent(100)
            wait_until(lambda: audited(plain), "the other partition is read", deadline_s=90)
            wait_until(lambda: not audited(avro) and auditor.is_behind and "waits, and is tried again" in caplog.text, "it waits")
            assert auditor.malformed == 0, "of which nothing is known"
            assert not audited(avro)
            assert "No schema registry answers" in audit_report(
                broker.bootstrap_servers, "--topic", avro.name, *registry_url, expected_code=1
            )
            registry.start()
            wait_until(lambda: audited(avro) and not auditor.is_behind, "it goes on", deadline_s=90)
            assert auditor.malformed == 1, "what the registry does not know is no report"
            wait_until(lambda: audited(avro) and web_count(broker, avro, *registry_url) == 120, "all is counted")
            assert caplog.text.count("waits, and is tried again") == 1
            assert caplog.text.count("is read on") == 1
        finally:
            auditor.close()
            registry.kill()
