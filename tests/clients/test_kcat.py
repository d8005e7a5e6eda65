"""kcat, the command line client of Debian (an older librdkafka): produce, consume, list, query."""

import json
import shutil
import subprocess
from typing import Any

import pytest

from tests.batches import encode_batch
from tests.brokers import Broker
from tests.clients.client import CODECS
from tests.topics import create_topic, produce, produce_values, read_all

pytestmark = pytest.mark.skipif(shutil.which("kcat") is None, reason="no kcat here")


def kcat(broker: Broker, *arguments: str, stdin: str = "") -> str:
    """Run kcat to its end; returns what it printed."""
    command = ["kcat", "-b", broker.bootstrap_servers, *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def consume(broker: Broker, topic: str, *arguments: str) -> list[dict[str, Any]]:
    """Every message from the given place to the end."""
    return [json.loads(line) for line in kcat(broker, "-C", "-q", "-e", "-J", "-t", topic, *arguments).splitlines()]


@pytest.mark.parametrize("codec", CODECS)
def test_messages_make_the_round_trip_with_every_codec(broker: Broker, topic: str, codec: str) -> None:
    lines = [f"line {number} of some text that compresses" for number in range(50)]
    kcat(broker, "-P", "-t", topic, "-p", "0", "-z", codec, stdin="\n".join(lines))
    assert [message["payload"] for message in consume(broker, topic)] == lines


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_messages_arrive_with_all_acks(broker: Broker, topic: str, acks: str) -> None:
    kcat(broker, "-P", "-t", topic, "-X", f"acks={acks}", stdin="a\nb\nc")
    with_acks = consume(broker, topic)
    assert [(message["offset"], message["payload"]) for message in with_acks] == [(0, "a"), (1, "b"), (2, "c")]


def test_keys_headers_and_tombstones_come_back(broker: Broker, topic: str) -> None:
    kcat(broker, "-P", "-t", topic, "-K:", "-Z", "-H", "trace=abc", stdin="k1:value\nk2:\n")
    first, second = consume(broker, topic)
    assert (first["key"], first["payload"], first["headers"]) == ("k1", "value", ["trace", "abc"])
    assert (second["key"], second["payload"]) == ("k2", None)
    assert [record.value for record in read_all(broker, topic)] == [b"value", None]


def test_idempotent_producer_delivers(broker: Broker, topic: str) -> None:
    kcat(broker, "-P", "-t", topic, "-X", "enable.idempotence=true", stdin="a\nb")
    assert [message["payload"] for message in consume(broker, topic)] == ["a", "b"]


def test_big_message_makes_the_round_trip(broker: Broker, topic: str) -> None:
    kcat(broker, "-P", "-t", topic, stdin="x" * 900_000)
    assert [len(message["payload"]) for message in consume(broker, topic)] == [900_000]


def test_reading_starts_at_an_offset_from_the_end_or_at_a_time(broker: Broker, topic: str) -> None:
    with broker.connect() as connection:
        batch = encode_batch([b"%d" % number for number in range(10)], timestamp=1_700_000_000_000, timestamp_step=1000)
        assert produce(connection, topic, batch).error_code == 0
    assert [message["offset"] for message in consume(broker, topic, "-o", "7")] == [7, 8, 9]
    assert [message["offset"] for message in consume(broker, topic, "-o", "-2")] == [8, 9]
    assert [message["offset"] for message in consume(broker, topic, "-o", "s@1700000005500")] == [6, 7, 8, 9]


def test_offset_of_a_time_is_queried(broker: Broker, topic: str) -> None:
    with broker.connect() as connection:
        batch = encode_batch([b"x"] * 10, timestamp=1_700_000_000_000, timestamp_step=1000)
        assert produce(connection, topic, batch).error_code == 0
    assert kcat(broker, "-Q", "-t", f"{topic}:0:1700000004000") == f"{topic} [0] offset 4\n"


def test_metadata_lists_broker_and_topics(broker: Broker) -> None:
    topic = create_topic(broker, partitions=3)
    listing = json.loads(kcat(broker, "-L", "-J", "-t", topic))
    assert [node["name"] for node in listing["brokers"]] == [broker.bootstrap_servers]
    assert [len(found["partitions"]) for found in listing["topics"]] == [3]


def test_all_partitions_of_a_topic_are_read(broker: Broker) -> None:
    topic = create_topic(broker, partitions=3)
    for partition in range(3):
        produce_values(broker, topic, [b"%d" % partition] * 10, partition=partition)
    assert sorted(message["payload"] for message in consume(broker, topic)) == ["0"] * 10 + ["1"] * 10 + ["2"] * 10


def test_message_above_max_message_bytes_is_refused(broker: Broker) -> None:
    topic = create_topic(broker, configs={"max.message.bytes": 1000})
    with pytest.raises(AssertionError, match="Message size too large"):
        kcat(broker, "-P", "-t", topic, stdin="x" * 2000)
