from millstream.groups.known_groups import KnownGroups
from millstream.groups.settings import GroupSettings


def test_groups_become_due_in_order() -> None:
    groups = KnownGroups(GroupSettings())
    groups.schedule("late", 20)
    groups.schedule("early", 10)
    assert groups.next_deadline_ms() == 10
    assert groups.pop_due(9) == []
    assert groups.pop_due(20) == ["early", "late"]
    assert groups.next_deadline_ms() is None


def test_a_group_is_looked_at_once_and_at_the_earlier_time() -> None:
    groups = KnownGroups(GroupSettings())
    groups.schedule("group", 20)
    groups.schedule("group", 10)
    groups.schedule("group", 30)
    assert groups.pop_due(10) == ["group"]
    assert groups.pop_due(30) == []


def test_nothing_to_wait_for_is_nothing_scheduled() -> None:
    groups = KnownGroups(GroupSettings())
    groups.schedule("group", None)
    assert groups.next_deadline_ms() is None
