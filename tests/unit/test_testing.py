"""A broker inside the test's process, the fixture that offers it, and the examples that use both."""

import asyncio
import runpy
import socket
import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from millstream import pytest_plugin
from millstream.errors import StartupError, UsageError
from millstream.testing import Broker

EXAMPLES = Path(__file__).parents[2] / "examples"


def send(broker: Broker, value: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce("t", value)
    assert producer.flush(10) == 0


def read(broker: Broker, count: int) -> list[bytes | None]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "enable.auto.commit": False})
    consumer.assign([TopicPartition("t", 0, 0)])
    try:
        return [message.value() for message in consumer.consume(count, timeout=10)]
    finally:
        consumer.close()


def test_a_broker_serves_clients_and_is_gone_afterwards() -> None:
    before = set(threading.enumerate())
    with Broker() as broker:
        send(broker, "v")
        assert read(broker, 1) == [b"v"]
        port = int(broker.bootstrap_servers.rpartition(":")[2])
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)
    assert "millstream-broker" not in {thread.name for thread in set(threading.enumerate()) - before}


def test_two_brokers_do_not_know_each_other() -> None:
    with Broker() as one, Broker() as other:
        send(one, "one")
        send(other, "other")
        assert read(one, 1) == [b"one"]
        assert read(other, 1) == [b"other"]


async def test_a_broker_runs_beside_an_event_loop() -> None:
    async with Broker() as broker:
        await asyncio.to_thread(send, broker, "v")
        assert await asyncio.to_thread(read, broker, 1) == [b"v"]


def test_a_given_directory_keeps_the_data_for_the_next_broker(tmp_path: Path) -> None:
    with Broker(data=tmp_path) as first:
        send(first, "kept")
    with Broker(data=str(tmp_path)) as second:
        assert read(second, 1) == [b"kept"]


def test_options_have_kafkas_names_and_pythons_values() -> None:
    with Broker({"num.partitions": 3, "auto.create.topics.enable": True}) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        producer.produce("three", "v")
        assert producer.flush(10) == 0
        assert len(producer.list_topics("three", timeout=10).topics["three"].partitions) == 3


def test_its_coordination_can_be_reached() -> None:
    from kazoo.client import KazooClient

    with Broker() as broker:
        client = KazooClient(broker.coordination)
        client.start(timeout=10)
        assert client.get_children("/brokers/ids") == ["1"]
        client.stop()
        client.close()


def test_what_keeps_it_from_starting_is_raised() -> None:
    with pytest.raises(UsageError), Broker({"no.such.option": 1}):
        pass
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(StartupError), Broker(port=taken.getsockname()[1]):
        pass


@pytest.mark.parametrize("port", [-1, 65_536])
def test_a_port_that_is_none_is_not_taken_for_another(port: int) -> None:
    with pytest.raises(UsageError, match=f"port={port}: give a port from 1 to 65535"):
        Broker(port=port)


def test_a_broker_that_does_not_run_has_no_address() -> None:
    with pytest.raises(RuntimeError, match="with"):
        _ = Broker().bootstrap_servers


def test_stopping_twice_is_fine() -> None:
    broker = Broker().start()
    broker.stop()
    broker.stop()


def test_the_plugin_costs_nothing_until_its_fixture_is_used() -> None:
    program = "import sys, millstream.pytest_plugin; print([name for name in sys.modules if name.startswith('millstream')])"
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert finished.stdout == "['millstream', 'millstream.pytest_plugin']\n"


def test_the_hello_example_reads_what_it_sent(
    millstream_broker: Broker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["hello", millstream_broker.bootstrap_servers])
    runpy.run_path(str(EXAMPLES / "hello_producer_consumer.py"), run_name="__main__")
    assert capsys.readouterr().out == "hello\nbonjour\nguten Tag\n"


def test_the_example_of_the_papers_interface_counts_every_page_view(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Broker({"num.partitions": 4}) as broker:
        monkeypatch.setattr(sys, "argv", ["paper_streams.py", broker.bootstrap_servers, broker.coordination])
        runpy.run_path(str(EXAMPLES / "paper_streams.py"), run_name="__main__")
    names = ("ann", "bob", "cat", "dan", "eve", "fay")
    assert capsys.readouterr().out.splitlines() == [f"{name} saw 10 pages" for name in names]


def test_the_pytest_example_passes() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(EXAMPLES / "pytest_example.py")]
    finished = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert finished.returncode == 0, finished.stdout + finished.stderr


