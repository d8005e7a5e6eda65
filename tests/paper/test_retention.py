"""Claim 13: the broker keeps no consumption state, and what it keeps does not depend on who has read what.

Messages are kept for a time, typically seven days, whether they were consumed or not. The consumer, not the broker, knows how far it has
read; so a consumer leaves no trace in the broker's files.
"""

from tests.batches import encode_batch, now_ms
from tests.brokers import Broker, StartBroker
from tests.connection import DESCRIBE_CONFIGS, INCREMENTAL_ALTER_CONFIGS
from tests.topics import EARLIEST, create_topic, list_offset, produce, produce_values, read_all
from tests.waiting import wait_until

DAY_MS = 86_400_000


def log_start(broker: Broker, topic: str) -> int:
    with broker.connect() as connection:
        offset: int = list_offset(connection, topic, EARLIEST).offset
        return offset


def fill(broker: Broker, topic: str, *, age_ms: int, batches: int = 30) -> None:
    """Batches of 100 kB with timestamps in the past."""
    with broker.connect() as connection:
        for _ in range(batches):
            assert produce(connection, topic, encode_batch([bytes(100_000)], timestamp=now_ms() - age_ms)).error_code == 0


def set_retention(broker: Broker, topic: str, retention_ms: int) -> None:
    configs = [{"name": "retention.ms", "config_operation": 0, "value": str(retention_ms)}]
    with broker.connect() as connection:
        resources = [{"resource_type": 2, "resource_name": topic, "configs": configs}]
        (answer,) = connection.ask(INCREMENTAL_ALTER_CONFIGS, 1, {"resources": resources}).responses
        assert answer.error_code == 0


def test_messages_are_kept_for_seven_days_unless_set_otherwise(broker: Broker, topic: str) -> None:
    resource = {"resource_type": 2, "resource_name": topic, "configuration_keys": ["retention.ms", "retention.bytes"]}
    with broker.connect() as connection:
        (result,) = connection.ask(DESCRIBE_CONFIGS, 4, {"resources": [resource]}).results
    assert {config.name: config.value for config in result.configs} == {"retention.ms": str(7 * DAY_MS), "retention.bytes": "-1"}


def test_consuming_changes_nothing_in_the_brokers_files(broker: Broker, topic: str) -> None:
    produce_values(broker, topic, [b"x" * 100] * 1000, batch_size=10)
    folder = broker.partition_directory(topic)

    def files() -> dict[str, tuple[int, int]]:
        return {file.name: (file.stat().st_size, file.stat().st_mtime_ns) for file in folder.iterdir()}

    before = files()
    for _ in range(5):
        assert len(read_all(broker, topic)) == 1000
    assert files() == before


def test_old_messages_go_whether_they_were_consumed_or_not(start_broker: StartBroker) -> None:
    broker = start_broker(log_retention_check_interval_ms=100)
    consumed, ignored, young = (create_topic(broker, configs={"segment.bytes": 1 << 20, "retention.ms": -1}) for _ in range(3))
    for topic, age_ms in ((consumed, 8 * DAY_MS), (ignored, 8 * DAY_MS), (young, 6 * DAY_MS)):
        fill(broker, topic, age_ms=age_ms)
    assert len(read_all(broker, consumed)) == 30
    for topic in (young, consumed, ignored):
        set_retention(broker, topic, 7 * DAY_MS)
    wait_until(lambda: (log_start(broker, consumed), log_start(broker, ignored)) == (30, 30), "old messages gone")
    assert log_start(broker, young) == 0


def test_young_messages_stay_when_all_have_consumed_them(start_broker: StartBroker) -> None:
    broker = start_broker(log_retention_check_interval_ms=100)
    kept, witness = (create_topic(broker, configs={"segment.bytes": 1 << 20}) for _ in range(2))
    fill(broker, kept, age_ms=0)
    assert len(read_all(broker, kept)) == 30
    fill(broker, witness, age_ms=8 * DAY_MS)
    wait_until(lambda: log_start(broker, witness) == 30, "retention has run")
    assert len(read_all(broker, kept)) == 30


def test_retention_by_size_keeps_the_newest_segments(start_broker: StartBroker) -> None:
    broker = start_broker(log_retention_check_interval_ms=100)
    topic = create_topic(broker, configs={"segment.bytes": 1 << 20, "retention.bytes": 2 << 20})
    fill(broker, topic, age_ms=0, batches=60)
    wait_until(lambda: log_start(broker, topic) == 30, "all gone but the newest three segments of ten")
    wait_until(lambda: len(list(broker.partition_directory(topic).glob("*.log"))) == 3, "files gone")
    assert [record.offset for record in read_all(broker, topic, offset=30)] == list(range(30, 60))


def test_consumer_that_is_reading_a_segment_finishes_it_when_retention_removes_it(start_broker: StartBroker) -> None:
    """The answer that is on its way holds the file, whatever happens to its name."""
    broker = start_broker(log_retention_check_interval_ms=100)
    topic = create_topic(broker, configs={"segment.bytes": 1 << 20, "file.delete.delay.ms": 0})
    with broker.connect() as connection:
        fill(broker, topic, age_ms=8 * DAY_MS, batches=9)
        wait_until(lambda: log_start(broker, topic) == 9, "old messages gone")
        assert produce(connection, topic, encode_batch([b"new"])).base_offset == 9
    assert [record.value for record in read_all(broker, topic, offset=9)] == [b"new"]
