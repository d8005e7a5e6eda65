from millstream.groups.timers import GroupTimers


def test_groups_become_due_in_order() -> None:
    timers = GroupTimers()
    timers.schedule("late", 20)
    timers.schedule("early", 10)
    assert timers.next_deadline_ms() == 10
    assert timers.pop_due(9) == []
    assert timers.pop_due(20) == ["early", "late"]
    assert timers.next_deadline_ms() is None


def test_a_group_is_looked_at_once_and_at_the_earlier_time() -> None:
    timers = GroupTimers()
    timers.schedule("group", 20)
    timers.schedule("group", 10)
    timers.schedule("group", 30)
    assert timers.pop_due(10) == ["group"]
    assert timers.pop_due(30) == []


def test_nothing_to_wait_for_is_nothing_scheduled() -> None:
    timers = GroupTimers()
    timers.schedule("group", None)
    assert timers.next_deadline_ms() is None
