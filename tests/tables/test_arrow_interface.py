"""Other libraries take a scan as it is, and what they can share they do not copy."""

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import millstream
from millstream import TopicScan
from tests.brokers import Broker
from tests.spark.topic_content import write_numbers
from tests.topics import create_topic


@pytest.fixture(scope="module")
def numbers(broker: Broker) -> TopicScan:
    topic = create_topic(broker)
    write_numbers(broker, topic, range(1_000))
    return millstream.scan(topic, brokers=broker.bootstrap_servers, value_format="string")


def address(column: pa.ChunkedArray) -> int:
    """Where the numbers of a column are in memory."""
    return int(column.chunk(0).buffers()[1].address)


def test_pyarrow_reads_a_scan_as_often_as_it_likes(numbers: TopicScan) -> None:
    assert pa.table(numbers).num_rows == 1_000
    assert pa.RecordBatchReader.from_stream(numbers).read_all().num_rows == 1_000
    assert pa.schema(numbers) == numbers.schema


def test_polars_reads_a_scan_and_shares_the_memory_of_a_table(numbers: TopicScan) -> None:
    frame = pl.DataFrame(numbers)
    assert frame["offset"].sum() == 499_500
    table = numbers.to_table()
    assert address(pa.table(pl.from_arrow(table))["offset"]) == address(table["offset"])


def test_pandas_reads_a_scan_and_shares_the_memory_of_a_table(numbers: TopicScan) -> None:
    frame = pd.DataFrame.from_arrow(numbers)
    assert frame["offset"].sum() == 499_500
    table = numbers.to_table()
    shared = table.to_pandas(types_mapper=pd.ArrowDtype)
    assert address(pa.table(shared)["offset"]) == address(table["offset"])


def test_duckdb_finds_a_scan_by_the_name_of_its_variable(numbers: TopicScan) -> None:
    views = numbers  # noqa: F841 -- DuckDB looks for it
    with duckdb.connect() as connection:
        assert connection.sql('select count(*), sum("offset"), max(value::int) from views').fetchall() == [(1_000, 499_500, 999)]
        assert connection.sql("select count(*) from views a join views b using (value)").fetchall() == [(1_000,)]
