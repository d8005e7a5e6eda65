"""An address at which something else than a broker listens, or nothing: what is there is said, not what librdkafka would do about it."""

import pytest

from millstream import Producer, SimpleConsumer
from millstream.client.errors import BrokerUnavailable
from millstream.testing import Broker
from tests.ports import free_port
from tests.unit.cli.conftest import Millstream

HTTP = "it does not speak Kafka's protocol, but HTTP: is it a schema registry, or a page of metrics?"
CLOSED = "it closes the connection at once: is it a broker, and one without TLS?"


def registry_of(broker: Broker) -> str:
    return broker.registry_url.removeprefix("http://")


def test_the_command_line_says_that_a_registrys_port_speaks_http(served: Broker, millstream: Millstream) -> None:
    outcome = millstream("topic", "list", "-b", registry_of(served))
    advice = "Start one with `millstream serve`, or name another with --brokers HOST:PORT."
    assert (outcome.code, outcome.err) == (1, f"millstream: No broker answers at {registry_of(served)} ({HTTP}). {advice}\n")


def test_the_command_line_says_that_the_port_of_the_coordination_closes_the_connection(served: Broker, millstream: Millstream) -> None:
    outcome = millstream("topic", "list", "-b", served.coordination)
    assert f"No broker answers at {served.coordination} ({CLOSED})." in outcome.err


def test_the_command_line_says_that_nothing_is_there(millstream: Millstream, unresolved: str) -> None:
    for brokers, reason in (("nosuch.invalid:9092", unresolved), (f"127.0.0.1:{free_port()}", "Connection refused")):
        assert f"No broker answers at {brokers} ({reason})." in millstream("topic", "list", "-b", brokers).err


def test_the_papers_producer_says_it_too(served: Broker) -> None:
    with pytest.raises(BrokerUnavailable) as refused:
        Producer(registry_of(served), connect_timeout_s=3)
    assert str(refused.value) == f"no broker answers at {registry_of(served)} ({HTTP}); is one running, and is the address right?"


def test_the_simple_consumer_says_it_too(served: Broker) -> None:
    with SimpleConsumer(registry_of(served), timeout_s=10) as consumer, pytest.raises(BrokerUnavailable) as refused:
        consumer.partitions("t")
    assert str(refused.value) == f"what answers at {registry_of(served)} is no broker: {HTTP}"
