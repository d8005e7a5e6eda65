"""The abuse service: its topics, and its rule. Who looks at more pages within ten minutes than a person can is a robot."""

from collections import Counter
from typing import Final, NamedTuple

METRICS: Final = "service-metrics"
ALERTS: Final = "abuse-alerts"
TIER: Final = "abuse"
"""The name under which its reading is audited, and that of its consumer group."""
WINDOW_MS: Final = 600_000
MOST_VIEWS: Final = 60


class Alert(NamedTuple):
    """A user who looked at too many pages in the ten minutes from `window_ms` on."""

    user: str
    window_ms: int


class AbuseRule:
    """Counts views by user and ten minutes of their own time, so it does not matter in which order they come."""

    def __init__(self) -> None:
        self._views: Counter[Alert] = Counter()

    def add(self, user: str, at_ms: int) -> Alert | None:
        """A view; the alert if it is the first one too many."""
        place = Alert(user, at_ms - at_ms % WINDOW_MS)
        self._views[place] += 1
        return place if self._views[place] == MOST_VIEWS + 1 else None
