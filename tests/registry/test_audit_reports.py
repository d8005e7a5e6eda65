"""Reports of the audit in Avro: the schema is registered, and the auditor reads them."""

from datetime import timedelta

from millstream import Message, Producer
from millstream.audit.reports.report import AUDIT_TOPIC, Kind
from millstream.audit.reports.report_fields import report_of
from millstream.audited.settings import AuditSettings
from millstream.json_object import JsonObject
from millstream.registry.avro_deserializer import AvroDeserializer
from tests.audit_reports import read_messages
from tests.brokers import Broker
from tests.registry.registry_process import RegistryProcess
from tests.topics import create_topic

OLD_MS = round(timedelta(days=1).total_seconds() * 1000)


def test_reports_go_through_the_registry_where_there_is_one(broker: Broker, registry: RegistryProcess) -> None:
    topic = create_topic(broker)
    with Producer(broker.bootstrap_servers, audit=AuditSettings("shop", interval_s=0.5, registry=registry.url)) as producer:
        producer.send(topic, [b"12345", Message(b"1", timestamp=OLD_MS)])
    messages = [message for message in read_messages(broker.bootstrap_servers, AUDIT_TOPIC) if message.key == topic.encode()]
    assert {(message.payload or b"{")[0] for message in messages} == {0}
    with registry.client() as client:
        decode = AvroDeserializer(client)
        reports = [report_of(JsonObject(decode(message.payload))) for message in messages]
        assert client.latest(f"{AUDIT_TOPIC}-value").schema_type == "AVRO"
    assert {(report.topic, report.origin.tier, report.origin.kind) for report in reports} == {(topic, "shop", Kind.PRODUCER)}
    counts = [count for report in reports for count in report.counts]
    assert sorted((count.count, count.bytes) for count in counts) == [(1, 1), (1, 5)]
    assert reports[-1].is_last
