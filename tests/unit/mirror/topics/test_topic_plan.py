from uuid import UUID

import pytest

from millstream.mirror.mirror_source import OPTION, MirrorSource
from millstream.mirror.topics.topic_plan import SourceTopic, TargetTopic, TopicPlan, plan_topic
from millstream.mirror.trouble import Stopped

SOURCE = MirrorSource("live", UUID(int=1), "orders")


def source(*, partitions: int = 3, replicas: int = 3, **options: str) -> SourceTopic:
    return SourceTopic(SOURCE, partitions, replicas, named(options))


def target(mirror_source: str = str(SOURCE), *, partitions: int = 3, replicas: int = 1, **options: str) -> TargetTopic:
    return TargetTopic(UUID(int=9), partitions, replicas, named(options) | ({OPTION: mirror_source} if mirror_source else {}))


def named(options: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "."): value for name, value in options.items()}


def plan(one: SourceTopic, other: TargetTopic | None, *, brokers: int = 2) -> TopicPlan:
    return plan_topic(one, other, target_cluster="offline", broker_count=brokers)


def test_a_missing_topic_is_created_with_its_partitions_and_as_many_replicas_as_there_are_brokers_for() -> None:
    made = plan(source(retention_ms="5", min_insync_replicas="3", remote_storage_enable="true"), None)
    assert made == TopicPlan(3, 2, 0, {"retention.ms": "5", "min.insync.replicas": "2"})


def test_a_mirror_is_grown_and_its_options_follow() -> None:
    made = plan(source(partitions=5, retention_ms="5", cleanup_policy="compact"), target(retention_ms="4", flush_ms="9"))
    assert made == TopicPlan(0, 0, 5, {"retention.ms": "5", "cleanup.policy": "compact", "flush.ms": None})
    assert plan(source(retention_ms="5"), target(retention_ms="5")) == TopicPlan()


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (target(""), "not a mirror"),
        (target("east/00000000-0000-0000-0000-000000000001/orders"), "a mirror of east/"),
        (target(str(MirrorSource("live", UUID(int=2), "orders"))), "created anew"),
        (target(str(MirrorSource("live", UUID(int=1), "clicks"))), "a mirror of live/"),
        (target("something that a person wrote"), "a mirror of something"),
        (target(SOURCE.promoting), "being promoted"),
    ],
)
def test_what_is_not_a_mirror_of_this_very_topic_is_left_alone(other: TargetTopic, reason: str) -> None:
    with pytest.raises(Stopped, match=reason):
        plan(source(), other)


def test_loops_are_refused_and_chains_are_not() -> None:
    with pytest.raises(Stopped, match="a loop"):
        plan(source(mirror_source=str(MirrorSource("offline", UUID(int=5), "orders"))), None)
    chained = plan(source(mirror_source=str(MirrorSource("east", UUID(int=5), "orders"))), None)
    assert (chained.create_partitions, chained.options) == (3, {})
