"""Many partitions in one fetch, with batches just below, at and above what still fits: nobody gets half a batch to begin with.

From Fetch version 3 on, the first partition with data gets its first batch whatever its size, and after that only what fits: a partition
whose first batch does not fit is answered empty. Its last batch may be cut off, behind one that is whole.
"""

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from tests.batches import HEADER, Header, encode_batch
from tests.brokers import Broker
from tests.clients.client import Client, FetchLimits
from tests.connection import FETCH, Connection
from tests.java import run_tool
from tests.topics import create_topic, produce

PARTITIONS = 70
RECORDS_EACH = 9
VALUE = Random(1).randbytes(100_000)
SMALL_PARTITIONS = 12
PLENTY = 1 << 26
LONG_MS = 60_000


@pytest.fixture(scope="module")
def large(broker: Broker) -> str:
    """70 partitions with one batch of 900 KB each: more than the 50 MB that clients take at once."""
    topic = create_topic(broker, partitions=PARTITIONS)
    batch = encode_batch([VALUE] * RECORDS_EACH)
    with broker.connect() as connection:
        for partition in range(PARTITIONS):
            assert produce(connection, topic, batch, partition=partition).error_code == 0
    return topic


@pytest.fixture(scope="module")
def small(broker: Broker) -> tuple[str, list[list[int]]]:
    """12 partitions with four batches each; the sizes of the batches, by partition."""
    topic = create_topic(broker, partitions=SMALL_PARTITIONS)
    sizes: list[list[int]] = []
    with broker.connect() as connection:
        for partition in range(SMALL_PARTITIONS):
            batches = [encode_batch([bytes(2000 + 100 * partition + number)]) for number in range(4)]
            for batch in batches:
                assert produce(connection, topic, batch, partition=partition).error_code == 0
            sizes.append([len(batch) for batch in batches])
    return topic, sizes


def test_everything_is_read_with_the_limits_that_clients_have_by_themselves(broker: Broker, large: str, client: Client) -> None:
    messages = client.read_topic(broker, large, partitions=PARTITIONS, count=PARTITIONS * RECORDS_EACH, limits=FetchLimits())
    assert Counter(message.partition for message in messages) == dict.fromkeys(range(PARTITIONS), RECORDS_EACH)
    assert all(message.value == VALUE for message in messages)


def test_javas_consumer_reads_everything_with_its_own_limits(broker: Broker, large: str) -> None:
    count = PARTITIONS * RECORDS_EACH
    arguments = ["--bootstrap-server", broker.bootstrap_servers, "--topic", large, "--num-records", str(count), "--timeout", "20000"]
    output = run_tool("org.apache.kafka.tools.ConsumerPerformance", *arguments)
    assert f" {count}," in output


@pytest.mark.parametrize("over", [-1, 0, 1])
def test_everything_is_read_with_limits_near_the_size_of_a_batch(
    broker: Broker, small: tuple[str, list[list[int]]], client: Client, over: int
) -> None:
    topic, sizes = small
    limit = sizes[5][0] + over
    for limits in (FetchLimits(limit, limit), FetchLimits(3 * limit, limit)):
        messages = client.read_topic(broker, topic, partitions=SMALL_PARTITIONS, count=4 * SMALL_PARTITIONS, limits=limits)
        assert sorted((message.partition, message.offset) for message in messages) == [
            (partition, offset) for partition in range(SMALL_PARTITIONS) for offset in range(4)
        ]


def expected_lengths(sizes: Sequence[Sequence[int]], *, max_bytes: int, partition_max_bytes: int) -> list[int]:
    """Kafka's rule, in its own words: minOneMessage until somebody got something, an incomplete first batch is nothing."""
    lengths: list[int] = []
    for own in sizes:
        limit = min(max_bytes - sum(lengths), partition_max_bytes)
        if not any(lengths):
            limit = max(limit, own[0])
        lengths.append(min(sum(own), limit) if limit >= own[0] else 0)
    return lengths


