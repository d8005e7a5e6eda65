"""Asking again after an error that may pass: a leader that moves, a coordinator that loads, a broker that restarts."""

from collections.abc import Callable
from itertools import chain, repeat
from time import monotonic, sleep
from typing import Final, TypeVar

from millstream.client.errors import BrokerUnavailable, is_retriable
from millstream.errors import KafkaError, MillstreamError

T = TypeVar("T")

_PAUSES_S: Final = (0.02, 0.05, 0.1, 0.2, 0.5)
_LONGEST_PAUSE_S: Final = 1.0


def may_pass(error: MillstreamError) -> bool:
    """Whether the same request may succeed later, to the same broker or to another."""
    return is_retriable(error.code) if isinstance(error, KafkaError) else isinstance(error, BrokerUnavailable)


def retry(attempt: Callable[[], T], *, timeout_s: float, may_pass: Callable[[MillstreamError], bool] = may_pass) -> T:
    """Attempt it until it works, the time is up, or the error is one that does not pass."""
    deadline = monotonic() + timeout_s
    for pause_s in chain(_PAUSES_S, repeat(_LONGEST_PAUSE_S)):
        try:
            return attempt()
        except MillstreamError as error:
            if not may_pass(error) or monotonic() + pause_s > deadline:
                raise
        sleep(pause_s)
    raise AssertionError("the pauses never end")
