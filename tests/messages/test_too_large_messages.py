"""A message that is too large: the limit that was applied is named with its value, the client's or the topic's."""

import pytest

from millstream import AuditSettings, Message, Producer
from millstream.client.errors import DeliveryFailed
from millstream.testing import Broker
from tests.unit.cli.conftest import Millstream


@pytest.fixture(scope="module")
def small_topic(served: Broker) -> str:
    """A topic that takes a thousand bytes."""
    served.create_topic("small", options={"max.message.bytes": 1_000})
    return "small"


def test_the_command_line_names_the_clients_limit(served: Broker, millstream: Millstream) -> None:
    served.create_topic("larger")
    outcome = millstream("produce", "larger", "-b", served.bootstrap_servers, stdin=b"x" * 1_500_000)
    advice = "raise it with -X message.max.bytes=N, and max.message.bytes of the topic with it"
    expected = f"millstream: A record is larger than the client sends: its message.max.bytes is 1000000; {advice}.\n"
    assert (outcome.code, outcome.err) == (1, expected)


def test_the_command_line_names_the_limit_of_the_topic(served: Broker, millstream: Millstream, small_topic: str) -> None:
    outcome = millstream("produce", small_topic, "-b", served.bootstrap_servers, stdin=b"x" * 2_000)
    assert outcome.code == 1
    assert "it is larger than the topic takes, whose max.message.bytes is 1000 (0 records had arrived before)" in outcome.err


@pytest.mark.parametrize("message", [b"x" * 2_000_000, Message("x" * 1_999_990, "0123456789")])
@pytest.mark.parametrize("audit", [None, AuditSettings(tier="web")])
def test_the_papers_producer_raises_its_own_error_with_its_limit(
    served: Broker, message: bytes | Message, audit: AuditSettings | None
) -> None:
    with Producer(served.bootstrap_servers, audit=audit) as producer, pytest.raises(DeliveryFailed) as refused:
        producer.send("large", message)
    assert "a message of 2000000 bytes for 'large' is more than this producer sends: its message.max.bytes is 1000000." in str(
        refused.value
    )


def test_the_limit_is_the_one_that_was_given(served: Broker) -> None:
    with Producer(served.bootstrap_servers, options={"message.max.bytes": 5_000}) as producer:
        with pytest.raises(DeliveryFailed, match=r"message\.max\.bytes is 5000"):
            producer.send("large", b"x" * 6_000)
        producer.send("large", b"it goes on")


def test_the_papers_producer_names_the_option_of_the_topic(served: Broker, small_topic: str) -> None:
    with Producer(served.bootstrap_servers) as producer:
        producer.send(small_topic, b"x" * 2_000)
        with pytest.raises(DeliveryFailed, match=r"2000 bytes is more than the topic 'small' takes: raise its max\.message\.bytes"):
            producer.flush()
