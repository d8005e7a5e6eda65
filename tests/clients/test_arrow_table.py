"""A topic becomes an Arrow table where there is no Spark, and no fastavro: `millstream.arrow` and `.tables` stand by themselves."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.brokers import Broker
from tests.topics import produce_values

ROOT = Path(__file__).parents[2]

READ_AND_WRITE = """
import json, pkgutil, sys
sys.modules["pyspark"] = sys.modules["fastavro"] = None
import pyarrow as pa
import millstream.arrow, millstream.tables
from millstream.arrow.columns import FieldColumns
from millstream.arrow.field_decoding import make_format
from millstream.arrow.field_encoding import field_encoder
from millstream.arrow.row_builder import RowBuilder
from millstream.arrow.range_decoder import RangeDecoder
from millstream.client.cluster import Cluster
from millstream.client.codecs.fetch import FetchFrom
from millstream.offset import LATEST
from millstream.topic_partition import TopicPartition

for package in (millstream.arrow, millstream.tables):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        __import__(module.name)

servers, topic = sys.argv[1:]
place, cluster = TopicPartition(topic, 0), Cluster(servers)
value = pa.struct([("number", pa.int64()), ("text", pa.string())])
columns = pa.schema([("value", value), ("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())])
builder = RowBuilder(columns, place, formats={"value": make_format("json", value)})
decoder = RangeDecoder(place, start=0, end=cluster.offsets({place: LATEST})[place].offset, wanted=builder.wanted)
batches = []
while not decoder.is_done:
    fetched = cluster.fetch(FetchFrom(topic, 0, decoder.next_offset))
    batches += map(builder.build, decoder.decode(fetched.records, fetched.aborted_transactions))
batches.append(builder.build(decoder.finish()))
table = pa.Table.from_batches(batches, columns)

encoder = field_encoder(FieldColumns("json", (0,), is_record=False), name="value", topic=topic)
encoded = encoder.encode(table.combine_chunks().to_batches()[0])
edges = encoded.offsets.tolist()
written = [bytes(encoded.data[start:end]).decode() for start, end in zip(edges, edges[1:])]
names = ["number", "text"]
short = millstream.read_table(topic, brokers=servers, value_format="json", value_schema=pa.schema(list(value)), columns=names)
print(json.dumps({"rows": table.to_pylist(), "written": written, "short": short.to_pylist()}))
"""


@pytest.mark.timeout(300)  # the kernels are compiled, on a busy machine
def test_a_topic_becomes_an_arrow_table_where_spark_cannot_be_imported(broker: Broker, topic: str) -> None:
    values = [{"number": number, "text": f"row {number}"} for number in range(50)]
    texts = [json.dumps(value, separators=(",", ":")) for value in values]
    produce_values(broker, topic, [text.encode() for text in texts], batch_size=7)
    command = [sys.executable, "-c", READ_AND_WRITE, broker.bootstrap_servers, topic]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    assert found["rows"] == [{"value": value, "topic": topic, "partition": 0, "offset": offset} for offset, value in enumerate(values)]
    assert found["written"] == texts
    assert found["short"] == values
