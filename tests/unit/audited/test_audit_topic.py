"""The topic of the audit, and what is said when it cannot be had."""

from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from millstream.audit.reports.report import Kind, Report
from millstream.audited.audit_topic import AuditTopic
from millstream.audited.settings import AuditSettings
from millstream.client.cluster import Cluster
from millstream.client.errors import BrokerUnavailable
from millstream.errors import KafkaError, UnknownTopicOrPartition
from tests.unit.audited.nowhere import nowhere

REPORT = Report(uuid4(), 0, AuditSettings("shop").origin(Kind.PRODUCER, ""), "orders", bucket_ms=1, sent_ms=1, interval_ms=1)
TOPIC_AUTHORIZATION_FAILED = 29


def test_without_permission_to_create_it_one_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_cluster: Cluster, name: str) -> None:
        raise UnknownTopicOrPartition(name)

    def refuse(_cluster: Cluster, _request: Any) -> Any:
        return SimpleNamespace(topics=[SimpleNamespace(error_code=TOPIC_AUTHORIZATION_FAILED, error_message="Authorization failed.")])

    monkeypatch.setattr(Cluster, "topic", missing)
    monkeypatch.setattr(Cluster, "call", refuse)
    with pytest.raises(KafkaError, match=r"the topic _audit is missing and could not be created .*millstream topic create _audit"):
        AuditTopic("127.0.0.1:1").publish([REPORT])


def test_a_broker_that_is_not_there_is_named() -> None:
    address = nowhere()
    with pytest.raises(BrokerUnavailable, match=address):
        AuditTopic(address, timeout_s=0.2).publish([REPORT])
