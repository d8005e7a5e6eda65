"""Rows find the partitions that Kafka's own clients would choose."""

import random

import numpy as np
import pyarrow as pa
import pytest

from penstock.spark.binary_columns import binary_column
from penstock.spark.partitioner import NO_PARTITION, Partitioner, PartitionOutOfRange, Slot, hash_keys

# From the tests of Kafka's Java client (`UtilsTest.testMurmur2`): key, hash as a signed number.
JAVA_HASHES = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}
BATCH_SIZE = 1000


def make_partitioner(**topics: list[bool]) -> Partitioner:
    partitioner = Partitioner(batch_size=BATCH_SIZE, generator=random.Random(7))
    for topic, has_leader in topics.items():
        partitioner.add(topic, has_leader)
    return partitioner


def choose(partitioner: Partitioner, keys: list[bytes | None], **columns: list[int]) -> list[Slot]:
    """The places of rows of 100 bytes; the columns `topics` and `partitions` are optional."""
    slots = partitioner.choose(
        binary_column(pa.array(keys, type=pa.binary())),
        sizes=np.full(len(keys), 100),
        topics=np.array(columns.get("topics", [0] * len(keys)), dtype=np.int64),
        partitions=np.array(columns["partitions"], dtype=np.int64) if "partitions" in columns else None,
    )
    return [partitioner.slots[slot] for slot in slots]


def test_hashes_are_those_of_the_java_client() -> None:
    expected = [hashed & 0x7FFFFFFF for hashed in JAVA_HASHES.values()]
    assert hash_keys(binary_column(pa.array(list(JAVA_HASHES)))).tolist() == expected


def test_an_empty_key_is_a_key_and_a_null_one_is_not() -> None:
    assert hash_keys(binary_column(pa.array([b"", None]))).tolist() == [275646681, -1]


def test_a_key_goes_where_its_hash_says_also_when_that_partition_has_no_leader() -> None:
    partitioner = make_partitioner(orders=[False, True, True])
    assert choose(partitioner, list(JAVA_HASHES)) == [Slot("orders", (hashed & 0x7FFFFFFF) % 3) for hashed in JAVA_HASHES.values()]


def test_the_partition_of_a_row_comes_before_its_key() -> None:
    partitioner = make_partitioner(orders=[True] * 4)
    chosen = choose(partitioner, [b"abc", b"abc", None], partitions=[3, NO_PARTITION, 0])
    assert chosen == [Slot("orders", 3), Slot("orders", 479470107 % 4), Slot("orders", 0)]


@pytest.mark.parametrize("partition", [4, -2, 2**31 - 1])
def test_a_partition_that_is_not_there_is_told_with_its_row(partition: int) -> None:
    with pytest.raises(PartitionOutOfRange) as raised:
        choose(make_partitioner(orders=[True] * 4), [b"a", b"b", b"c"], partitions=[1, partition, 2])
    assert raised.value.row == 1


def test_rows_without_a_key_fill_a_batch_and_then_the_next_partition() -> None:
    chosen = choose(make_partitioner(orders=[True] * 3), [None] * 60)
    runs = [chosen[start : start + 10] for start in range(0, 60, 10)]
    assert all(len(set(run)) == 1 for run in runs)
    assert [run[0].partition for run in runs] == [(runs[0][0].partition + turn) % 3 for turn in range(6)]


def test_the_round_goes_on_in_the_next_rows() -> None:
    partitioner = make_partitioner(orders=[True] * 3)
    apart = [choose(partitioner, [None])[0] for _ in range(11)]
    assert len(set(apart[:10])) == 1
    assert apart[10] != apart[0]


def test_rows_without_a_key_begin_anywhere() -> None:
    starts = {choose(partitioner_from(seed), [None])[0].partition for seed in range(40)}
    assert starts == {0, 1, 2, 3}


def partitioner_from(seed: int) -> Partitioner:
    partitioner = Partitioner(batch_size=BATCH_SIZE, generator=random.Random(seed))
    partitioner.add("orders", [True] * 4)
    return partitioner


def test_rows_without_a_key_pass_by_partitions_without_a_leader() -> None:
    chosen = choose(make_partitioner(orders=[False, True, False, True]), [None] * 40)
    assert {slot.partition for slot in chosen} == {1, 3}


def test_rows_without_a_key_take_any_partition_when_none_has_a_leader() -> None:
    assert {slot.partition for slot in choose(make_partitioner(orders=[False, False]), [None] * 40)} == {0, 1}


def test_every_topic_has_partitions_and_a_round_of_its_own() -> None:
    partitioner = make_partitioner(orders=[True] * 2, refunds=[True] * 5)
    assert partitioner.partition_count("refunds") == 5
    chosen = choose(partitioner, [b"abc", b"abc", None, None], topics=[0, 1, 1, 0])
    assert chosen[:2] == [Slot("orders", 479470107 % 2), Slot("refunds", 479470107 % 5)]
    assert [slot.topic for slot in chosen[2:]] == ["refunds", "orders"]
