"""Page views and clicks as events, and what windows and joins make of them, computed in plain Python: what jobs are compared with."""

import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from tests.brokers import Broker
from tests.spark.topic_content import Message, read, write

START_MS = 1_700_000_400_000
"""A whole number of ten minutes since 1970."""
MINUTE_MS = 60_000
VIEW_SCHEMA = "page STRING, user STRING, bytes BIGINT, price DOUBLE, at BIGINT"
CLICK_SCHEMA = "user STRING, page STRING, button STRING, at BIGINT"

Result = dict[str, Any]


class View(NamedTuple):
    """A page view; the key of its message is its number."""

    number: int
    page: str
    user: str
    bytes: int
    price: float
    at: int

    def message(self) -> Message:
        fields = {name: value for name, value in self._asdict().items() if name != "number"}
        return Message(json.dumps(fields).encode(), b"view-%d" % self.number, partition=self.number % 2, timestamp_ms=self.at)


class Click(NamedTuple):
    """A click on a page."""

    user: str
    page: str
    button: str
    at: int

    def message(self) -> Message:
        return Message(json.dumps(self._asdict()).encode(), partition=len(self.button) % 2, timestamp_ms=self.at)


def make_views(count: int, *, seed: int = 7, step_ms: int = 2_000) -> list[View]:
    """Views in about the order of their times, a few seconds out of order; some pages are seen more often than others."""
    draw = random.Random(seed)
    return [
        View(
            number, f"/{draw.choice('aaaabbc')}", f"user-{draw.randrange(20)}", draw.randrange(10_000), draw.random() * 100,
            START_MS + number * step_ms + draw.randrange(10_000),
        )
        for number in range(count)
    ]  # fmt: skip


def send(broker: Broker, topic: str, events: Iterable[View] | Iterable[Click]) -> None:
    """Write the events to two partitions; for jobs that see all of them at once."""
    write(broker, topic, [event.message() for event in events])


def send_in_order(broker: Broker, topic: str, events: Iterable[View] | Iterable[Click]) -> None:
    """Write the events to one partition. A job that runs meanwhile may see more of one partition than of another; some are late then."""
    write(broker, topic, [event.message()._replace(partition=0) for event in events])


def windows_of(view: View, *, size_ms: int, step_ms: int) -> Iterator[int]:
    """The beginnings of the windows that a view is in."""
    first = view.at - view.at % step_ms
    yield from range(first, view.at - size_ms, -step_ms)


def measured(views: Sequence[View]) -> Result:
    """What the job of `windows_job` measures."""
    top = sorted(Counter(view.user for view in views).items(), key=lambda item: (-item[1], item[0]))[:3]
    return {
        "views": len(views),
        "bytes": sum(view.bytes for view in views),
        "price": round(sum(round(view.price, 9) for view in views), 6),
        "users": len({view.user for view in views}),
        "top": [{"value": user, "count": count} for user, count in top],
        "last": max(view.at for view in views),
    }


def expected_windows(views: Iterable[View], *, size_ms: int, step_ms: int) -> dict[tuple[int, int, str], Result]:
    """Results by beginning and end of the window and by page."""
    found: dict[tuple[int, int, str], list[View]] = defaultdict(list)
    for view in views:
        for start in windows_of(view, size_ms=size_ms, step_ms=step_ms):
            found[start, start + size_ms, view.page].append(view)
    return {place: measured(some) for place, some in found.items()}


def expected_sessions(views: Iterable[View], *, gap_ms: int) -> dict[tuple[int, int, str], Result]:
    """Results by beginning and end of the session and by page."""
    found: dict[tuple[int, int, str], Result] = {}
    by_page: dict[str, list[View]] = defaultdict(list)
    for view in sorted(views, key=lambda view: view.at):
        by_page[view.page].append(view)
    for page, some in by_page.items():
        sessions = [[some[0]]]
        for view in some[1:]:
            if view.at - sessions[-1][-1].at < gap_ms:
                sessions[-1].append(view)
            else:
                sessions.append([view])
        found |= {(session[0].at, session[-1].at + gap_ms, page): measured(session) for session in sessions}
    return found


def results(broker: Broker, topic: str) -> dict[str, Result]:
    """What is on a topic of results, by the text of the key; what was written twice was written the same."""
    found: dict[str, Result] = {}
    for row in read(broker, topic):
        assert row.key is not None
        assert row.value is not None
        value = json.loads(row.value)
        assert found.setdefault(row.key.decode(), value) == value
    return found


def window_results(broker: Broker, topic: str) -> dict[tuple[int, int, str], Result]:
    """The results of `windows_job`, as `expected_windows` has them."""
    found = {}
    for value in results(broker, topic).values():
        place = milliseconds(value.pop("window_start")), milliseconds(value.pop("window_end")), value.pop("page")
        found[place] = {**value, "price": round(value["price"], 6)}
    return found


def milliseconds(moment: str) -> int:
    return round(datetime.fromisoformat(moment).timestamp() * 1000)
