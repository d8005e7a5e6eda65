"""uvicorn says "Invalid HTTP request received." for each request of a client that does not speak HTTP, and such a client tries again: many
times a second, for ever. One line a minute says what it most likely is."""

import logging
from collections.abc import Callable
from time import monotonic
from typing import Final

AGAIN_SECONDS: Final = 60.0
_INVALID: Final = "Invalid HTTP request received."


class HttpNoise(logging.Filter):
    """A filter for uvicorn's logger."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._said_at = float("-inf")

    def filter(self, record: logging.LogRecord) -> bool:
        if record.msg != _INVALID:
            return True
        now = self._clock()
        if now - self._said_at < AGAIN_SECONDS:
            return False
        self._said_at = now
        record.msg = "a client does not speak HTTP: is it a Kafka client that was given the registry's address instead of the broker's?"
        return True
