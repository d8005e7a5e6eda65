"""What the options say of a follower's fetches, asked for every fetch and worked out only when they change."""

from collections.abc import Callable
from typing import NamedTuple, Self

from millstream.broker.cluster.live_settings import LiveSettings
from millstream.options.settings import BrokerSettings


class FetchLimits(NamedTuple):
    """How much and how long."""

    wait_ms: int
    min_bytes: int
    max_bytes: int
    """Per partition."""
    response_bytes: int
    timeout_s: float
    backoff_s: float

    @classmethod
    def of(cls, settings: BrokerSettings) -> Self:
        """As these settings have them."""
        return cls(
            settings.integer("replica.fetch.wait.max.ms"),
            settings.integer("replica.fetch.min.bytes"),
            settings.integer("replica.fetch.max.bytes"),
            settings.integer("replica.fetch.response.max.bytes"),
            settings.integer("replica.socket.timeout.ms") / 1000,
            settings.integer("replica.fetch.backoff.ms") / 1000,
        )


def fetch_limits(settings: LiveSettings) -> Callable[[], FetchLimits]:
    """The limits as they are at the time of asking; settings are swapped whole, so the same ones are looked at once."""
    known, limits = settings.current, FetchLimits.of(settings.current)

    def current() -> FetchLimits:
        nonlocal known, limits
        if settings.current is not known:
            known, limits = settings.current, FetchLimits.of(settings.current)
        return limits

    return current