def test_a_broker_that_is_down_comes_back_with_its_data_at_its_addresses() -> None:
    with Broker(registry=True) as broker:
        addresses = broker.bootstrap_servers, broker.coordination, broker.registry_url
        broker.produce("t", "before")
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "reconnect.backoff.max.ms": 100, "log_level": 0})
        with broker.down():
            with pytest.raises(RuntimeError):
                _ = broker.bootstrap_servers
            producer.produce("t", "meanwhile")
            assert producer.flush(0.1) == 1
        assert producer.flush(30) == 0
        assert (broker.bootstrap_servers, broker.coordination, broker.registry_url) == addresses
        assert [message.payload for message in broker.consume("t", 2)] == [b"before", b"meanwhile"]


def test_an_error_while_a_broker_is_down_brings_it_back_too() -> None:
    with Broker() as broker:
        with pytest.raises(ZeroDivisionError), broker.down():
            raise ZeroDivisionError
        broker.produce("t", "v")


def test_a_clock_that_jumps_lets_retention_do_its_work() -> None:
    with Broker({"log.retention.hours": 24}) as broker:
        broker.produce("t", "old")
        broker.jump(timedelta(hours=23))
        assert [message.payload for message in broker.consume("t")] == [b"old"]
        broker.produce("t", "new")
        broker.jump(timedelta(hours=2))
        # A segment goes as a whole, when its newest message is too old.
        assert [message.payload for message in broker.consume("t")] == [b"old", b"new"]
        broker.jump(timedelta(hours=24))
        assert broker.consume("t") == []
        broker.produce("t", "later")
        [later] = broker.consume("t", 1)
        assert (later.payload, later.offset) == (b"later", 2)
        with broker.down():
            pass
        broker.jump(timedelta(0))
        assert [message.payload for message in broker.consume("t")] == [b"later"]


def test_a_broker_without_a_registry_says_how_to_have_one() -> None:
    with Broker() as broker, pytest.raises(UsageError, match=r"make it with Broker\(registry=True\)"):
        _ = broker.registry_url


def test_fresh_brokers_are_empty_and_take_the_options_of_their_test(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers -p no:cacheprovider\n")
    (tmp_path / "test_fresh.py").write_text(FRESH)
    finished = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", str(tmp_path)], capture_output=True, text=True, check=False, timeout=120
    )
    assert "5 passed" in finished.stdout, finished.stdout + finished.stderr


FRESH = """
import pytest

@pytest.fixture(scope="session")
def millstream_broker_options():
    return {"num.partitions": 2, "log.retention.hours": 1}

@pytest.mark.parametrize("number", [1, 2])
def test_one_sees_nothing_of_the_other(millstream_fresh_broker, number):
    assert millstream_fresh_broker.consume("t") == []
    millstream_fresh_broker.produce("t", "v", "w")
    assert {message.partition for message in millstream_fresh_broker.consume("t", 2)} == {0, 1}

def test_it_is_not_the_broker_of_the_session(millstream_broker, millstream_fresh_broker):
    assert millstream_broker.bootstrap_servers != millstream_fresh_broker.bootstrap_servers

@pytest.mark.millstream_options({"num.partitions": 3})
class TestMarked:
    def test_the_class_has_options(self, millstream_fresh_broker):
        millstream_fresh_broker.produce("t", "a", "b", "c")
        assert {message.partition for message in millstream_fresh_broker.consume("t", 3)} == {0, 1, 2}

    @pytest.mark.millstream_options({"num.partitions": 1})
    def test_and_the_test_has_nearer_ones(self, millstream_fresh_broker):
        millstream_fresh_broker.produce("t", "a", "b", "c")
        assert {message.partition for message in millstream_fresh_broker.consume("t", 3)} == {0}
"""


@pytest.mark.parametrize(
    "marker",
    [pytest.mark.millstream_options(partitions=3), pytest.mark.millstream_options("num.partitions", 3), pytest.mark.millstream_options],
    ids=["names", "words", "nothing"],
)
def test_a_marker_without_a_mapping_is_said(marker: pytest.MarkDecorator) -> None:
    with pytest.raises(pytest.UsageError, match=r"write it as @pytest\.mark\.millstream_options\(\{"):
        pytest_plugin._options_of(marker.mark)


def test_a_marker_that_would_do_nothing_is_said(tmp_path: Path) -> None:
    (tmp_path / "test_marked.py").write_text(MARKED)
    finished = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert "2 passed, 1 error" in finished.stdout, finished.stdout + finished.stderr
    assert "the marker millstream_options is for millstream_fresh_broker" in finished.stdout


MARKED = """
import pytest

@pytest.mark.millstream_options({"num.partitions": 3})
def test_of_the_broker_of_all(millstream_broker):
    pass

@pytest.mark.millstream_options({"num.partitions": 3})
class TestOfSome:
    def test_with_the_broker_of_all(self, millstream_broker):
        pass

    def test_with_its_own(self, millstream_fresh_broker):
        pass
"""
