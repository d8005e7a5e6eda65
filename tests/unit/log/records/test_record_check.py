from dataclasses import replace

import pytest

from millstream.errors import InvalidRecord, MessageTooLarge
from millstream.log.config import LogConfig
from millstream.log.records.record_check import checked, is_needed
from millstream.wire import records
from millstream.wire.batch import compute_crc, read_header
from millstream.wire.compression import Codec
from millstream.wire.records import ProducerStamp, Record, decode_records, encode_batch

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
    monkeypatch.delattr(records, "rebuild")
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
