"""`millstream audit report` on a real broker, without an auditor that runs."""

import json
import re
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from millstream.audit.counter import Counter
from millstream.audit.reports.report import Kind, Origin, ReadRange
from millstream.testing import Broker as InProcessBroker
from millstream.wire.compression import Codec
from tests.auditor.audited_topic import AuditedTopic
from tests.auditor.auditor_process import audit_report, rows_of
from tests.brokers import Broker, StartBroker


def test_what_arrived_everywhere_is_complete(broker: Broker, topic: AuditedTopic) -> None:
    topic.write(60)
    topic.write(40, codec=Codec.LZ4)
    topic.sent(100)
    topic.handled((0, 100))
    rows = rows_of(broker.bootstrap_servers, topic.name)
    assert {tier: (row["count"], row["missing"], row["surplus"], row["verdict"]) for tier, row in rows.items()} == {
        "web": (100, 0, 0, "complete"),
        "broker": (100, 0, 0, "complete"),
        "billing": (100, 0, 0, "complete"),
    }
    assert datetime.fromisoformat(rows["web"]["bucket"]) == datetime.fromtimestamp(topic.bucket / 1000, UTC)
    assert rows["broker"]["bytes"] == 600


def test_ten_that_are_missing_are_named_with_topic_bucket_tier_partition_and_offsets(broker: Broker, topic: AuditedTopic) -> None:
    topic.write(100, 1)
    topic.sent(100, 1)
    topic.handled((0, 40), (50, 100), partition=1)
    row = rows_of(broker.bootstrap_servers, topic.name)["billing"]
    assert (row["missing"], row["verdict"]) == (10, "missing")
    assert row["losses"] == [{"before": "broker", "partition": 1, "count": 10, "offsets": [{"from": 40, "to": 49}]}]
    text = audit_report(broker.bootstrap_servers, "--topic", topic.name)
    assert "billing: missing 10 after broker, partition 1, offsets 40-49" in text


def test_ten_that_were_written_twice_are_named(broker: Broker, topic: AuditedTopic) -> None:
    topic.write(110)
    topic.sent(100)
    row = rows_of(broker.bootstrap_servers, topic.name)["broker"]
    assert (row["count"], row["surplus"], row["verdict"]) == (110, 10, "surplus")
    assert row["surpluses"] == [{"before": "web", "partition": 0, "count": 10, "offsets": []}]


def test_what_was_deleted_before_it_was_counted_is_unknown_and_what_consumers_had_of_it_is_no_surplus(
    broker: Broker, topic: AuditedTopic
) -> None:
    topic.write(100)
    topic.sent(100)
    topic.handled((0, 100))
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    [deleted] = admin.delete_records([TopicPartition(topic.name, 0, 60)]).values()
    deleted.result(30)
    rows = rows_of(broker.bootstrap_servers, topic.name)
    found = {tier: (row["count"], row["surplus"], row["verdict"]) for tier, row in rows.items()}
    assert found == {"web": (100, 0, "complete"), "broker": (40, 0, "unknown"), "billing": (100, 0, "complete")}
    audit_report(broker.bootstrap_servers, "--topic", topic.name, "--fail-under", "0.999")


def test_a_client_that_claims_to_have_counted_the_log_keeps_no_bucket_open_and_no_log_from_being_counted(
    broker: Broker, topic: AuditedTopic
) -> None:
    topic.write(100)
    topic.sent(100)
    now_ms = int(time.time() * 1000)
    for cluster, read in (("gone", ()), (topic.cluster_id, (ReadRange(0, 0, 2**62),))):
        counter = Counter(Origin("broker", Kind.BROKER, "test", "here", "dc1", cluster))
        counter.touch(topic.name)
        false = counter.take(now_ms, is_last=True, progress_ms=now_ms - 4_000_000)
        topic.publish([replace(report, read=read) for report in false])
    row = rows_of(broker.bootstrap_servers, topic.name)["broker"]
    assert (row["count"], row["verdict"]) == (100, "complete")


def test_the_exit_code_says_whether_something_is_missing(broker: Broker, topic: AuditedTopic) -> None:
    topic.write(100)
    topic.sent(100)
    audit_report(broker.bootstrap_servers, "--topic", topic.name, "--fail-under", "0.999")
    topic.handled((0, 90))
    audit_report(broker.bootstrap_servers, "--topic", topic.name, "--fail-under", "0.999", expected_code=3)
    audit_report(broker.bootstrap_servers, "--topic", topic.name, "--fail-under", "0.5")


def test_what_is_no_report_is_said_and_left_out(broker: Broker, topic: AuditedTopic) -> None:
    topic.write(10)
    topic.publish_raw([b"hello", b"{}", b"", b"\x00\x00\x00\x00\x01avro", b"[" * 5_000])
    topic.sent(10)
    assert rows_of(broker.bootstrap_servers, topic.name)["broker"]["verdict"] == "complete"
    said = re.search(r"(\d+) messages of _audit are no reports", audit_report(broker.bootstrap_servers, "--topic", topic.name))
    assert said is not None
    assert int(said[1]) >= 5, "others may have left some"


