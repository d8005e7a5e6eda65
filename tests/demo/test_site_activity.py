"""The generator: believable, and the same for the same seed."""

from collections import Counter

from demo.abuse import MOST_VIEWS, WINDOW_MS
from demo.events import SITE_TOPICS, Click, PageView, fields_of
from demo.expectation import CLICK_WITHIN_MS
from demo.site_activity import PAGES, ROBOTS, VIEWS_OF_A_ROBOT, SiteActivity, make_activity

START_MS = 1_700_006_400_000
ACTIVITY = make_activity(5_000, start_ms=START_MS, seed=1)


def views_of(activity: SiteActivity) -> list[PageView]:
    return [event for event in activity.events if isinstance(event, PageView)]


def test_the_same_seed_is_the_same_evening_and_another_seed_another_one() -> None:
    assert make_activity(5_000, start_ms=START_MS, seed=1) == ACTIVITY
    assert make_activity(5_000, start_ms=START_MS, seed=2).sendings != ACTIVITY.sendings


def test_about_as_much_is_sent_as_was_asked_for_to_every_topic() -> None:
    assert 5_000 <= len(ACTIVITY.sendings) < 5_500
    assert set(Counter(sending.event.topic for sending in ACTIVITY.sendings)) == set(SITE_TOPICS)


def test_an_id_is_that_of_one_event() -> None:
    ids = [event[0] for event in ACTIVITY.events]
    assert len(set(ids)) == len(ids)


def test_a_few_pages_are_seen_often_and_most_are_not() -> None:
    seen = Counter(view.page for view in views_of(ACTIVITY) if view.user not in ROBOTS)
    [(first, most)] = seen.most_common(1)
    assert first == PAGES[0]
    assert most > 10 * seen[PAGES[-1]]
    assert len(seen) > 20


def test_some_events_are_sent_late_and_some_twice() -> None:
    late = [sending for sending in ACTIVITY.sendings if sending.sent - sending.event.at > 5 * 60_000]
    assert 0.005 < len(late) / len(ACTIVITY.sendings) < 0.04
    twice = len(ACTIVITY.sendings) - len(ACTIVITY.events)
    assert 0.002 < twice / len(ACTIVITY.sendings) < 0.03
    assert [sending.sent for sending in ACTIVITY.sendings] == sorted(sending.sent for sending in ACTIVITY.sendings)


def test_clicks_follow_their_views_and_some_come_too_late() -> None:
    views = {view.view: view for view in views_of(ACTIVITY)}
    clicks = [event for event in ACTIVITY.events if isinstance(event, Click)]
    delays = [click.at - views[click.view].at for click in clicks]
    assert min(delays) > 0
    assert 0 < sum(delay > CLICK_WITHIN_MS for delay in delays) < len(delays) / 5
    assert all((click.page, click.user) == (views[click.view].page, views[click.view].user) for click in clicks)


def test_views_have_a_device_from_the_schema_change_on_also_when_an_old_one_is_sent_again() -> None:
    before = {s.event for s in ACTIVITY.sendings[: ACTIVITY.schema_change] if isinstance(s.event, PageView)}
    after = {s.event for s in ACTIVITY.sendings[ACTIVITY.schema_change :] if isinstance(s.event, PageView)} - before
    assert {view.device for view in before} == {None}
    assert None not in {view.device for view in after}
    assert "device" not in fields_of(next(iter(before)), sent_at=1)
    assert "device" in fields_of(next(iter(after)), sent_at=1)


def test_a_robot_sees_more_in_one_window_than_the_rule_allows() -> None:
    for robot in ROBOTS:
        windows = Counter(view.at // WINDOW_MS for view in views_of(ACTIVITY) if view.user == robot)
        assert list(windows.values()) == [VIEWS_OF_A_ROBOT]
    assert VIEWS_OF_A_ROBOT > MOST_VIEWS
