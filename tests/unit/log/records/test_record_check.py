from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.errors import InvalidRecord, InvalidTimestamp, KafkaError, MessageTooLarge
from millstream.log.config import LogConfig
from millstream.log.records import record_check
from millstream.log.records.record_check import MAX_HEADERS, MAX_NAMED, RecordScan, checked, is_needed
from millstream.wire.batch import HEADER_SIZE, compute_crc, read_header
from millstream.wire.compression import Codec
from millstream.wire.records import ProducerStamp, Record, decode_records, encode_batch
from tests.batches import encode_record, varint

KEYED = encode_batch([Record(0, 1000, b"k", b"v" * 100), Record(1, 2000, b"l", None)], producer=ProducerStamp(5, 1, 9))
KEYLESS = encode_batch([Record(0, 1000, b"k", b"v"), Record(1, 1000, None, b"w")])


def config(**options: object) -> LogConfig:
    return LogConfig.of({name.replace("_", "."): value for name, value in options.items()})


def test_most_topics_need_no_look_inside() -> None:
    assert not is_needed(config())
    assert is_needed(config(cleanup_policy="compact"))
    assert is_needed(config(compression_type="zstd"))
    assert is_needed(config(check_records=True))


def test_compacted_topic_wants_a_key_for_every_record() -> None:
    compacted = config(cleanup_policy="compact")
    assert checked(KEYED, read_header(KEYED), config=compacted, now_ms=1000) == (KEYED, read_header(KEYED), compacted)
    with pytest.raises(InvalidRecord, match="1 of 2 records are refused; number 1: it has no key") as refused:
        checked(KEYLESS, read_header(KEYLESS), config=compacted, now_ms=1000)
    assert [error.batch_index for error in refused.value.record_errors] == [1]
    assert checked(KEYLESS, read_header(KEYLESS), config=config(check_records=True), now_ms=1000)[0] is KEYLESS


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_batch_is_stored_in_the_codec_of_the_topic(codec: str) -> None:
    stored, header, _ = checked(KEYED, read_header(KEYED), config=config(compression_type=codec), now_ms=1000)
    assert header.codec == Codec[codec.upper()]
    assert list(decode_records(stored)) == list(decode_records(KEYED))
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.record_count) == (5, 1, 9, 2)
    back, plain, _ = checked(stored, header, config=config(compression_type="uncompressed"), now_ms=1000)
    assert (plain.codec, list(decode_records(back))) == (0, list(decode_records(KEYED)))


def test_batch_that_gets_too_large_is_refused_and_what_unfolds_too_far_is_not_even_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = encode_batch([Record(0, 1, b"k", bytes(10_000))], codec=Codec.ZSTD)
    header = read_header(packed)
    with pytest.raises(MessageTooLarge, match="stored as lz4 the batch has 1"):
        checked(packed, header, config=config(compression_type="lz4", max_message_bytes=len(packed)), now_ms=1000)
    exact = config(compression_type="uncompressed", max_message_bytes=len(encode_batch([Record(0, 1, b"k", bytes(10_000))])))
    assert len(checked(packed, header, config=exact, now_ms=1000).batch) == exact.max_message_bytes
    monkeypatch.delattr(record_check, "recompressed")
    with pytest.raises(MessageTooLarge, match="stored as uncompressed the batch has 10"):
        checked(packed, header, config=replace(exact, max_message_bytes=exact.max_message_bytes - 1), now_ms=1000)


def test_batch_that_has_the_codec_already_is_left_alone() -> None:
    packed = encode_batch([Record(0, 1, b"k", b"v")], codec=Codec.LZ4)
    assert checked(packed, read_header(packed), config=config(compression_type="lz4"), now_ms=1000)[0] is packed


def test_wrong_inside_is_refused_where_it_is_looked_at() -> None:
    broken = bytearray(encode_batch([Record(0, 1, b"k", b"v")]))
    broken[61] = 0x7F
    broken[17:21] = compute_crc(broken).to_bytes(4, "big")
    with pytest.raises(InvalidRecord):
        checked(broken, read_header(broken), config=config(check_records=True), now_ms=1000)


