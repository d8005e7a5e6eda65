from millstream.auditor.held_partitions import FIRST_PAUSE_S, LONGEST_PAUSE_S, HeldPartitions


def test_a_partition_is_tried_again_after_growing_pauses_and_behind_until_something_was_taken() -> None:
    held, now = HeldPartitions(), 100.0
    assert held.hold(3, now), "it was not behind before"
    pause_s = FIRST_PAUSE_S
    for _ in range(10):
        assert held.is_held(3)
        assert held.due(now + pause_s - 0.01) == []
        now += pause_s
        assert held.due(now) == [3]
        assert (held.is_held(3), held.is_behind(3), held.due(now)) == (False, True, [])
        assert not held.hold(3, now), "it is behind still: that was said"
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
    assert held.took(3)
    assert not held.took(3)
    assert (bool(held), held.is_held(3), held.is_behind(3)) == (False, False, False)
    held.hold(3, now)
    assert held.due(now + FIRST_PAUSE_S) == [3], "pauses begin anew"


def test_each_partition_waits_for_itself() -> None:
    held = HeldPartitions()
    held.hold(1, 0.0)
    held.hold(2, 10.0)
    assert held.due(FIRST_PAUSE_S) == [1]
    assert (held.is_held(1), held.is_held(2), held.is_behind(4)) == (False, True, False)
