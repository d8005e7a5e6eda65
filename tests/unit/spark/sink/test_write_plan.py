"""Options and columns of a write: what is obeyed, and what is refused with which words."""

import pytest
from pyspark.sql.types import ArrayType, BinaryType, DataType, DoubleType, IntegerType, LongType, StringType, StructType

from millstream.arrow.columns import FieldColumns
from millstream.client.codecs.produce import LEADER_ONLY
from millstream.spark.options import WRITE, OptionError
from millstream.spark.sink.write_plan import SchemaError, WritePlan, plan_write

SERVERS = "127.0.0.1:9092"
HEADERS = ArrayType(StructType().add("key", StringType()).add("value", BinaryType()))


def columns(**types: DataType) -> StructType:
    schema = StructType()
    for name, data_type in types.items():
        schema = schema.add(name, data_type)
    return schema


def plan(schema: StructType, **options: str) -> WritePlan:
    """`kafka_acks` stands for `kafka.acks`."""
    given = {"kafka.bootstrap.servers": SERVERS, "topic": "t"} | {name.replace("_", "."): value for name, value in options.items()}
    return plan_write(given, schema)


def test_every_column_is_found_whatever_its_case() -> None:
    schema = columns(Partition=IntegerType(), other=DoubleType(), VALUE=StringType(), key=BinaryType(), headers=HEADERS)
    found = plan(schema)
    assert (found.partition_column, found.headers_column, found.topic_column) == (0, 4, None)
    assert (found.key, found.value) == (FieldColumns("binary", (3,), False), FieldColumns("binary", (2,), False))


def test_all_other_columns_make_a_json_or_avro_value() -> None:
    schema = columns(topic=StringType(), id=LongType(), key=StringType(), name=StringType())
    assert plan(schema, value_format="json").value == FieldColumns("json", (1, 3), True)
    found = plan(schema, value_format="avro", schema_registry_url="http://r:1,http://s:1", value_subject="s")
    assert found.value == FieldColumns("avro", (1, 3), True, None, "s")
    assert [str(address) for address in found.registry or ()] == ["http://r:1", "http://s:1"]


def test_options_of_a_read_have_no_effect_on_a_write() -> None:
    assert plan(columns(value=StringType()), subscribe="x", startingOffsets="earliest", checkpointLocation="/c").topic == "t"


def test_names_of_options_are_found_whatever_their_case() -> None:
    given = {"Kafka.Bootstrap.Servers": SERVERS, "TOPIC": "t", "SkipReplayedBatches": "FALSE", "Kafka.Acks": "1"}
    found = plan_write(given, columns(value=StringType()))
    assert (found.topic, found.skips_replayed_batches, found.producer.acks) == ("t", False, LEADER_ONLY)


@pytest.mark.parametrize(
    ("schema", "options", "expected"),
    [
        (columns(key=StringType()), {}, "the rows have no column `value`: name one so, or set value.format to json or avro"),
        (columns(value=IntegerType()), {}, "the column `value` is of type int: it has to be string or binary, or set value.format"),
        (columns(key=DoubleType(), value=StringType()), {}, "the column `key` is of type double: it has to be string or binary"),
        (columns(value=StringType(), partition=LongType()), {}, "the column `partition` is of type bigint: it has to be int"),
        (
            columns(value=StringType(), headers=StringType()),
            {},
            "the column `headers` is of type string: it has to be array<struct<key:str",
        ),
        (columns(value=StringType(), Value=StringType()), {}, "there are two columns 'Value': rename or drop one"),
        (columns(topic=StringType()), {"value_format": "json"}, "there is no column left that could make the value"),
    ],
)
def test_a_wrong_column_is_named(schema: StructType, options: dict[str, str], expected: str) -> None:
    with pytest.raises(SchemaError) as raised:
        plan(schema, **options)
    assert expected in str(raised.value)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"topic": " "}, "option topic: it is empty"),
        ({"topik": "x"}, "option topik: there is no such option. Did you mean topic?"),
        ({"zzz": "x"}, f"option zzz: there is no such option. A write has: {', '.join(WRITE.names)}, and kafka.*"),
        ({"value_format": "xml"}, "option value.format: 'xml' is none of binary, string, json, avro"),
        ({"value_format": "avro"}, "option schema.registry.url: value.format = avro needs it: where the schema registry is"),
        ({"schema_registry_url": "r:8081"}, "option schema.registry.url: 'r:8081' is no address of a registry"),
        ({"schema_registry_url": "http://a:1,nonsense"}, "option schema.registry.url: 'nonsense' is no address of a registry"),
        ({"use_latest_version": "maybe"}, "option use.latest.version: 'maybe' is none of true, false"),
        ({"kafka_bootstrap_servers": "a:1,nonsense"}, "option kafka.bootstrap.servers: 'nonsense' is not an address: give host:port"),
        ({"kafka_bootstrap_servers": ""}, "option kafka.bootstrap.servers: it is required"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, str], expected: str) -> None:
    with pytest.raises(OptionError) as raised:
        plan(columns(value=StringType()), **options)
    assert expected in str(raised.value)


def test_a_topic_is_required_where_rows_do_not_name_it() -> None:
    given = {"kafka.bootstrap.servers": SERVERS}
    with pytest.raises(OptionError, match="option topic: it is required, because the rows have no column `topic`"):
        plan_write(given, columns(value=StringType()))
    with pytest.raises(SchemaError, match="the column `topic` is of type int: it has to be string"):
        plan_write(given, columns(value=StringType(), topic=IntegerType()))
    assert plan_write(given, columns(value=StringType(), topic=StringType())).topic_column == 1


def test_a_table_without_options_is_an_error_that_says_what_to_use_instead() -> None:
    with pytest.raises(OptionError, match="In SQL use CREATE TEMPORARY VIEW"):
        plan_write({}, columns(value=StringType()))