# -- going over the records: what is found good is what a reader reads; what is refused is named; and slices make no difference

NOW_MS = 1_700_000_000_000
PLAIN = LogConfig()
COMPACTED = LogConfig.of({"cleanup.policy": "compact"})
FIELD = st.none() | st.binary(max_size=300)
RECORDS = st.lists(
    st.builds(
        Record,
        offset=st.just(0),
        timestamp=st.integers(NOW_MS - 10**9, NOW_MS),
        key=FIELD,
        value=FIELD,
        headers=st.lists(st.tuples(st.text(max_size=5), FIELD), max_size=3).map(tuple),
    ),
    min_size=1,
    max_size=200,
)


def numbered(records: list[Record]) -> list[Record]:
    return [record._replace(offset=number) for number, record in enumerate(records)]


def scan_of(batch: bytes, config: LogConfig = PLAIN, *, count: int | None = None) -> RecordScan:
    header = read_header(batch)
    if count is not None:
        header = header._replace(record_count=count)
    return RecordScan(batch[HEADER_SIZE:], header, config=config, now_ms=NOW_MS)


def refusal(batch: bytes, config: LogConfig = PLAIN, *, slice_size: int = 10**9) -> KafkaError | None:
    scan = scan_of(batch, config)
    try:
        for _ in range(read_header(batch).record_count + 1):
            if scan.advance(slice_size):
                return None
    except KafkaError as error:
        return error
    raise AssertionError("it has no end")


@given(RECORDS)
def test_what_a_producer_writes_is_good(records: list[Record]) -> None:
    assert refusal(encode_batch(numbered(records), base_offset=0)) is None


@given(RECORDS, st.integers(1, 50))
def test_every_record_without_a_key_is_named_in_a_compacted_topic(records: list[Record], slice_size: int) -> None:
    keyless = [number for number, record in enumerate(records) if record.key is None]
    error = refusal(encode_batch(numbered(records), base_offset=0), COMPACTED, slice_size=slice_size)
    if not keyless:
        assert error is None
        return
    assert isinstance(error, InvalidRecord)
    assert [one.batch_index for one in error.record_errors] == keyless
    assert f"{len(keyless)} of {len(records)} records are refused" in str(error)


@given(RECORDS, st.data())
def test_damage_is_refused_or_no_damage_to_a_reader(records: list[Record], data: st.DataObject) -> None:
    batch = bytearray(encode_batch(numbered(records[:5]), base_offset=0))
    batch[data.draw(st.integers(HEADER_SIZE, len(batch) - 1))] = data.draw(st.integers(0, 255))
    batch[17:21] = compute_crc(batch).to_bytes(4, "big")
    error = refusal(bytes(batch))
    if error is None:
        try:
            list(decode_records(batch))
        except InvalidRecord as other:
            message = str(other)
        else:
            message = ""
        assert message in ("", "the key of a record header is not valid UTF-8"), "names of headers are not read"
    else:
        assert refusal(bytes(batch), slice_size=1) is not None


@given(st.binary(max_size=400), st.integers(1, 30))
def test_any_bytes_are_good_or_refused(payload: bytes, count: int) -> None:
    header = read_header(encode_batch([Record(0, NOW_MS, None, None)]))._replace(record_count=count)
    try:
        assert RecordScan(payload, header, config=PLAIN, now_ms=NOW_MS).advance(count)
    except KafkaError:
        return