def ask(connection: Connection, topic: str, *, partition_max_bytes: int = PLENTY, **fields: object) -> Any:
    """A fetch from the beginning of all small partitions; `fields` are those of the request."""
    wanted = [{"partition": index, "fetch_offset": 0, "partition_max_bytes": partition_max_bytes} for index in range(SMALL_PARTITIONS)]
    asked = {"replica_id": -1, "max_wait_ms": 0, "min_bytes": 1, "max_bytes": PLENTY, "topics": [{"topic": topic, "partitions": wanted}]}
    return connection.ask(FETCH, 12, asked | {"session_id": 0, "session_epoch": -1} | fields)


def lengths_of(answer: Any) -> list[int]:
    return [len(one.records or b"") for one in answer.responses[0].partitions]


@pytest.mark.parametrize("over", [-1, 0, 1, 60])
@pytest.mark.parametrize("batches", [0, 1, 2, 4, 5, 9, 48])
def test_what_does_not_fit_is_left_out_as_kafka_leaves_it_out(
    broker: Broker, small: tuple[str, list[list[int]]], batches: int, over: int
) -> None:
    topic, sizes = small
    limit = sum([size for own in sizes for size in own][:batches]) + max(over, -batches)
    with broker.connect() as connection:
        for max_bytes, partition_max_bytes in ((limit, PLENTY), (PLENTY, limit), (limit, sizes[3][0]), (limit, sizes[3][0] - 1)):
            answer = ask(connection, topic, max_bytes=max_bytes, partition_max_bytes=partition_max_bytes)
            expected = expected_lengths(sizes, max_bytes=max_bytes, partition_max_bytes=partition_max_bytes)
            assert lengths_of(answer) == expected, (max_bytes, partition_max_bytes)
            for own, one in zip(sizes, answer.responses[0].partitions, strict=True):
                if one.records:
                    assert Header._make(HEADER.unpack_from(one.records)).length + 12 == own[0] <= len(one.records)


def test_what_was_left_out_keeps_its_place_in_the_session(broker: Broker, small: tuple[str, list[list[int]]]) -> None:
    """Only a partition that had data moves to the back: each gets its turn. The first answer of a session moves nobody."""
    topic, sizes = small
    with broker.connect() as connection:
        session = ask(connection, topic, max_bytes=1, session_epoch=0).session_id
        for turn in range(2 * SMALL_PARTITIONS):
            partition = turn % SMALL_PARTITIONS
            # Room for all of this partition, and for most of the first batch of the next one.
            fields = {"max_bytes": sum(sizes[partition]) + 2000, "session_id": session, "session_epoch": turn + 1, "topics": []}
            found = ask(connection, topic, **fields).responses[0].partitions
            assert [one.partition_index for one in found if one.records] == [partition]
        assert ask(connection, topic, session_id=session, session_epoch=-1).error_code == 0


@pytest.mark.parametrize("min_bytes", [2001, PLENTY])
def test_more_wanted_than_allowed_is_answered_at_once(broker: Broker, small: tuple[str, list[list[int]]], min_bytes: int) -> None:
    with broker.connect(timeout_s=LONG_MS / 2000) as connection:
        answer = ask(connection, small[0], min_bytes=min_bytes, max_bytes=2000, max_wait_ms=LONG_MS)
    assert lengths_of(answer) == [small[1][0][0]] + [0] * (SMALL_PARTITIONS - 1)


def test_what_is_there_but_does_not_fit_counts_as_there(broker: Broker, small: tuple[str, list[list[int]]]) -> None:
    """The answer cannot become larger by waiting: Kafka counts what each partition could give by itself."""
    topic, sizes = small
    limit = sum(sizes[0]) + sizes[1][0] - 1
    with broker.connect(timeout_s=LONG_MS / 2000) as connection:
        answer = ask(connection, topic, min_bytes=limit, max_bytes=limit, max_wait_ms=LONG_MS)
    assert lengths_of(answer) == [sum(sizes[0])] + [0] * (SMALL_PARTITIONS - 1)
