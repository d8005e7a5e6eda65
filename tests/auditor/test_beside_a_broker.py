"""The auditor of `millstream serve`: started by the first report, ended with its broker, back after a crash."""

import os
import signal
from pathlib import Path

import pytest

from tests.auditor.audited_topic import AuditedTopic
from tests.auditor.auditor_process import rows_of
from tests.brokers import IS_KAFKA, Broker, MillstreamBroker, StartBroker
from tests.waiting import is_gone, wait_until

pytestmark = pytest.mark.skipif(IS_KAFKA, reason="Kafka has no auditor beside it")


def auditors_of(broker: Broker) -> list[int]:
    """Auditors that are children of the broker's process, by their command lines."""
    listed = Path(f"/proc/{broker.pid}/task/{broker.pid}/children").read_text().split()
    return [int(pid) for pid in listed if b"millstream.auditor.process" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def test_it_is_started_by_the_first_report_and_comes_back_and_ends_with_the_broker(start_broker: StartBroker) -> None:
    broker = start_broker()
    assert auditors_of(broker) == []
    with AuditedTopic(broker.bootstrap_servers, "orders") as topic:
        topic.write(100)
        topic.sent(100)
        [auditor] = wait_until(lambda: auditors_of(broker), "the auditor is started", deadline_s=60)
        os.kill(auditor, signal.SIGKILL)
        again = wait_until(lambda: [pid for pid in auditors_of(broker) if pid != auditor], "it is started again", deadline_s=60)
        wait_until(
            lambda: rows_of(broker.bootstrap_servers, "orders", "--no-logs").get("broker", {}).get("count") == 100,
            "the log is counted",
            deadline_s=60,
        )
    broker.kill()
    wait_until(lambda: all(map(is_gone, again)), "the auditor ends with the broker")
    assert "auditing partition" in broker.output


def test_it_can_be_switched_off(start_broker: StartBroker) -> None:
    broker = start_broker(start=False)
    assert isinstance(broker, MillstreamBroker)
    broker.flags.append("--no-audit")
    broker.start()
    with AuditedTopic(broker.bootstrap_servers, "orders") as topic:
        topic.write(1)
        topic.sent(1)
        assert rows_of(broker.bootstrap_servers, "orders")["broker"]["count"] == 1
    assert auditors_of(broker) == []
