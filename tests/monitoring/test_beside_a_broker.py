"""The process with the metrics beside a real broker: pages, probes, its life and its end."""

import os
import signal
import socket

from tests.brokers import MillstreamBroker
from tests.group_offsets import commit, find
from tests.monitoring.published import PublishingBroker
from tests.topics import create_topic, fresh_name, produce_values, read_all
from tests.waiting import is_gone, wait_until


def lag(broker: PublishingBroker, group: str, topic: str) -> float | None:
    return broker.series().get(f'kafka_consumergroup_lag{{consumergroup="{group}",topic="{topic}",partition="0"}}')


def test_what_clients_do_is_on_the_page(broker: PublishingBroker) -> None:
    topic, group = create_topic(broker, partitions=2), fresh_name("group")
    produce_values(broker, topic, [b"x"] * 10, batch_size=5)
    with broker.connect() as connection:
        wait_until(lambda: find(connection, group)[0].error_code == 0, "the coordinator")
        assert commit(connection, group, topic, 4) == 0
        wait_until(lambda: lag(broker, group, topic) == 6, "the lag")
        found = broker.series()
        assert found[f'kafka_topic_partition_current_offset{{topic="{topic}",partition="0"}}'] == 10
        assert found[f'kafka_topic_partitions{{topic="{topic}"}}'] == 2
        assert found[f'kafka_server_brokertopicmetrics_messagesin_total{{topic="{topic}"}}'] == 10
        assert found[f'kafka_server_brokertopicmetrics_totalproducerequests_total{{topic="{topic}"}}'] == 2
        seconds = (
            f'kafka_consumergroup_group_lag_seconds{{cluster_name="{cluster_name(found)}",group="{group}",topic="{topic}",partition="0"}}'
        )
        assert 0 < found[seconds] < 600
        assert found['millstream_request_seconds_count{request="OffsetCommit"}'] >= 1
        assert found["kafka_controller_kafkacontroller_activecontrollercount"] == 1
        assert commit(connection, group, topic, 10) == 0
        wait_until(lambda: lag(broker, group, topic) == 0, "no lag")


def cluster_name(series: dict[str, float]) -> str:
    name = next(name for name in series if "cluster_name" in name)
    return name.partition('cluster_name="')[2].partition('"')[0]


def test_bytes_out_are_what_consumers_were_sent(broker: PublishingBroker) -> None:
    topic = create_topic(broker)
    produce_values(broker, topic, [b"x" * 100] * 10)
    name = f'kafka_server_brokertopicmetrics_bytesout_total{{topic="{topic}"}}'
    wait_until(lambda: broker.series().get(name) == 0, "the topic")
    assert len(read_all(broker, topic)) == 10
    wait_until(lambda: broker.series()[name] > 1000, "bytes")


def test_probes_say_that_the_broker_is_well(broker: PublishingBroker) -> None:
    assert broker.page("/health") == (200, '{"status": "up"}\n')
    assert broker.page("/ready") == (200, '{"status": "ready"}\n')
    assert broker.page("/somewhere")[0] == 404


def test_broker_that_hangs_is_not_healthy(broker: PublishingBroker) -> None:
    broker.page("/health")
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        wait_until(lambda: broker.page("/health")[0] == 503, "down")
        assert "s old" in broker.page("/ready")[1]
    finally:
        os.kill(broker.pid, signal.SIGCONT)
    wait_until(lambda: broker.page("/health")[0] == 200, "up")


def test_process_is_started_by_the_first_request_and_again_when_it_was_killed(own_broker: PublishingBroker) -> None:
    own_broker.start()
    assert own_broker.publishers == []
    assert own_broker.page("/ready")[0] == 200
    [first] = own_broker.publishers
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: is_gone(first), "the end of a process that was killed")
    assert own_broker.page("/ready")[0] == 200
    [second] = own_broker.publishers
    assert second != first
    own_broker.kill()
    wait_until(lambda: is_gone(second), "the end of the process with the broker's")


def test_taken_port_is_said_and_does_not_stop_the_broker(own_broker: PublishingBroker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        own_broker.flags = ["--no-registry", "--metrics", f"127.0.0.1:{taken.getsockname()[1]}"]
        own_broker.start()
        assert f"port {taken.getsockname()[1]} is taken" in own_broker.output
        assert own_broker.metrics_address in own_broker.stderr.read_text()
        assert own_broker.page("/ready")[0] == 200


def test_metrics_can_be_off(own_broker: MillstreamBroker) -> None:
    own_broker.flags = ["--no-registry", "--metrics", "off"]
    own_broker.start()
    assert " metrics " not in own_broker.stdout.read_text()
