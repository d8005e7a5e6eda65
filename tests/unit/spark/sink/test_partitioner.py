"""Rows find the partitions that Kafka's own clients would choose."""

import random

import numpy as np
import pyarrow as pa
import pytest

from millstream.arrow.binary_columns import binary_column
from millstream.spark.sink.partitioner import NO_PARTITION, Partitioner, PartitionOutOfRange, hash_keys

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


def make_partitioner(*has_leader: bool, seed: int = 7) -> Partitioner:
    return Partitioner(has_leader, batch_size=BATCH_SIZE, generator=random.Random(seed))


def choose(partitioner: Partitioner, keys: list[bytes | None], wanted: list[int] | None = None) -> list[int]:
    """The partitions of rows of 100 bytes."""
    column = binary_column(pa.array(keys, type=pa.binary()))
    places = None if wanted is None else np.array(wanted, dtype=np.int64)
    chosen: list[int] = partitioner.choose(column, sizes=np.full(len(keys), 100), wanted=places).tolist()
    return chosen


def test_hashes_are_those_of_the_java_client() -> None:
    expected = [hashed & 0x7FFFFFFF for hashed in JAVA_HASHES.values()]
    assert hash_keys(binary_column(pa.array(list(JAVA_HASHES)))).tolist() == expected


def test_an_empty_key_is_a_key_and_a_null_one_is_not() -> None:
    assert hash_keys(binary_column(pa.array([b"", None]))).tolist() == [275646681, -1]


def test_a_key_goes_where_its_hash_says_also_when_that_partition_has_no_leader() -> None:
    partitioner = make_partitioner(False, True, True)
    assert choose(partitioner, list(JAVA_HASHES)) == [(hashed & 0x7FFFFFFF) % 3 for hashed in JAVA_HASHES.values()]


def test_the_partition_of_a_row_comes_before_its_key() -> None:
    wanted = [3, NO_PARTITION, 0]
    assert choose(make_partitioner(*[True] * 4), [b"abc", b"abc", None], wanted) == [3, 479470107 % 4, 0]
    assert wanted == [3, NO_PARTITION, 0]


@pytest.mark.parametrize("partition", [4, -2, 2**31 - 1])
def test_a_partition_that_is_not_there_is_reported_with_its_row(partition: int) -> None:
    with pytest.raises(PartitionOutOfRange) as raised:
        choose(make_partitioner(*[True] * 4), [b"a", b"b", b"c"], [1, partition, 2])
    assert raised.value.row == 1


def test_rows_without_a_key_fill_a_batch_and_then_the_next_partition() -> None:
    chosen = choose(make_partitioner(*[True] * 3), [None] * 60)
    runs = [chosen[start : start + 10] for start in range(0, 60, 10)]
    assert all(len(set(run)) == 1 for run in runs)
    assert [run[0] for run in runs] == [(chosen[0] + turn) % 3 for turn in range(6)]


def test_the_round_goes_on_in_the_next_rows() -> None:
    partitioner = make_partitioner(*[True] * 3)
    apart = [choose(partitioner, [None])[0] for _ in range(11)]
    assert len(set(apart[:10])) == 1
    assert apart[10] != apart[0]


def test_rows_with_and_without_a_key_go_their_own_ways() -> None:
    chosen = choose(make_partitioner(*[True] * 3), [None, b"abc", None, b"21"])
    assert chosen[0] == chosen[2]
    assert chosen[1::2] == [(JAVA_HASHES[key] & 0x7FFFFFFF) % 3 for key in (b"abc", b"21")]


def test_rows_without_a_key_begin_anywhere() -> None:
    assert {choose(make_partitioner(*[True] * 4, seed=seed), [None])[0] for seed in range(40)} == {0, 1, 2, 3}


def test_rows_without_a_key_pass_by_partitions_without_a_leader() -> None:
    assert set(choose(make_partitioner(False, True, False, True), [None] * 40)) == {1, 3}


def test_rows_without_a_key_take_any_partition_when_none_has_a_leader() -> None:
    assert set(choose(make_partitioner(False, False), [None] * 40)) == {0, 1}
