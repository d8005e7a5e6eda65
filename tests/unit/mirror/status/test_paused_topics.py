from millstream.mirror.status.paused_topics import EVERY_TOPIC, PausedTopics, pause_entries, resume_entries


def test_topics_are_paused_each_for_itself_or_all_together() -> None:
    paused = PausedTopics("live", pause_entries("live", ["orders"], now_ms=1))
    assert (paused.is_paused("orders"), paused.is_paused("clicks")) == (True, False)
    assert PausedTopics("live", pause_entries("live", [EVERY_TOPIC], now_ms=1)).is_paused("clicks")
    assert not PausedTopics("live").is_paused("orders")


def test_what_is_not_about_this_mirror_is_left_alone() -> None:
    others = ["", "pause", "pause/live", "status/live/orders", "pause/live2/orders", *pause_entries("other", ["orders"], now_ms=1)]
    assert not PausedTopics("live", others).names


def test_what_goes_on_is_deleted() -> None:
    assert resume_entries("live", ["orders"]) == dict.fromkeys(pause_entries("live", ["orders"], now_ms=1))
