"""An evening of a site, made up but believable, and the same for the same seed.

Members come for a session, most of them in the evening, look at a few pages (a few pages get most of the views: Zipf),
click on some links, and search. Some events are sent late, because a phone was in a tunnel; some are sent twice, because a client was not
sure that the first time had worked. Three robots read page after page. From a third on, views are sent in a second version of the schema.
"""

from collections.abc import Iterator
from itertools import accumulate
from random import Random
from typing import Final, NamedTuple

from demo.events import Click, Event, PageView, Search

SECOND_MS: Final = 1_000
MINUTE_MS: Final = 60_000
SPAN_MS: Final = 180 * MINUTE_MS
ROBOTS: Final = ("crawler-1", "crawler-2", "crawler-3")
VIEWS_OF_A_ROBOT: Final = 80
LATE_SHARE: Final = 0.02
TWICE_SHARE: Final = 0.01
PAGES: Final = (
    "/", "/feed", "/search", "/jobs", "/people", "/messages", "/groups", "/groups/python", "/news", "/profile", "/jobs/berlin",
    "/news/kafka", "/companies", "/groups/data", "/jobs/remote", "/learning", "/events", "/groups/spark", "/help", "/news/streams",
    "/companies/mill", "/jobs/data-engineer", "/learning/avro", "/settings", "/events/meetup", "/learning/sql", "/groups/cycling",
    "/help/privacy", "/companies/river", "/about",
)  # fmt: skip
LINKS: Final = ("read more", "profile", "apply", "share", "next", "advertisement")
WORDS: Final = ("python", "data engineer", "berlin", "kafka", "remote", "spark", "avro", "meetup", "cycling", "mill")
DEVICES: Final = ("phone", "phone", "desktop", "tablet")
_ZIPF: Final = 1.1
_MOST_VIEWS_IN_A_SESSION: Final = 25


class Sending(NamedTuple):
    """An event, and when it is sent, by the clock of the site."""

    sent: int
    event: Event


class SiteActivity(NamedTuple):
    """All that is sent, in order; views from the position `schema_change` on are of the second version, unless they were sent before."""

    sendings: list[Sending]
    schema_change: int

    @property
    def events(self) -> list[Event]:
        """Every event once, in the order in which they were first sent."""
        return list(dict.fromkeys(sending.event for sending in self.sendings))


def make_activity(count: int, *, start_ms: int, seed: int) -> SiteActivity:
    """About so many sendings, of events that happen from `start_ms` on, within about three hours."""
    site = _Site(Random(seed), start_ms)
    events: list[Event] = [event for robot in ROBOTS for event in site.crawl(robot)]
    while len(events) < count:
        events += site.session(members=max(count // 12, 10))
    sendings = sorted(site.sendings(events), key=lambda sending: (sending.sent, sending.event[0]))
    change = len(sendings) // 3
    return SiteActivity(_in_two_versions(sendings, change), change)


def _in_two_versions(sendings: list[Sending], change: int) -> list[Sending]:
    """Views that are sent before the change have no device, then or when they are sent again."""
    old: dict[Event, Event] = {
        sending.event: sending.event._replace(device=None) for sending in sendings[:change] if isinstance(sending.event, PageView)
    }
    return [Sending(sending.sent, old.get(sending.event, sending.event)) for sending in sendings]


class _Site:
    """Draws what happens."""

    def __init__(self, draw: Random, start_ms: int) -> None:
        self._draw = draw
        self._start_ms = start_ms
        self._numbers = {"view": 0, "click": 0, "search": 0}
        self._weights = list(accumulate(1 / rank**_ZIPF for rank in range(1, len(PAGES) + 1)))

    def session(self, *, members: int) -> Iterator[Event]:
        """One member looks at a few pages, one after the other."""
        draw = self._draw
        user = f"member-{draw.randrange(members):05d}"
        moment = self._start_ms + int(draw.triangular(0, SPAN_MS, SPAN_MS * 0.6))
        views = min(1 + int(draw.expovariate(1 / 4)), _MOST_VIEWS_IN_A_SESSION)
        for _ in range(views):
            [page] = draw.choices(PAGES, cum_weights=self._weights)
            yield from self._view(user, page, moment)
            moment += 5 * SECOND_MS + int(draw.expovariate(1 / (40 * SECOND_MS)))

    def crawl(self, robot: str) -> Iterator[Event]:
        """A robot reads page after page, within ten minutes."""
        tens = SPAN_MS // (10 * MINUTE_MS)
        moment = self._start_ms + self._draw.randrange(tens) * 10 * MINUTE_MS
        for number in range(VIEWS_OF_A_ROBOT):
            yield PageView(self._id("view"), PAGES[number % len(PAGES)], robot, moment, "desktop")
            moment += 5 * SECOND_MS

    def sendings(self, events: list[Event]) -> Iterator[Sending]:
        """When events are sent: mostly at once, some late, some twice."""
        draw = self._draw
        for event in events:
            sent = event.at
            if draw.random() < LATE_SHARE:
                sent += draw.randrange(2 * MINUTE_MS, 20 * MINUTE_MS)
            yield Sending(sent, event)
            if draw.random() < TWICE_SHARE:
                yield Sending(sent + draw.randrange(1 * SECOND_MS, 2 * MINUTE_MS), event)

    def _view(self, user: str, page: str, moment: int) -> Iterator[Event]:
        draw = self._draw
        view = PageView(self._id("view"), page, user, moment, DEVICES[hash_of(user) % len(DEVICES)])
        yield view
        if draw.random() < interest(page):
            yield Click(self._id("click"), view.view, page, user, draw.choice(LINKS), moment + self._until_click())
        if draw.random() < 0.12:
            words = " ".join(draw.sample(WORDS, draw.choice((1, 1, 2))))
            yield Search(self._id("search"), user, words, draw.randrange(500), moment + draw.randrange(20 * SECOND_MS))

    def _until_click(self) -> int:
        """Mostly seconds; but some tabs are left open for long."""
        if self._draw.random() < 0.03:
            return self._draw.randrange(12 * MINUTE_MS, 25 * MINUTE_MS)
        return min(SECOND_MS + int(self._draw.expovariate(1 / (25 * SECOND_MS))), 9 * MINUTE_MS)

    def _id(self, kind: str) -> str:
        self._numbers[kind] += 1
        return f"{kind}-{self._numbers[kind]:07d}"


def interest(page: str) -> float:
    """How likely a view of a page leads to a click."""
    return 0.05 + 0.4 * (hash_of(page) % 10) / 10


def hash_of(text: str) -> int:
    """A number that is the same in every process."""
    return sum(ord(letter) * (place + 7) for place, letter in enumerate(text))
