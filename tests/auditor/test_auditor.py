"""`millstream audit run` on a real broker: killed at any point it counts nothing twice, several share the work, alarms are raised."""

import itertools
from pathlib import Path

import pytest

from millstream.audit.reports.report import bucket_text
from tests.auditor.audited_topic import AuditedTopic
from tests.auditor.auditor_process import AuditorProcess, rows_of
from tests.brokers import Broker, StartBroker
from tests.waiting import wait_until

SOON = ("-X", "session.timeout.ms=6000")
"""When others take over from one that is killed; brokers allow no less."""


def counts(broker: Broker, topic: AuditedTopic, *arguments: str) -> dict[str, tuple[int, str]]:
    return {tier: (row["count"], row["verdict"]) for tier, row in rows_of(broker.bootstrap_servers, topic.name, *arguments).items()}


def test_an_auditor_that_is_killed_again_and_again_counts_everything_once(
    broker: Broker, topic: AuditedTopic, auditors: list[AuditorProcess], tmp_path: Path
) -> None:
    handled = itertools.count(0, 50)
    for life in range(3):
        auditors.append(AuditorProcess(tmp_path / f"life-{life}", "--brokers", broker.bootstrap_servers, *SOON))
        for _ in range(3):
            start = next(handled)
            topic.write(50)
            topic.sent(50)
            topic.handled((start, start + 50))
        if life:
            # Once it has written something of its own: the log, counted.
            wait_until(lambda: counts(broker, topic, "--no-logs").get("broker", (0, ""))[0] > 0, "the log is counted", deadline_s=60)
        auditors[-1].kill()
    auditors.append(AuditorProcess(tmp_path / "last", "--brokers", broker.bootstrap_servers, *SOON))
    wait_until(lambda: counts(broker, topic, "--no-logs").get("broker") == (450, "complete"), "all is counted", deadline_s=60)
    assert auditors[-1].stop() == 0
    assert counts(broker, topic, "--no-logs") == dict.fromkeys(("web", "broker", "billing"), (450, "complete"))


def test_several_auditors_share_the_work_and_one_takes_over(
    broker: Broker, topic: AuditedTopic, auditors: list[AuditorProcess], tmp_path: Path
) -> None:
    auditors += [AuditorProcess(tmp_path / name, "--brokers", broker.bootstrap_servers) for name in ("one", "two")]
    topic.write(100)
    topic.sent(100)
    wait_until(lambda: counts(broker, topic, "--no-logs").get("broker") == (100, "complete"), "the log is counted", deadline_s=60)
    wait_until(lambda: all("auditing partition" in auditor.log for auditor in auditors), "both have a partition", deadline_s=60)
    auditors[0].stop()
    topic.write(50)
    topic.sent(50)
    wait_until(lambda: counts(broker, topic, "--no-logs").get("broker") == (150, "complete"), "the other one goes on", deadline_s=60)


def test_an_alarm_names_what_is_missing_and_sides_that_are_away_or_refuse_us_hold_nothing_up(
    broker: Broker, topic: AuditedTopic, auditors: list[AuditorProcess], tmp_path: Path
) -> None:
    metrics, refused = tmp_path / "audit.prom", tmp_path / "refused.properties"
    refused.write_text("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.username=me\nsasl.password=secret-7\n")
    sides = ["--brokers", broker.bootstrap_servers, "--config", str(refused), "--brokers", "127.0.0.1:1", "--brokers"]
    auditors.append(AuditorProcess(tmp_path / "one", *sides, broker.bootstrap_servers, "--grace", "1s", "--metrics-file", str(metrics)))
    topic.publish_raw([b"no report"])
    topic.write(100)
    topic.sent(100)
    topic.handled((0, 90))
    said = f"{topic.name} of the bucket at {bucket_text(topic.bucket)}: the tier 'billing' has 90.000% of 100, missing 10: 10 after "
    wait_until(lambda: said in auditors[0].log, "the alarm", deadline_s=60)
    assert f"audit: {said}broker in partition 0 at offsets 90-99" in auditors[0].log
    gauge = f'millstream_audit_alarms{{kind="incomplete",topic="{topic.name}",tier="billing"}}'
    wait_until(lambda: f"{gauge} 1" in metrics.read_text(), "the metric")
    topic.handled((90, 100))
    wait_until(lambda: f"{gauge} 0" in metrics.read_text(), "it is resolved", deadline_s=60)
    assert auditors[0].log.count(said) == 1, "said once"
    assert f"audit: resolved: {topic.name}" in auditors[0].log
    assert "is no report" in auditors[0].log
    assert "the audit of 127.0.0.1:1 is held up" in auditors[0].log
    assert f"the audit of {broker.bootstrap_servers} is held up" in auditors[0].log
    assert "secret-7" not in auditors[0].log


def test_an_auditor_of_two_clusters_counts_the_target_of_a_mirror_that_reports_at_the_source(
    broker: Broker, topic: AuditedTopic, auditors: list[AuditorProcess], start_broker: StartBroker, tmp_path: Path
) -> None:
    other = start_broker()
    topic.write(100)
    topic.sent(100)
    with AuditedTopic(other.bootstrap_servers, topic.name, is_audited=False) as copy:
        copy.write(90)
        topic.copied(100, to=copy)
        both = ["--brokers", broker.bootstrap_servers, "--brokers", other.bootstrap_servers]
        auditors.append(AuditorProcess(tmp_path / "one", *both, "--grace", "1s"))
        if topic.cluster_id == copy.cluster_id:
            pytest.skip("both brokers have the same cluster id")
        said = "the tier 'broker' has 90.000% of 100, missing 10: 10 after copy in partition 0 at offsets 90-99"
        wait_until(lambda: said in auditors[0].log, "the alarm", deadline_s=60)


def test_an_option_that_librdkafka_does_not_know_is_named(
    broker: Broker, topic: AuditedTopic, auditors: list[AuditorProcess], tmp_path: Path
) -> None:
    auditors.append(AuditorProcess(tmp_path / "one", "--brokers", broker.bootstrap_servers, "-X", "no.such.option=1"))
    said = 'is held up, and goes on trying: an option of the client is wrong: No such configuration property: "no.such.option"'
    wait_until(lambda: said in auditors[0].log, "the option is named")
    assert "Traceback" not in auditors[0].log
