"""What is found good is what a reader reads; what is refused is named; and slices make no difference."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.errors import InvalidRecord, InvalidTimestamp, KafkaError
from millstream.log.config import LogConfig
from millstream.log.records.record_scan import MAX_NAMED, RecordRules, RecordScan
from millstream.log.records.record_walk import MAX_HEADERS
from millstream.wire.batch import HEADER_SIZE, compute_crc, read_header
from millstream.wire.records import Record, decode_records, encode_batch
from tests.batches import encode_record, varint

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
    return RecordScan(batch[HEADER_SIZE:], header, RecordRules(header, config, now_ms=NOW_MS))


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
    scan = RecordScan(payload, header, RecordRules(header, PLAIN, now_ms=NOW_MS))
    try:
        assert scan.advance(count)
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
        RecordScan(payload, header, RecordRules(header, PLAIN, now_ms=NOW_MS)).advance(2)
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
    header = read_header(encode_batch([Record(0, NOW_MS, None, None)]))._replace(record_count=MAX_NAMED + 500)
    scan = RecordScan(records, header, RecordRules(header, COMPACTED, now_ms=NOW_MS))
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
