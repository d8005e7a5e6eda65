"""How fast the counters of a metrics page grow: between the last two pages that were sampled at different times. Pure."""

from collections.abc import Mapping

from millstream.cli.top.metrics_page import MetricsPage

SAME_SAMPLE_S = 0.2


class MetricsRates:
    """Takes one page after the other; a broker samples itself every few seconds, so some pages are the same."""

    def __init__(self) -> None:
        self._before: MetricsPage | None = None
        self._last: MetricsPage | None = None

    def note(self, page: MetricsPage | None) -> None:
        """The page of this moment."""
        if page is None:
            self._before = self._last = None
        elif self._last is None or page.sampled_at - self._last.sampled_at > SAME_SAMPLE_S:
            self._before, self._last = self._last, page

    @property
    def page(self) -> MetricsPage | None:
        """The last page."""
        return self._last

    @property
    def bytes_in(self) -> dict[str, float]:
        """Bytes per second that producers write, by topic."""
        return self._rates("bytes_in")

    @property
    def bytes_out(self) -> dict[str, float]:
        """Bytes per second that consumers read, by topic."""
        return self._rates("bytes_out")

    @property
    def requests(self) -> dict[str, float]:
        """Requests per second, by API."""
        return self._rates("requests")

    def _rates(self, name: str) -> dict[str, float]:
        if self._before is None or self._last is None:
            return {}
        before: Mapping[str, float] = getattr(self._before, name)
        last: Mapping[str, float] = getattr(self._last, name)
        seconds = max(self._last.sampled_at - self._before.sampled_at, SAME_SAMPLE_S)
        # A broker that was restarted counts from 0.
        return {key: max(value - before.get(key, 0.0), 0.0) / seconds for key, value in last.items()}
