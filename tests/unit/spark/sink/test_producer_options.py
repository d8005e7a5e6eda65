"""Kafka's own options of a write: what is obeyed, what has no effect, and what is refused with which words."""

from dataclasses import replace

import pytest

from millstream.client.codecs.produce import ALL_REPLICAS, NO_ANSWER
from millstream.client.raw_producer import ProducerSettings
from millstream.spark.options import WRITE, OptionError, Options
from millstream.spark.sink.producer_options import (
    DEFAULT_CLIENT_ID,
    DEFAULT_TRANSACTION_TIMEOUT_MS,
    Compression,
    parse_compression,
    parse_producer_settings,
)
from millstream.wire.compression import Codec

SERVERS = "127.0.0.1:9092"


def settings(**kafka: str) -> ProducerSettings:
    parse_compression(options(**kafka))
    return parse_producer_settings(options(**kafka))


def options(**kafka: str) -> Options:
    given = {f"kafka.{name.replace('_', '.')}": value for name, value in kafka.items()}
    return Options({"kafka.bootstrap.servers": SERVERS} | given, WRITE)


def test_defaults_are_those_of_kafka_or_named_as_different() -> None:
    assert settings() == ProducerSettings(SERVERS, client_id=DEFAULT_CLIENT_ID, option_prefix="kafka.")
    assert (settings().acks, settings().is_idempotent) == (ALL_REPLICAS, True)


def test_settings_are_taken() -> None:
    assert settings(acks="0", request_timeout_ms="500", max_request_size="2000", batch_size="100", linger_ms="5") == replace(
        settings(), acks=NO_ANSWER, is_idempotent=False, request_timeout_ms=500, max_request_size=2000, batch_size=100
    )
    assert parse_compression(options(compression_type="ZSTD", compression_zstd_level="7")) == Compression(Codec.ZSTD, 7)
    assert parse_compression(options(compression_type="gzip", compression_zstd_level="7")) == Compression(Codec.GZIP)
    assert settings(request_timeout_ms="200000").delivery_timeout_ms == 200_000
    assert settings(max_request_size="1000").batch_size == 1000
    assert not settings(retries="0").is_idempotent


def test_a_write_that_is_to_be_exactly_once_has_transactions() -> None:
    def timeout_ms(guarantee: str, **kafka: str) -> int | None:
        given = {"delivery.guarantee": guarantee, **options(**kafka)}
        return parse_producer_settings(Options(given, WRITE)).transaction_timeout_ms

    assert timeout_ms("at-least-once", transaction_timeout_ms="5000") is None
    assert timeout_ms("Exactly-Once") == DEFAULT_TRANSACTION_TIMEOUT_MS
    assert timeout_ms("exactly-once", transaction_timeout_ms="5000") == 5000
    with pytest.raises(OptionError, match="'once' is none of at-least-once, exactly-once"):
        timeout_ms("once")
    with pytest.raises(OptionError, match=r"option delivery.guarantee: exactly-once needs an idempotent producer"):
        timeout_ms("exactly-once", acks="1")


@pytest.mark.parametrize(
    ("kafka", "expected"),
    [
        ({"acks": "2"}, "option kafka.acks: '2' is none of all, -1, 1, 0"),
        ({"acks": "1", "enable_idempotence": "true"}, "option kafka.enable.idempotence: true needs kafka.acks = all, not 1"),
        (
            {"max_in_flight_requests_per_connection": "6", "enable_idempotence": "true"},
            "true needs kafka.max.in.flight.requests.per.connection of at most 5, not 6",
        ),
        ({"retries": "0", "enable_idempotence": "true"}, "true needs kafka.retries above 0"),
        ({"compresion_type": "gzip"}, "option kafka.compresion.type: Kafka's producer has no such option"),
        ({"compression_type": "brotli"}, "option kafka.compression.type: 'brotli' is none of none, gzip, snappy, lz4, zstd"),
        ({"compression_type": "gzip", "compression_gzip_level": "10"}, "option kafka.compression.gzip.level: 10 is above 9"),
        ({"key_serializer": "x"}, "option kafka.key.serializer: it cannot be set: key.format says how keys are written"),
        ({"transactional_id": "x"}, "option kafka.transactional.id: it cannot be set"),
        ({"security_protocol": "TLS"}, "option kafka.security.protocol: 'TLS' is none of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ({"sasl_mechanism": "PLAIN"}, "option kafka.sasl.mechanism: it needs security.protocol = SASL_SSL or SASL_PLAINTEXT"),
        ({"batch_size": "many"}, "option kafka.batch.size: 'many' is not a whole number"),
        ({"request_timeout_ms": "0"}, "option kafka.request.timeout.ms: 0 is not between 1 and 2147483647"),
        (
            {"delivery_timeout_ms": "100", "request_timeout_ms": "200"},
            "option kafka.delivery.timeout.ms: 100 is less than kafka.request.timeout.ms, 200",
        ),
    ],
)
def test_a_setting_that_cannot_be_is_refused(kafka: dict[str, str], expected: str) -> None:
    with pytest.raises(OptionError) as raised:
        settings(**kafka)
    assert expected in str(raised.value)


def test_what_is_a_long_to_kafka_may_be_one() -> None:
    longest = settings(max_block_ms=str(2**63 - 1), buffer_memory=str(2**32))
    assert (longest.max_block_ms, longest.buffer_memory) == (2**63 - 1, 2**32)


def test_kafkas_options_of_a_consumer_have_no_effect_on_a_write() -> None:
    assert settings(group_id="g", max_poll_records="5", isolation_level="read_committed") == settings()
    with pytest.raises(OptionError, match=r"option kafka.groupid: Kafka's producer has no such option"):
        settings(groupid="g")
