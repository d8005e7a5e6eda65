from dataclasses import replace
from uuid import UUID

import pytest

from millstream.address import Address
from millstream.coordination.cluster_view import BrokerState, ClusterView, TopicState, decode_configs, decode_life, encode_configs
from millstream.coordination.partition_state import PartitionState
from millstream.coordination.topic_header import TopicHeader

PARTITION = PartitionState(replicas=(2, 1), leader=1, leader_epoch=5, in_sync_replicas=(1,), eligible_leaders=(2,))
TOPIC = TopicState("orders", UUID(int=7), (PARTITION, PartitionState.first((1,))), {"retention.ms": "5"}, version=3)


def test_the_znode_of_a_topic_says_how_many_partitions_there_are() -> None:
    assert TOPIC.header == TopicHeader(UUID(int=7), {"retention.ms": "5"}, 2)


def test_the_life_of_a_broker_is_a_number() -> None:
    assert decode_life(b"17") == 17
    for nonsense in (b"", b"-1", b"07", b"1.0", b"x", b"9" * 19):
        with pytest.raises(ValueError, match="epoch of a broker"):
            decode_life(nonsense)


def test_a_broker_comes_back_from_its_znode_with_the_epoch_of_its_life() -> None:
    broker = BrokerState(1, "host", 9092, "rack", epoch=17)
    assert BrokerState.decode(1, broker.encode(), epoch=17) == broker
    among_others = broker._replace(inter_broker=Address("127.0.0.1", 9093))
    assert BrokerState.decode(1, among_others.encode(), epoch=17) == among_others


def test_a_new_partition_is_led_by_its_first_replica_and_all_are_in_sync() -> None:
    assert PartitionState.first((3, 1)) == PartitionState((3, 1), leader=3, leader_epoch=0, in_sync_replicas=(3, 1))


def test_topics_are_found_by_id_also_after_changes() -> None:
    view = ClusterView().with_topics({"orders": TOPIC})
    assert view.topics_by_id == {UUID(int=7): TOPIC}
    assert view.with_topics({"orders": None}).topics_by_id == {}
    assert view.with_topics({}) == view


def test_view_knows_what_was_changed_to_make_it() -> None:
    first = ClusterView().with_topics({"orders": TOPIC, "other": replace(TOPIC, name="other", topic_id=UUID(int=8))})
    second = first.with_topics({"orders": None, "new": replace(TOPIC, name="new", topic_id=UUID(int=9))})
    third = replace(second, controller_id=3)
    assert (first.partition_count, second.partition_count) == (2 * len(TOPIC.partitions),) * 2
    assert second.topics_changed_since(first) == third.topics_changed_since(first) == {"orders", "new"}
    assert list(third.topics_changed_since(second)) == []
    assert set(third.topics_changed_since(ClusterView())) == {"other", "new"}
    assert set(first.topics_changed_since(third)) == {"orders", "new"}
    assert first.topics_by_id.keys() == {UUID(int=7), UUID(int=8)}
    assert third.topics_by_id.keys() == {UUID(int=8), UUID(int=9)}


def test_a_view_is_shown_with_fewer_partitions_of_some_topics() -> None:
    small, large = (
        TopicState(name, UUID(int=number), (PartitionState.first((1,)),) * number) for number, name in ((1, "small"), (3, "large"))
    )
    view = ClusterView().with_topics({"small": small, "large": large})
    assert view.showing({}) is view
    assert view.showing({"gone": 0, "large": 3}) is view
    shown = view.showing({"small": 0, "large": 2})
    assert shown.topics == {"large": replace(large, partitions=large.partitions[:2])}
    assert (list(shown.topics_by_id), shown.partition_count) == ([large.topic_id], 2)


def test_two_topics_with_one_id_do_not_break_the_view() -> None:
    """Somebody wrote to the tree by hand."""
    view = ClusterView().with_topics({"one": replace(TOPIC, name="one"), "two": replace(TOPIC, name="two")})
    left = view.with_topics({"one": None})
    assert left.topics_by_id == {UUID(int=7): left.topics["two"]}
    assert left.partition_count == len(TOPIC.partitions)
    assert left.with_topics({"two": None}).topics_by_id == {}


def test_internal_topics_are_known_by_name() -> None:
    assert TopicState("__consumer_offsets", UUID(int=1), ()).is_internal
    assert not TOPIC.is_internal


def test_configs_are_an_object_of_texts() -> None:
    assert decode_configs(encode_configs({"a": "1"})) == {"a": "1"}
    for nonsense in (b"", b"[]", b'{"a": 1}', b"\xff"):
        with pytest.raises(ValueError, match=r".*"):
            decode_configs(nonsense)