def test_reports_with_buckets_of_another_length_are_said_and_left_out(broker: Broker, topic: AuditedTopic) -> None:
    topic.write(10)
    topic.sent(10)
    odd = topic.tier("odd", Kind.CONSUMER)
    odd.touch(topic.name)
    topic.publish([replace(report, bucket_ms=420_000) for report in odd.take(topic.bucket, is_last=True)])
    text = audit_report(broker.bootstrap_servers, "--topic", topic.name)
    assert "1 reports have buckets of a length that cannot be compared with 600 s, or" in text


def test_the_page_has_everything_in_it(broker: Broker, topic: AuditedTopic, tmp_path: Path) -> None:
    topic.write(10)
    topic.sent(10)
    page = tmp_path / "audit.html"
    audit_report(broker.bootstrap_servers, "--topic", topic.name, "--html", str(page))
    text = page.read_text()
    assert topic.name in text
    assert "<canvas>" in text
    assert "http" not in text
    cells = json.loads(text.partition("const data=")[2].partition(",names=")[0])["cells"]
    assert cells == ["a"]


def test_what_a_mirror_lost_on_its_way_to_another_cluster_is_named(broker: Broker, topic: AuditedTopic, start_broker: StartBroker) -> None:
    other = start_broker()
    topic.write(100)
    topic.sent(100)
    with AuditedTopic(other.bootstrap_servers, topic.name, is_audited=False) as copy:
        copy.write(90)
        topic.copied(90, to=copy)
        if topic.cluster_id == copy.cluster_id:
            pytest.skip("both brokers have the same cluster id")
        found = audit_report(broker.bootstrap_servers, "--brokers", other.bootstrap_servers, "--json", "--topic", topic.name).splitlines()
        rows = {(row["tier"], row["cluster"]): row for row in map(json.loads, found)}
    assert {place: (row["count"], row["missing"], row["verdict"]) for place, row in rows.items()} == {
        ("web", topic.cluster_id): (100, 0, "complete"),
        ("broker", topic.cluster_id): (100, 0, "complete"),
        ("copy", topic.cluster_id): (90, 10, "missing"),
        ("broker", copy.cluster_id): (90, 0, "complete"),
    }
    assert rows["copy", topic.cluster_id]["losses"] == [
        {"before": "broker", "partition": 0, "count": 10, "offsets": [{"from": 90, "to": 99}]}
    ]


def test_times_and_tiers_are_chosen(broker: Broker, topic: AuditedTopic) -> None:
    topic.write(10)
    topic.sent(10)
    assert list(rows_of(broker.bootstrap_servers, topic.name, "--tier", "web")) == ["web"]
    assert rows_of(broker.bootstrap_servers, topic.name, "--since", "1s") == {}
    assert rows_of(broker.bootstrap_servers, topic.name, "--until", "1d") == {}
    assert len(rows_of(broker.bootstrap_servers, topic.name, "--since", "1d", "--until", "1m")) == 2


def test_wrong_credentials_are_said_without_the_password(broker: Broker, topic: AuditedTopic) -> None:
    options = ("security.protocol=SASL_PLAINTEXT", "sasl.mechanism=PLAIN", "sasl.username=me", "sasl.password=secret-7")
    said = audit_report(broker.bootstrap_servers, *(word for option in options for word in ("-X", option)), expected_code=1)
    assert broker.bootstrap_servers in said
    assert "secret-7" not in said


def test_reports_that_are_odd_are_said(broker: Broker, topic: AuditedTopic) -> None:
    topic.sent(10)
    counter = topic.tier("phone", Kind.PRODUCER)
    counter.touch(topic.name)
    topic.publish(counter.take(5, is_last=True))
    said = audit_report(broker.bootstrap_servers, "--topic", topic.name)
    assert re.search("'phone' on here .* has a clock that is more than a day off", said)


def test_a_side_that_does_not_answer_is_named(broker: Broker, topic: AuditedTopic) -> None:
    audit_report(broker.bootstrap_servers, "--brokers", "127.0.0.1:1", expected_code=1)


def test_a_cluster_that_is_named_twice_is_not_counted_twice(broker: Broker, topic: AuditedTopic) -> None:
    said = audit_report(broker.bootstrap_servers, "--brokers", f"localhost:{broker.port}", expected_code=2)
    assert f"--brokers localhost:{broker.port}: the cluster {topic.cluster_id} was named before" in said


def test_a_report_of_nothing_says_that_nobody_reports(capsys: pytest.CaptureFixture[str]) -> None:
    with InProcessBroker() as silent:
        silent.produce("orders", "tea")
        audit_report(silent.bootstrap_servers)
    assert "no producer, consumer or mirror has reported to the audit yet" in capsys.readouterr().err


def test_what_is_asked_for_in_vain_is_said(broker: Broker, topic: AuditedTopic, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    topic.sent(10)
    audit_report(broker.bootstrap_servers, "--topic", topic.name, "--tier", "nobody")
    assert "nothing that was asked for; the audit knows the topics" in capsys.readouterr().err
    said = audit_report(broker.bootstrap_servers, "--html", str(tmp_path / "missing" / "page.html"), expected_code=1)
    assert "page.html: the page cannot be written: No such file or directory." in said
