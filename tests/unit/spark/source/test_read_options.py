"""Every option of a read: its values, its default, and the sentence for what it cannot be."""

from base64 import b64encode

import pytest

from millstream.spark.options import OptionError
from millstream.spark.positions import AtEdge, AtOffsets, AtTime, AtTimes
from millstream.spark.source.offset_ranges import DEFAULT_MIN_RECORDS_PER_TASK
from millstream.spark.source.read_options import ReadOptions, check_batch_options, check_stream_options, parse_read_options
from millstream.topic_partition import TopicPartition

NEEDED = {"kafka.bootstrap.servers": "a:1", "subscribe": "topic"}


def parse(**options: str) -> ReadOptions:
    return parse_read_options(NEEDED | {name.replace("__", "."): value for name, value in options.items()})


def test_defaults_are_those_of_sparks_own_connector() -> None:
    options = parse_read_options(NEEDED)
    assert options.selection.topics == ("topic",)
    assert (options.starting, options.ending) == (None, None)
    assert options.fail_on_data_loss
    assert not options.include_headers
    assert not options.read_committed
    assert options.max_trigger_delay_ms == 15 * 60_000
    assert (options.max_offsets_per_trigger, options.min_offsets_per_trigger, options.min_partitions) == (None, None, None)
    assert (options.key.format, options.value.format, options.mode) == ("binary", "binary", "FAILFAST")
    assert options.group_id is None


def test_names_are_found_whatever_their_case() -> None:
    given = {"KAFKA.BOOTSTRAP.SERVERS": "a:1", "subscribepattern": "t.*", "FAILONDATALOSS": "False", "Mode": "permissive"}
    options = parse_read_options(given)
    assert options.selection.pattern == "t.*"
    assert not options.fail_on_data_loss
    assert options.mode == "PERMISSIVE"


def test_what_spark_adds_itself_and_what_tunes_javas_client_is_accepted() -> None:
    assert parse(path="x", kafka__client__rack="r", kafka__fetch__min__bytes="5") == parse()


def test_one_time_goes_before_times_and_times_before_offsets() -> None:
    times, offsets = '{"topic": {"0": 5}}', '{"topic": {"0": 7, "1": -2}}'
    assert parse(startingTimestamp="3", startingOffsetsByTimestamp=times, startingOffsets=offsets).starting == AtTime(3)
    assert parse(startingOffsetsByTimestamp=times, startingOffsets=offsets).starting == AtTimes({TopicPartition("topic", 0): 5})
    expected = AtOffsets({TopicPartition("topic", 0): 7, TopicPartition("topic", 1): -2})
    assert parse(startingOffsets=offsets).starting == expected
    assert parse(endingOffsets=offsets).ending == expected
    assert parse(startingOffsets="Latest").starting == AtEdge(-1)


def test_partitions_share_tasks_up_to_the_largest_task_that_is_allowed() -> None:
    assert parse().min_records_per_partition == DEFAULT_MIN_RECORDS_PER_TASK
    assert parse(minRecordsPerPartition="7").min_records_per_partition == 7
    assert parse(maxRecordsPerPartition="100").min_records_per_partition == 100


@pytest.mark.parametrize(
    ("text", "expected"), [("15m", 900_000), ("2s", 2000), ("500", 500), ("10 ms", 10), ("1h", 3_600_000), ("2min", 120_000)]
)
def test_durations_are_written_as_everywhere_in_spark(text: str, expected: int) -> None:
    assert parse(maxTriggerDelay=text).max_trigger_delay_ms == expected


def test_name_and_password_of_the_registry_go_with_its_addresses_and_are_not_shown() -> None:
    given = {"schema__registry__url": "http://a:1, https://b:2", "schema__registry__basic__auth__user__info": "ann:se/c#r?e,t%25"}
    options = parse(**given)
    assert options.registry is not None
    assert [str(address) for address in options.registry] == ["http://a:1", "https://b:2"]
    assert {address.authorization for address in options.registry} == {"Basic " + b64encode(b"ann:se/c#r?e,t%25").decode()}
    assert "ann" not in repr(options)


def test_columns_keep_the_order_of_the_source() -> None:
    assert parse(columns="offset, Value").columns == ("value", "offset")
    assert parse(columns="headers,timestamptype", includeHeaders="true").columns == ("timestampType", "headers")


