import pytest

from millstream.mirror.paused_topics import EVERY_TOPIC, PausedTopics, pause_key


def test_topics_are_paused_and_go_on_each_for_itself_or_all_together() -> None:
    paused = PausedTopics("live")
    paused.apply(pause_key("live", "orders"), b"{}")
    assert (paused.is_paused("orders"), paused.is_paused("clicks")) == (True, False)
    paused.apply(pause_key("live", EVERY_TOPIC), b"{}")
    assert paused.is_paused("clicks")
    paused.apply(pause_key("live", EVERY_TOPIC), None)
    paused.apply(pause_key("live", "orders"), None)
    assert not paused.names


@pytest.mark.parametrize(
    "key", [None, b"", b"pause", b"pause/live", b"status/live/orders", b"\xff/live/orders", pause_key("other", "orders")]
)
def test_what_is_not_about_this_mirror_is_left_alone(key: bytes | None) -> None:
    paused = PausedTopics("live")
    paused.apply(key, b"{}")
    assert not paused.names
