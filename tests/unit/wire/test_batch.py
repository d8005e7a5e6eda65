from millstream.wire.batch import STAMPED_SIZE, TRANSACTIONAL, compute_crc, read_header, stamp, with_log_append_time
from millstream.wire.compression import Codec
from millstream.wire.records import ProducerStamp, Record, encode_batch

BATCH = encode_batch(
    [Record(5, 100, None, b"a"), Record(7, 90, None, b"b")], codec=Codec.GZIP, leader_epoch=3, producer=ProducerStamp(1, 2, 2**31 - 2)
)


def test_the_header_is_read_from_where_it_stands() -> None:
    header = read_header(b"before" + BATCH, 6)
    assert header == read_header(BATCH)
    assert (header.size_bytes, header.last_offset, header.next_offset) == (len(BATCH), 7, 8)
    assert header.codec == Codec.GZIP
    assert not header.is_control
    assert not header.is_transactional
    assert not header.is_log_append_time


def test_sequences_start_again_after_the_highest_number() -> None:
    assert read_header(BATCH).last_sequence == 0


def test_stamping_leaves_the_crc_right() -> None:
    stamped = stamp(read_header(BATCH), base_offset=1_000, leader_epoch=9) + BATCH[STAMPED_SIZE:]
    header = read_header(stamped)
    assert (header.base_offset, header.leader_epoch, header.last_offset) == (1_000, 9, 1_002)
    assert compute_crc(stamped) == header.crc


def test_log_append_time_keeps_the_other_attributes_and_makes_the_crc_right() -> None:
    batch = encode_batch([Record(0, 100, None, b"a")], codec=Codec.ZSTD, flags=TRANSACTIONAL)
    changed = with_log_append_time(batch, now_ms=777)
    header = read_header(changed)
    assert header.crc == compute_crc(changed)
    assert (header.is_log_append_time, header.is_transactional, header.codec, header.max_timestamp) == (True, True, Codec.ZSTD, 777)
