from millstream.mirror.groups.group_offsets import groups_to_copy, offsets_to_copy
from millstream.topic_partition import TopicPartition

PLACES = [TopicPartition("orders", index) for index in range(4)]


def test_offsets_go_only_forward_and_never_past_the_end_of_the_copy() -> None:
    source = {PLACES[0]: 50, PLACES[1]: 50, PLACES[2]: 50, PLACES[3]: 50}
    target = {PLACES[1]: 60, PLACES[2]: 20}
    ends = {PLACES[0]: 40, PLACES[1]: 90, PLACES[2]: 90}
    assert offsets_to_copy(source, target, ends=ends) == {PLACES[0]: 40, PLACES[2]: 50}


def test_nothing_is_copied_of_what_is_not_committed() -> None:
    assert offsets_to_copy({PLACES[0]: -1001}, {}, ends={PLACES[0]: 10}) == {}


def test_mirrors_are_no_applications() -> None:
    assert groups_to_copy(["b", "millstream-mirror-x", "a"]) == ["a", "b"]
