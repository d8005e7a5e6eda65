import logging

from millstream.registry.http_noise import HttpNoise
from tests.manual_clock import ManualClock


def record(text: str) -> logging.LogRecord:
    return logging.LogRecord("uvicorn.error", logging.WARNING, __file__, 1, text, None, None)


def test_a_client_that_does_not_speak_http_is_said_once_a_minute(clock: ManualClock) -> None:
    noise = HttpNoise(lambda: clock.monotonic_ms() / 1000)
    first = record("Invalid HTTP request received.")
    assert noise.filter(first)
    assert "is it a Kafka client" in first.getMessage()
    assert not noise.filter(record("Invalid HTTP request received."))
    clock.advance(60_000)
    assert noise.filter(record("Invalid HTTP request received."))


def test_all_else_is_said(clock: ManualClock) -> None:
    noise = HttpNoise(lambda: clock.monotonic_ms() / 1000)
    assert all(noise.filter(record("Shutting down")) for _ in range(3))
