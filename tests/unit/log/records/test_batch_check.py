import pytest

from millstream.errors import (
    CorruptMessage,
    InvalidRecord,
    InvalidTimestamp,
    KafkaError,
    MessageTooLarge,
    RecordListTooLarge,
    TransactionalIdAuthorizationFailed,
    UnsupportedCompressionType,
)
from millstream.log.config import LogConfig
from millstream.log.records.batch_check import check_batch
from tests.batches import encode_batch
from tests.unit.log.conftest import NOW_MS

GOOD = encode_batch([b"one", b"two"], timestamp=NOW_MS)


def check(batch: bytes, **options: object) -> None:
    config = LogConfig.of({name.replace("_", "."): value for name, value in options.items()})
    check_batch(batch, config, now_ms=NOW_MS)


def batch(**fields: int) -> bytes:
    return encode_batch([b"one", b"two"], keys=None, **{"timestamp": NOW_MS} | fields)


def test_good_batch_passes_and_its_header_comes_back() -> None:
    header = check_batch(memoryview(GOOD), LogConfig(), now_ms=NOW_MS)
    assert (header.record_count, header.max_timestamp) == (2, NOW_MS)


@pytest.mark.parametrize(
    ("made", "error"),
    [
        (b"", InvalidRecord),
        (GOOD[:11], InvalidRecord),
        (GOOD[:16], InvalidRecord),
        (bytes(12), CorruptMessage),
        (bytes(61), CorruptMessage),
        (GOOD[:40], InvalidRecord),
        (GOOD[:16] + b"\x01" + GOOD[17:40], InvalidRecord),
        (GOOD[:-1], InvalidRecord),
        (GOOD + b"\x00", CorruptMessage),
        (GOOD + GOOD, InvalidRecord),
        (GOOD + bytes(61), CorruptMessage),
        (batch(magic=1), InvalidRecord),
        (batch(magic=3), CorruptMessage),
        (batch(crc=1), CorruptMessage),
        (batch(length=-5), CorruptMessage),
        (batch(length=14), CorruptMessage),
        (batch(length=14)[:26], CorruptMessage),
        (batch(length=1 << 20), InvalidRecord),
        (batch(record_count=3), InvalidRecord),
        (batch(record_count=0, last_offset_delta=-1), InvalidRecord),
        (batch(record_count=-1, last_offset_delta=-2), InvalidRecord),
        (batch(last_offset_delta=0), InvalidRecord),
        (batch(base_offset=5), InvalidRecord),
        (batch(attributes=0x20), InvalidRecord),
        (batch(attributes=0x10), TransactionalIdAuthorizationFailed),
        (batch(attributes=0x08), InvalidTimestamp),
        (batch(attributes=5), UnsupportedCompressionType),
        (batch(producer_id=1, producer_epoch=0, base_sequence=-1), InvalidRecord),
        (batch(producer_id=1, producer_epoch=-1, base_sequence=0), InvalidRecord),
        (batch(timestamp=NOW_MS + 3_600_001), InvalidTimestamp),
    ],
)
def test_each_mistake_has_kafkas_error(made: bytes, error: type[KafkaError]) -> None:
    with pytest.raises(error):
        check(made)


def test_too_large_for_the_topic_or_for_a_segment() -> None:
    with pytest.raises(MessageTooLarge):
        check(GOOD, max_message_bytes=len(GOOD) - 1)
    with pytest.raises(RecordListTooLarge):
        check(GOOD, segment_bytes=len(GOOD) - 1)
    check(GOOD, max_message_bytes=len(GOOD), segment_bytes=len(GOOD))


def test_timestamps_are_bounded_as_the_topic_says() -> None:
    with pytest.raises(InvalidTimestamp):
        check(batch(timestamp=NOW_MS - 11), message_timestamp_before_max_ms=10)
    check(batch(timestamp=NOW_MS - 10), message_timestamp_before_max_ms=10)
    check(batch(timestamp=-1, max_timestamp=-1), message_timestamp_before_max_ms=10)


def test_with_the_brokers_time_the_producers_does_not_matter() -> None:
    check(batch(timestamp=NOW_MS + 10**9), message_timestamp_type="LogAppendTime")
    check(batch(attributes=0x08), message_timestamp_type="LogAppendTime")