@pytest.mark.parametrize(
    "payload",
    [
        encode_record(0, b"v"),
        encode_record(0, b"v") + encode_record(1, b"w") + b"\x00",
        encode_record(0, b"v") + encode_record(1, b"w")[:-1],
        encode_record(0, b"v") + encode_record(0, b"w"),
        encode_record(0, b"v") + encode_record(2, b"w"),
        encode_record(0, b"v") + encode_record(1, b"w") + encode_record(2, b"x"),
        encode_record(0, b"v") + varint(9) + b"\x00\x00" + varint(1) + varint(-2) + varint(1) + b"v\x00\x00\x00",
        b"\xff" * 30,
    ],
    ids=["too few", "bytes left over", "cut off", "same offset", "missing offset", "too many", "a key of -2 bytes", "endless varint"],
)
def test_records_that_do_not_fill_their_batch_are_refused(payload: bytes) -> None:
    header = read_header(encode_batch([Record(0, NOW_MS, None, None)]))._replace(record_count=2)
    with pytest.raises(InvalidRecord) as refused:
        RecordScan(payload, header, config=PLAIN, now_ms=NOW_MS).advance(2)
    assert not refused.value.record_errors


def test_records_too_old_or_too_young_are_named_and_those_without_a_time_are_not() -> None:
    config = LogConfig.of({"message.timestamp.before.max.ms": 1000, "message.timestamp.after.max.ms": 500, "cleanup.policy": "compact"})
    times = [NOW_MS, NOW_MS + 501, NOW_MS - 1001, -1, NOW_MS - 1000, NOW_MS + 500, NOW_MS]
    batch = encode_batch([Record(number, time, b"k", b"v") for number, time in enumerate(times)])
    error = refusal(batch, config)
    assert isinstance(error, InvalidTimestamp)
    assert [one.batch_index for one in error.record_errors] == [1, 2]
    assert str(NOW_MS + 501) in (error.record_errors[0].message or "")
    stamped = LogConfig.of({"message.timestamp.type": "LogAppendTime"})
    assert refusal(batch, stamped) is None


def test_one_wrong_time_among_missing_keys_makes_it_an_error_of_times() -> None:
    batch = encode_batch([Record(0, NOW_MS, None, b"v"), Record(1, NOW_MS + 10**9, b"k", b"v")])
    error = refusal(batch, COMPACTED)
    assert isinstance(error, InvalidTimestamp)
    assert [one.batch_index for one in error.record_errors] == [0, 1]


def test_times_that_count_from_a_base_that_is_too_old_are_looked_at_one_by_one() -> None:
    config = LogConfig.of({"message.timestamp.before.max.ms": 1000})
    batch = encode_batch([Record(0, NOW_MS - 5000, b"k", b"v"), Record(1, NOW_MS, b"k", b"v")])
    error = refusal(batch, config)
    assert isinstance(error, InvalidTimestamp)
    assert [one.batch_index for one in error.record_errors] == [0]


def test_so_many_bad_records_are_named_and_no_more_are_looked_for() -> None:
    records = b"".join(encode_record(number, b"") for number in range(MAX_NAMED + 500))
    header = read_header(encode_batch([Record(0, NOW_MS, None, None)]))
    header = header._replace(record_count=MAX_NAMED + 500, last_offset_delta=MAX_NAMED + 499)
    scan = RecordScan(records, header, config=COMPACTED, now_ms=NOW_MS)
    assert not any(scan.advance(1000) for _ in range(MAX_NAMED // 1000 - 1))
    with pytest.raises(InvalidRecord) as refused:
        scan.advance(1000)
    assert (len(refused.value.record_errors), scan.number) == (MAX_NAMED, MAX_NAMED)


def test_a_slice_is_no_longer_for_records_with_very_many_headers() -> None:
    many = tuple(("", None) for _ in range(MAX_HEADERS))
    batch = encode_batch([Record(number, NOW_MS, b"k", b"v", many) for number in range(50)])
    scan = scan_of(batch)
    assert not scan.advance(2 * MAX_HEADERS)
    assert scan.number == 2
    more = encode_batch([Record(0, NOW_MS, b"k", b"v", many * 100), Record(1, NOW_MS, b"k", b"v")])
    assert refusal(more) is None
