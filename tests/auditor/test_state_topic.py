"""The state of the audit on a real broker: zombies change nothing, partitions that are added do not split counts, and topics that are
created anew are counted from their beginning. The auditors run in this process, turn by turn."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from millstream.audit.reports.report import AUDIT_TOPIC
from millstream.auditor.cluster_auditor import ClusterAuditor
from millstream.auditor.settings import AuditorSettings
from millstream.auditor.state_log import Newest
from millstream.auditor.state_topic import StateTaken, state_entries
from millstream.client.cluster import Cluster
from millstream.client.key_partition import key_partition
from tests.auditor.audited_topic import AUDIT_PARTITIONS, AuditedTopic
from tests.auditor.auditor_process import rows_of
from tests.brokers import Broker, MillstreamBroker, StartBroker
from tests.waiting import wait_until

Make = Callable[..., ClusterAuditor]
NEVER_S = 1e9


@pytest.fixture
def quiet_broker(start_broker: StartBroker) -> Broker:
    """One whose `_audit` may be changed, without an auditor of its own."""
    broker = start_broker(start=False)
    if isinstance(broker, MillstreamBroker):
        broker.flags.append("--no-audit")
    broker.start()
    return broker


@pytest.fixture
def make() -> Iterator[Make]:
    """Makes auditors of a broker, which end with the test."""
    made: list[ClusterAuditor] = []

    def make(broker: Broker, group: str, **changes: object) -> ClusterAuditor:
        options = {"bootstrap.servers": broker.bootstrap_servers, "topic.metadata.refresh.interval.ms": "200"}
        made.append(ClusterAuditor(replace(AuditorSettings(options, group=group, flush_s=0.1), **changes)))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for auditor in made:
        auditor.close()


def audit_until(condition: Callable[[], object], what: str, *auditors: ClusterAuditor) -> None:
    def has_come() -> object:
        for auditor in auditors:
            auditor.turn(0.05)
        return condition()

    wait_until(has_come, what, deadline_s=90)


def counts(broker: Broker, topic: AuditedTopic) -> dict[str, tuple[int, str]]:
    """What the state and newer reports say, without a look at logs."""
    return {tier: (row["count"], row["verdict"]) for tier, row in rows_of(broker.bootstrap_servers, topic.name, "--no-logs").items()}


def judged(auditor: ClusterAuditor, topic: AuditedTopic) -> dict[str, tuple[int, str]]:
    """What an auditor has in memory."""
    ledgers = [ledger for ledger in auditor.ledgers() if ledger.topic == topic.name]
    assert len(ledgers) <= 1, "the topic is in one partition"
    judged = [auditor.judge(ledger, now_ms=int(time.time() * 1000)).rows for ledger in ledgers]
    rows = [row for by_bucket in judged for some in by_bucket.values() for row in some]
    return {row.tier.name: (row.count, row.verdict.value) for row in rows}


def newest(broker: Broker) -> list[Newest]:
    """What the partitions of the state add up to."""
    with Cluster(broker.bootstrap_servers) as cluster:
        return [Newest(state_entries(cluster, partition)) for partition in range(AUDIT_PARTITIONS)]


def repairs(broker: Broker) -> set[bytes]:
    """What a zombie wrote over."""
    return set().union(*(one.repairs() for one in newest(broker)))


def two_topics() -> list[str]:
    """One for each partition of `_audit`."""
    names = [f"payments-{number}" for number in range(100)]
    return list({key_partition(name.encode(), AUDIT_PARTITIONS): name for name in names}.values())


def test_what_an_auditor_writes_that_is_no_longer_the_owner_is_ignored_and_written_over(
    broker: Broker, topic: AuditedTopic, make: Make
) -> None:
    zombie = make(broker, "zombie", reads_logs=False, flush_s=NEVER_S)
    topic.write(100)
    topic.sent(100)
    audit_until(lambda: any(ledger.topic == topic.name for ledger in zombie.ledgers()), "the zombie has read a report", zombie)
    owner = make(broker, "owner")
    audit_until(lambda: counts(broker, topic).get("broker") == (100, "complete"), "the owner has counted", owner)
    topic.write(50)
    topic.sent(50)
    audit_until(lambda: counts(broker, topic).get("broker") == (150, "complete"), "the owner has counted on", owner)
    owner.flush()
    before = newest(broker)
    with pytest.raises(StateTaken, match="another auditor has taken over partition"):
        zombie.flush()
    assert not any(ledger.topic == topic.name for ledger in zombie.ledgers()), "it has dropped what is not its own"
    after = newest(broker)
    assert [one.values for one in after] == [one.values for one in before]
    assert repairs(broker) != set(), "the zombie wrote"
    assert counts(broker, topic) == {"web": (150, "complete"), "broker": (150, "complete")}
    for name in two_topics():
        with AuditedTopic(broker.bootstrap_servers, name) as other:
            other.sent(1)
    audit_until(lambda: repairs(broker) == set(), "the owner has written over it", owner)


def test_reports_count_once_when_the_audit_topic_gets_more_partitions(quiet_broker: Broker, make: Make) -> None:
    more = 5
    names = (f"orders-{number}" for number in range(100))
    moving = next(name for name in names if key_partition(name.encode(), more) >= AUDIT_PARTITIONS)
    auditor = make(quiet_broker, "one")
    with AuditedTopic(quiet_broker.bootstrap_servers, moving) as topic:
        topic.write(100)
        topic.sent(100)
        audit_until(lambda: counts(quiet_broker, topic).get("broker") == (100, "complete"), "all is counted", auditor)
        admin = AdminClient({"bootstrap.servers": quiet_broker.bootstrap_servers})
        admin.create_partitions([NewPartitions(AUDIT_TOPIC, more)])[AUDIT_TOPIC].result(30)
        topic.audit_has(more)
        topic.write(50)
        topic.sent(50)
        assert counts(quiet_broker, topic)["web"][0] == 150, "a report finds it where it is"
        topic.handled((0, 150))
        wanted = dict.fromkeys(("web", "broker", "billing"), (150, "complete"))
        audit_until(lambda: judged(auditor, topic) == wanted, "an auditor counts it with the others", auditor)
        later = make(quiet_broker, "two")
        audit_until(lambda: judged(later, topic) == wanted, "and so does the next one", later)
        assert counts(quiet_broker, topic) == wanted


def test_an_audit_topic_that_was_created_anew_is_read_from_its_start_though_it_is_longer_than_before(
    quiet_broker: Broker, make: Make
) -> None:
    auditor = make(quiet_broker, "one")
    with AuditedTopic(quiet_broker.bootstrap_servers, "orders") as topic:
        topic.write(100)
        topic.sent(100)
        audit_until(lambda: counts(quiet_broker, topic).get("broker") == (100, "complete"), "all is counted", auditor)
        admin = AdminClient({"bootstrap.servers": quiet_broker.bootstrap_servers})
        _create_anew(admin, AUDIT_TOPIC)
        topic.audit_has(AUDIT_PARTITIONS)
        topic.write(20)
        for _ in range(20):
            topic.sent(1)
        wanted = {"web": (120, "complete"), "broker": (120, "complete")}
        assert counts(quiet_broker, topic)["web"] == wanted["web"], "a report needs no auditor to notice"
        audit_until(lambda: judged(auditor, topic) == wanted, "an auditor that runs notices", auditor)
        later = make(quiet_broker, "two")
        audit_until(lambda: judged(later, topic) == wanted, "and so does the next one", later)


def test_a_topic_that_was_created_anew_is_counted_from_its_beginning(broker: Broker, topic: AuditedTopic, make: Make) -> None:
    auditor = make(broker, "anew")
    topic.write(100)
    topic.sent(100)
    topic.handled((0, 100))
    audit_until(lambda: counts(broker, topic).get("broker") == (100, "complete"), "all is counted", auditor)
    _create_anew(AdminClient({"bootstrap.servers": broker.bootstrap_servers}), topic.name)
    topic.write(30)
    topic.sent(30)
    audit_until(lambda: counts(broker, topic).get("broker") == (130, "complete"), "the new one is counted, too", auditor)
    topic.handled((0, 30))
    wanted = dict.fromkeys(("web", "broker", "billing"), (130, "complete"))
    audit_until(lambda: counts(broker, topic) == wanted, "as a consumer did", auditor)


def _create_anew(admin: AdminClient, name: str) -> None:
    admin.delete_topics([name])[name].result(30)
    wait_until(lambda: name not in admin.list_topics(timeout=10).topics, "the topic is gone")
    wait_until(lambda: _is_created(admin, name), "the topic is created again")
    wait_until(lambda: name in admin.list_topics(timeout=10).topics, "the topic is there again")


def _is_created(admin: AdminClient, name: str) -> bool:
    """A name may be taken for a moment after its topic was deleted."""
    try:
        admin.create_topics([NewTopic(name, 2, 1)])[name].result(30)
    except Exception:  # noqa: BLE001 -- whatever it is, it is asked again
        return False
    return True
