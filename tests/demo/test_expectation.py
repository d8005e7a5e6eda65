"""What the demo expects, against results that were worked out by hand."""

from collections import Counter

from demo.abuse import MOST_VIEWS, WINDOW_MS, AbuseRule, Alert
from demo.events import Click, PageView
from demo.expectation import CLICK_WITHIN_MS, WindowResult, expect, expected_alerts, expected_clicks, expected_windows, lake_row
from demo.site_activity import Sending, SiteActivity

START = 1_700_006_400_000


def view(number: int, *, page: str = "/", user: str = "ann", at: int = START, device: str | None = "phone") -> PageView:
    return PageView(f"view-{number}", page, user, at, device)


def click(number: int, of: PageView, *, after_ms: int) -> Click:
    return Click(f"click-{number}", of.view, of.page, of.user, "share", of.at + after_ms)


def test_views_are_counted_by_page_and_ten_minutes_of_their_own_time() -> None:
    views = [
        view(1),
        view(2, user="bob"),
        view(3, user="bob", at=START + WINDOW_MS - 1),
        view(4, at=START + WINDOW_MS),
        view(5, page="/feed"),
    ]
    assert expected_windows(views) == {
        (START, "/"): WindowResult(3, (("bob", 2), ("ann", 1))),
        (START + WINDOW_MS, "/"): WindowResult(1, (("ann", 1),)),
        (START, "/feed"): WindowResult(1, (("ann", 1),)),
    }


def test_of_users_who_looked_equally_often_the_first_by_name_are_regulars() -> None:
    views = [view(number, user=user) for number, user in enumerate(["eve", "bob", "ann"])]
    assert expected_windows(views)[START, "/"].regulars == (("ann", 1), ("bob", 1))


def test_a_view_is_joined_with_the_clicks_that_came_in_time_or_with_none() -> None:
    one, other = view(1), view(2)
    clicks = [click(1, one, after_ms=0), click(2, one, after_ms=CLICK_WITHIN_MS), click(3, other, after_ms=CLICK_WITHIN_MS + 1)]
    assert expected_clicks([one, other], clicks) == Counter([("view-1", "click-1"), ("view-1", "click-2"), ("view-2", None)])


def test_a_view_of_the_first_version_is_a_row_with_the_default() -> None:
    assert lake_row(view(1, device=None)) == ("view-1", "/", "ann", START, "unknown")


def test_what_was_sent_twice_is_two_rows_and_counts_once() -> None:
    one = view(1)
    expected = expect(SiteActivity([Sending(START, one), Sending(START + 5, one)], 0))
    assert expected.sent == {"page-views": 2}
    assert expected.windows[START, "/"].views == 1
    assert expected.clicked == Counter([("view-1", None)])


def test_one_view_more_than_a_person_can_is_an_alert_once() -> None:
    views = [view(number, user="crawler", at=START + number) for number in range(MOST_VIEWS + 5)]
    assert expected_alerts(views[:MOST_VIEWS]) == set()
    assert expected_alerts(views) == {("crawler", START)}
    rule = AbuseRule()
    assert [alert for one in views if (alert := rule.add(one.user, one.at))] == [Alert("crawler", START)]
