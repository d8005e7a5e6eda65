"""What the sink writes is what the rows said, read back by the reader of whole batches; nothing is lost, doubled or reordered."""

from collections import defaultdict

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.arrow.binary_columns import Rows, binary_column, header_column, no_headers, null_column
from millstream.arrow.kernels.batch_kernels import row_sizes
from millstream.spark.sink.batch_encoding import BatchPacker, OpenBatch
from millstream.spark.sink.producer_options import Compression
from millstream.topic_partition import TopicPartition
from millstream.wire.batch import HEADER_SIZE, read_header
from millstream.wire.compression import Codec
from millstream.wire.records import ProducerStamp, Record, decode_records

TIME_MS = 1_700_000_000_000
STAMP = ProducerStamp(producer_id=77, producer_epoch=3, base_sequence=41)
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
BINARIES = [pa.binary(), pa.large_binary(), pa.binary_view()]

contents = st.none() | st.binary(max_size=20) | st.binary(min_size=60, max_size=200) | st.just(b"x" * 9000)
headers = st.none() | st.lists(st.tuples(st.text(max_size=8), contents), max_size=3)
row_lists = st.lists(st.tuples(contents, contents, headers), max_size=60)


def columns(rows: list[tuple], binary: pa.DataType, *, with_headers: bool) -> Rows:  # type: ignore[type-arg]
    """Columns of Arrow that are slices of longer ones: their buffers hold rows that must not be seen."""
    around = [(b"before", b"before", [("before", b"")]), *rows, (b"after", b"after", None)]

    def sliced(place: int, data_type: pa.DataType) -> pa.Array:
        return pa.array([row[place] for row in around], type=data_type).slice(1, len(rows))

    found = header_column(sliced(2, HEADERS)) if with_headers else no_headers()
    return Rows(binary_column(sliced(0, binary)), binary_column(sliced(1, binary)), found, with_headers)


def pack(packer: BatchPacker, rows: Rows, partitions: list[int]) -> list[tuple[TopicPartition, OpenBatch]]:
    placed = np.array(partitions, dtype=np.int64)
    return list(packer.pack("topic", rows, sizes=row_sizes(rows), partitions=placed, partition_count=50))


@settings(max_examples=80)
@given(
    pages=st.lists(row_lists, max_size=3),
    binary=st.sampled_from(BINARIES),
    with_headers=st.booleans(),
    codec=st.sampled_from(Codec),
    batch_size=st.sampled_from([100, 700, 20_000]),
    buffer_memory=st.sampled_from([1, 3_000, 1_000_000]),
    data=st.data(),
)
def test_rows_come_back_from_their_partitions_in_their_order(
    pages: list[list[tuple]],  # type: ignore[type-arg]
    binary: pa.DataType,
    with_headers: bool,
    codec: Codec,
    batch_size: int,
    buffer_memory: int,
    data: st.DataObject,
) -> None:
    packer = BatchPacker(batch_size=batch_size, buffer_memory=buffer_memory)
    expected: dict[int, list[tuple[object, ...]]] = defaultdict(list)
    packed: list[tuple[TopicPartition, OpenBatch]] = []
    for rows in pages:
        partitions = data.draw(st.lists(st.integers(0, 4), min_size=len(rows), max_size=len(rows)))
        for partition, (key, value, found) in zip(partitions, rows, strict=True):
            expected[partition].append((key, value, tuple(found or ()) if with_headers else ()))
        packed += pack(packer, columns(rows, binary, with_headers=with_headers), partitions)
    packed += packer.drain()
    assert list(packer.drain()) == []

    written: dict[int, list[tuple[object, ...]]] = defaultdict(list)
    for place, batch in packed:
        assert batch.record_count == 1 or batch.end <= batch_size
        sealed = bytes(batch.seal(STAMP, compression=Compression(codec), timestamp_ms=TIME_MS))
        header = read_header(sealed)
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == STAMP
        assert (header.codec, header.base_timestamp, header.max_timestamp) == (codec, TIME_MS, TIME_MS)
        assert (header.record_count, header.last_offset_delta) == (batch.record_count, batch.record_count - 1)
        records = list(decode_records(sealed))
        assert [record.offset for record in records] == list(range(batch.record_count))
        assert {record.timestamp for record in records} == {TIME_MS}
        written[place.partition] += [(record.key, record.value, record.headers) for record in records]
    assert written == expected


def test_a_column_that_is_not_there_is_null() -> None:
    rows = Rows(null_column(2), binary_column(pa.array(["a", "ü"])), no_headers(), False)
    packer = BatchPacker(batch_size=1000, buffer_memory=1000)
    assert pack(packer, rows, [0, 0]) == []
    ((place, batch),) = packer.drain()
    records = list(decode_records(batch.seal(STAMP, compression=Compression(), timestamp_ms=5)))
    assert place == TopicPartition("topic", 0)
    assert records == [Record(0, 5, None, b"a"), Record(1, 5, None, "ü".encode())]


def test_many_records_need_longer_offsets_than_few() -> None:
    count = 20_000
    rows = Rows(null_column(count), binary_column(pa.array([b"%d" % index for index in range(count)])), no_headers(), False)
    packer = BatchPacker(batch_size=10_000_000, buffer_memory=100_000_000)
    pack(packer, rows, [0] * count)
    ((_, batch),) = packer.drain()
    records = list(decode_records(batch.seal(STAMP, compression=Compression(), timestamp_ms=5)))
    assert [int(record.value or b"") for record in records] == list(range(count))


def test_a_record_bigger_than_a_batch_has_a_batch_of_its_own_without_waste() -> None:
    rows = Rows(null_column(1), binary_column(pa.array([b"x" * 5000])), no_headers(), False)
    packer = BatchPacker(batch_size=100, buffer_memory=100_000)
    pack(packer, rows, [0])
    ((_, batch),) = packer.drain()
    assert len(batch.buffer) == batch.end == HEADER_SIZE + 5000 + 9


def test_open_batches_are_handed_on_before_they_take_more_than_the_memory_allowed() -> None:
    rows = Rows(null_column(50), binary_column(pa.array([b"x" * 100] * 50)), no_headers(), False)
    packer = BatchPacker(batch_size=100_000, buffer_memory=10_000)
    partitions = list(range(50))
    assert pack(packer, rows, partitions) == []
    assert sorted(place.partition for place, _ in pack(packer, rows, partitions)) == partitions
