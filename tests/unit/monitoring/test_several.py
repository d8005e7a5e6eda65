from io import BytesIO

from millstream.broker.metrics.sample import BROKER, END, GROUPS, PARTITIONS, Sample, encode_part
from millstream.monitoring.families import Snapshot, write
from millstream.monitoring.lag import Lags
from millstream.monitoring.lines import Lines
from millstream.monitoring.request_times import RecentTimes
from millstream.monitoring.several import Several, merged
from tests.unit.monitoring.samples import partition_sample, sample_of
from tests.unit.monitoring.test_lag import ScriptedReader


def broker_sample(node_id: int, sample: Sample) -> Sample:
    return sample._replace(broker=sample.broker._replace(node_id=node_id, process_id=node_id))


def page(sample: Sample) -> str:
    return write(Snapshot(sample, Lags(ScriptedReader()).of(sample, now=0.0), RecentTimes()), Lines())


def test_what_is_about_a_broker_has_its_number_and_what_is_about_a_partition_is_said_once() -> None:
    first = broker_sample(1, sample_of([partition_sample("a", 0, leader=1, end=5), partition_sample("a", 1, leader=2)], topics={"a": 2}))
    second = broker_sample(2, sample_of([partition_sample("a", 1, leader=2, end=7, messages_in=3)], is_controller=False))
    text = page(merged([first, second], expected=[1, 2]))
    assert 'kafka_server_replicamanager_partitioncount{broker="1"} 2\n' in text
    assert 'kafka_server_replicamanager_leadercount{broker="2"} 1\n' in text
    assert 'kafka_topic_partition_current_offset{topic="a",partition="0"} 5\n' in text
    assert 'kafka_topic_partition_current_offset{topic="a",partition="1"} 7\n' in text
    assert 'kafka_log_log_size{topic="a",partition="1"} 200\n' in text
    assert 'kafka_server_brokertopicmetrics_messagesin_total{topic="a"} 3\n' in text
    assert text.count("kafka_topic_partitions{") == text.count('kafka_topic_partition_leader{topic="a",partition="1"}') == 1


def test_requests_of_all_brokers_are_added_up() -> None:
    samples = [broker_sample(number, sample_of(requests={"Fetch": [number, 0, 10]})) for number in (1, 2)]
    assert merged(samples, expected=[1, 2]).broker.requests == {"Fetch": [3, 0, 20]}


def test_a_broker_that_is_down_or_not_ready_is_named() -> None:
    samples = [broker_sample(1, sample_of(not_ready="no lease")), broker_sample(2, sample_of())]
    assert merged(samples, expected=[1, 2, 3]).broker.not_ready == "broker 3 is down; broker 1: no lease"
    assert not merged(samples[1:], expected=[2]).broker.not_ready


def test_samples_of_several_brokers_end_with_the_numbers_of_all_of_them() -> None:
    samples = [broker_sample(number, sample_of([partition_sample("a", number, leader=number)])) for number in (1, 2)]
    parts = [
        part
        for sample in samples
        for part in (
            encode_part(GROUPS, []),
            encode_part(PARTITIONS, [tuple(row) for row in sample.partitions]),
            encode_part(BROKER, [tuple(sample.broker)]),
        )
    ]
    stream = BytesIO(b"".join([*parts, encode_part(END, [1, 2])]))
    several = Several()
    found = several.read(stream)
    assert found is not None
    assert [part.broker.node_id for part in found.parts] == [1, 2]
    assert [row.leader for row in found.led] == [1, 2]
    assert several.read(stream) is None


def counting(node_id: int, count: int, *, process_id: int = 0) -> Sample:
    """A broker that leads one partition of a topic, wrote so many messages to it, and answered so many requests."""
    row = partition_sample("a", node_id, leader=node_id, messages_in=count)
    own = broker_sample(node_id, sample_of([row], requests={"Produce": [count, 0, count]}, topics={"a": 2}))
    return own._replace(broker=own.broker._replace(process_id=process_id or node_id))


def totals(sample: Sample) -> tuple[int, int, int]:
    [messages] = [line for line in page(sample).splitlines() if line.startswith("kafka_server_brokertopicmetrics_messagesin_total")]
    size = sum(int(line.split()[1]) for line in page(sample).splitlines() if line.startswith("kafka_log_log_size{"))
    return int(messages.split()[1]), sample.broker.requests["Produce"][0], size


def test_what_is_added_up_does_not_go_back_when_a_broker_is_down_or_was_started_again() -> None:
    several = Several()
    assert totals(several.take([counting(1, 10), counting(2, 5)], expected=[1, 2])) == (15, 15, 200)
    assert totals(several.take([counting(1, 11)], expected=[1, 2])) == (16, 16, 100), "it is down, or hangs"
    assert totals(several.take([counting(1, 11), counting(2, 6)], expected=[1, 2])) == (17, 17, 200), "it was only late"
    assert totals(several.take([counting(1, 11), counting(2, 0, process_id=7)], expected=[1, 2])) == (17, 17, 200)
    assert totals(several.take([counting(1, 11), counting(2, 1, process_id=8)], expected=[1, 2])) == (18, 18, 200)
    assert totals(several.take([counting(1, 11)], expected=[1, 2])) == (18, 18, 100)


def test_of_a_topic_that_is_gone_nothing_is_kept() -> None:
    several = Several()
    several.take([counting(1, 10)], expected=[1])
    other = broker_sample(1, sample_of(topics={"b": 1}))
    other = other._replace(broker=other.broker._replace(process_id=2))
    assert "messagesin_total" not in page(several.take([other], expected=[1]))
    assert [row.messages_in for row in several.take([counting(1, 0, process_id=3)], expected=[1]).ended] == []