WRONG = [
    ({"kafka__bootstrap__servers": ""}, r"option kafka\.bootstrap\.servers: it is required"),
    ({"kafka__bootstrap__servers": "nowhere"}, r"option kafka\.bootstrap\.servers: 'nowhere' is not an address: give host:port"),
    ({"assign": '{"t": [0]}'}, "option subscribe, subscribePattern, assign: exactly one of them says what to read, and 2 were given"),
    ({"subscribe": " , "}, "option subscribe: there is no topic in it"),
    ({"startingOffset": "earliest"}, r"option startingOffset: there is no such option\. Did you mean startingOffsets\?"),
    ({"nonsense": "1"}, "option nonsense: there is no such option. There are: kafka.bootstrap.servers"),
    ({"startingOffsets": "early"}, "option startingOffsets: 'early' is neither \"earliest\" nor \"latest\" nor offsets as JSON like"),
    ({"startingOffsets": '{"t": 5}'}, "option startingOffsets: .* is not JSON of topics and partitions like .*: 't' has no partitions"),
    ({"startingOffsets": '{"t": {"a": 5}}'}, "option startingOffsets: .*: 't' has {\"a\": 5}"),
    ({"startingOffsets": '{"t": {"0": true}}'}, "option startingOffsets: .*: 't' has {\"0\": true}"),
    ({"startingOffsets": '{"t": {"0": -3}}'}, "option startingOffsets: t-0 has offset -3: offsets are not negative, except -2"),
    ({"endingOffsets": "{"}, "option endingOffsets: '{' is not JSON"),
    ({"startingTimestamp": "yesterday"}, "option startingTimestamp: 'yesterday' is not a time in milliseconds since 1970"),
    ({"startingOffsetsByTimestamp": '{"t": {"0": -1}}'}, "option startingOffsetsByTimestamp: t-0 has the timestamp -1"),
    ({"startingOffsetsByTimestampStrategy": "guess"}, "option startingOffsetsByTimestampStrategy: 'guess' is none of error, latest"),
    ({"failOnDataLoss": "maybe"}, "option failOnDataLoss: 'maybe' is none of true, false"),
    ({"maxOffsetsPerTrigger": "0"}, "option maxOffsetsPerTrigger: '0' is not a whole number above zero"),
    ({"maxOffsetsPerTrigger": "5", "minOffsetsPerTrigger": "6"}, "option minOffsetsPerTrigger: 6 is more than maxOffsetsPerTrigger, 5"),
    ({"maxTriggerDelay": "soon"}, "option maxTriggerDelay: 'soon' is not a duration"),
    ({"startingTimestamp": str(2**63)}, "option startingTimestamp: '9223372036854775808' is not a time in milliseconds since 1970"),
    ({"startingOffsets": f'{{"a": {{"0": {2**63}}}}}'}, 'option startingOffsets: .* is not JSON of topics and partitions'),
    ({"maxOffsetsPerTrigger": "9" * 5000}, "option maxOffsetsPerTrigger: '9+' is not a whole number above zero and below"),
    ({"kafka__max__partition__fetch__bytes": str(2**31)}, "option kafka.max.partition.fetch.bytes: 2147483648 is not between 1 and"),
    ({"minPartitions": "-1"}, "option minPartitions: '-1' is not a whole number above zero"),
    ({"minRecordsPerPartition": "6", "maxRecordsPerPartition": "5"},
     "option minRecordsPerPartition: 6 is more than maxRecordsPerPartition, 5"),
    ({"isolation__level": "serializable"}, "option isolation.level: 'serializable' is none of read_uncommitted, read_committed"),
    ({"columns": "key,nope"}, "option columns: 'key,nope' is not a list of columns: choose from key, value, topic"),
    ({"columns": "headers"}, "option columns: headers are read only with includeHeaders = true"),
    ({"value__format": "protobuf"}, "option value.format: 'protobuf' is none of binary, string, json, avro"),
    ({"value__format": "json"}, "option value.schema: value.format = json needs it"),
    ({"value__format": "avro"}, "option schema.registry.url: value.format = avro needs it"),
    ({"value__schema": "a INT"}, "option value.schema: it goes with value.format = json"),
    ({"key__subject": "s"}, "option key.subject: it goes with key.format = avro"),
    ({"schema__registry__url": "http://a:1,nonsense"}, "option schema.registry.url: 'nonsense' is no address of a registry"),
    ({"value__format": "avro", "schema__registry__url": "host:1"}, "option schema.registry.url: 'host:1' is no address of a registry"),
    ({"mode": "LENIENT"}, "option mode: 'LENIENT' is none of FAILFAST, PERMISSIVE, DROPMALFORMED"),
    ({"group__id": " "}, "option group.id: it is empty"),
    ({"kafka__enable__auto__commit": "true"}, "option kafka.enable.auto.commit: it cannot be set: group.id commits the progress"),
    ({"kafka__auto__offset__reset": "x"}, "option kafka.auto.offset.reset: it cannot be set: startingOffsets says where"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "message"), WRONG, ids=[str(options) for options, _ in WRONG])
def test_a_wrong_option_is_reported_by_name_with_what_it_may_be(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=f"^{message}"):
        parse(**options)


def test_a_batch_cannot_begin_at_the_end_nor_end_at_the_beginning() -> None:
    for name, value in (("startingOffsets", "latest"), ("startingOffsets", '{"topic": {"0": -1}}')):
        with pytest.raises(OptionError, match="a batch cannot begin at the latest offset"):
            check_batch_options(parse(**{name: value}))
    with pytest.raises(OptionError, match="a batch cannot end at the earliest offset"):
        check_batch_options(parse(endingOffsets="earliest"))


def test_what_is_for_streams_is_refused_or_ignored_in_a_batch() -> None:
    with pytest.raises(OptionError, match=r"option group\.id: .* spark\.readStream"):
        check_batch_options(parse(group__id="mine"))
    check_batch_options(parse(maxOffsetsPerTrigger="5"))


def test_a_stream_has_no_end() -> None:
    for name, value in (("endingOffsets", "latest"), ("endingTimestamp", "5")):
        with pytest.raises(OptionError, match="a stream has no end"):
            check_stream_options(parse(**{name: value}))
