"""What all of it has to result in, computed from the events in plain Python: the demo's checks compare with this."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from demo.abuse import MOST_VIEWS, WINDOW_MS
from demo.events import UNKNOWN_DEVICE, Click, Event, PageView
from demo.site_activity import SiteActivity

CLICK_WITHIN_MS: Final = 600_000
TOP_USERS: Final = 2

LakeRow = tuple[object, ...]
"""The fields of an event, as the lake has to have them."""


class WindowResult(NamedTuple):
    """Views of a page in ten minutes, and who looked most often: users with their views."""

    views: int
    regulars: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Expectation:
    """What there has to be when everything has arrived."""

    lake: dict[str, Counter[LakeRow]]
    """By topic: every message, those that were sent twice twice."""
    windows: dict[tuple[int, str], WindowResult]
    """By start of the ten minutes, and page."""
    clicked: Counter[tuple[str, str | None]]
    """Views with each click on them that came in time, or with None."""
    alerts: set[tuple[str, int]]
    """Users that look at too many pages, and when."""

    @property
    def sent(self) -> dict[str, int]:
        """How many messages were sent to each topic."""
        return {topic: rows.total() for topic, rows in self.lake.items()}


def expect(activity: SiteActivity) -> Expectation:
    """What an evening results in."""
    events = activity.events
    lake: dict[str, Counter[LakeRow]] = defaultdict(Counter)
    for sending in activity.sendings:
        lake[sending.event.topic][lake_row(sending.event)] += 1
    views = [event for event in events if isinstance(event, PageView)]
    clicks = [event for event in events if isinstance(event, Click)]
    return Expectation(dict(lake), expected_windows(views), expected_clicks(views, clicks), expected_alerts(views))


def lake_row(event: Event) -> LakeRow:
    """The event as a row; a view of the first version has the default of the field that it lacks (`Lake.rows`)."""
    return tuple(event._replace(device=event.device or UNKNOWN_DEVICE) if isinstance(event, PageView) else event)


def expected_windows(views: Iterable[PageView]) -> dict[tuple[int, str], WindowResult]:
    """Results of the windows job."""
    found: dict[tuple[int, str], Counter[str]] = defaultdict(Counter)
    for view in views:
        found[view.at - view.at % WINDOW_MS, view.page][view.user] += 1
    return {
        place: WindowResult(users.total(), tuple(sorted(users.items(), key=lambda item: (-item[1], item[0]))[:TOP_USERS]))
        for place, users in found.items()
    }


def expected_clicks(views: Iterable[PageView], clicks: Iterable[Click]) -> Counter[tuple[str, str | None]]:
    """Results of the join job: clicks count within ten minutes after their view."""
    by_view: dict[str, list[Click]] = defaultdict(list)
    for click in clicks:
        by_view[click.view].append(click)
    found: Counter[tuple[str, str | None]] = Counter()
    for view in views:
        in_time: list[str | None] = [click.click for click in by_view[view.view] if 0 <= click.at - view.at <= CLICK_WITHIN_MS]
        found.update((view.view, click) for click in in_time or [None])
    return found


def expected_alerts(views: Iterable[PageView]) -> set[tuple[str, int]]:
    """What the abuse service has to find."""
    counted = Counter((view.user, view.at - view.at % WINDOW_MS) for view in views)
    return {place for place, count in counted.items() if count > MOST_VIEWS}
