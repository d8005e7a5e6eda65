from millstream.coordination.cluster_view import BrokerState
from millstream.paper.groups.assignment import Subscription
from millstream.paper.groups.group_remarks import GroupRemarks
from millstream.paper.groups.group_view import GroupView

NO_BROKERS: dict[int, BrokerState] = {}
READER = Subscription({"clicks": 1}, session_timeout_ms=6000)


def remarks(*topics: str) -> GroupRemarks:
    return GroupRemarks(group="g", consumer_id="me", topics=topics)


def view(others: dict[str, Subscription], partitions: int = 2) -> GroupView:
    return GroupView(NO_BROKERS, {"clicks": range(partitions)}, {"me": READER, **others})


def test_a_topic_that_is_gone_is_said_once_and_so_is_its_return() -> None:
    group = remarks("clicks", "views")
    assert list(group.on_topics({"clicks", "views"})) == []
    [gone] = group.on_topics({"views"})
    assert "'clicks' was deleted" in gone
    assert list(group.on_topics({"views"})) == []
    [back] = group.on_topics({"clicks", "views"})
    assert "'clicks' again" in back
    assert len(list(group.on_topics({"views"}))) == 1


def test_who_has_the_partitions_is_said_once_until_this_consumer_had_some() -> None:
    group = remarks("clicks")
    [said] = group.on_partitions(view({"you": READER}), owned=set())
    assert "all 2 are with you." in said
    assert said.endswith("at most 6 s from now")
    assert list(group.on_partitions(view({"you": READER}), owned=set())) == []
    assert list(group.on_partitions(view({"you": READER}), owned={"clicks"})) == []
    assert len(list(group.on_partitions(view({"you": READER}), owned=set()))) == 1


def test_the_longest_session_counts_and_none_is_promised_where_one_is_not_known() -> None:
    slow, silent = Subscription({"clicks": 1}, session_timeout_ms=20_000), Subscription({"clicks": 1})
    [said] = remarks("clicks").on_partitions(view({"you": READER, "slow": slow}), owned=set())
    assert said.endswith("at most 20 s from now")
    [said] = remarks("clicks").on_partitions(view({"you": READER, "silent": silent}), owned=set())
    assert said.endswith("when its session ends")


def test_nothing_is_said_where_others_have_nothing_to_do_with_it() -> None:
    group = remarks("clicks")
    assert list(group.on_partitions(view({}), owned=set())) == []
    assert list(group.on_partitions(view({"you": Subscription({"views": 1})}), owned=set())) == []
    assert list(group.on_partitions(view({"you": READER}, 0), owned=set())) == []


def test_only_some_of_many_are_named() -> None:
    many = {f"c{number}": READER for number in range(8)}
    [said] = remarks("clicks").on_partitions(view(many), owned=set())
    assert "with c0, c1, c2, c3, c4 and 3 more." in said
