"""What has to be done at the target for a topic of the source. Pure: two descriptions in, a plan out, or `Stopped` with the reason.

    not there                      created, with the source's partitions, and as many replicas as there are brokers for
    a mirror of this very topic    grown, and its options made equal
    anything else                  Stopped: a topic of the target's own, a mirror of another topic, of one that was deleted meanwhile
    the source is a mirror of us   Stopped: the records would go round in circles

Options are those that were set on the source's topic, except what says something of the brokers there (throttled replicas, remote
storage), and `mirror.source` itself. What was set on the target's topic and is not set on the source's is reset. `min.insync.replicas` is
at most the number of replicas.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from millstream.mirror.mirror_source import OPTION, MirrorSource
from millstream.mirror.trouble import Stopped

NOT_COPIED: Final = frozenset(
    {
        OPTION,
        "leader.replication.throttled.replicas",
        "follower.replication.throttled.replicas",
        "remote.storage.enable",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
        "local.retention.ms",
        "local.retention.bytes",
    }
)
"""Options that are about the brokers of one cluster."""
_MIN_IN_SYNC: Final = "min.insync.replicas"


@dataclass(frozen=True)
class SourceTopic:
    """A topic of the source; `options` are those set on it."""

    source: MirrorSource
    partition_count: int
    replica_count: int
    options: Mapping[str, str]


@dataclass(frozen=True)
class TargetTopic:
    """The topic of the same name at the target."""

    topic_id: UUID
    partition_count: int
    replica_count: int
    options: Mapping[str, str]


@dataclass(frozen=True)
class TopicPlan:
    """What to do, in this order; where there is nothing to do, nothing."""

    create_partitions: int = 0
    """The topic has to be created, with so many partitions."""
    replica_count: int = 0
    grow_to: int = 0
    """It has to have so many partitions."""
    options: Mapping[str, str | None] = field(default_factory=dict)
    """Options that have to be set, or reset (None)."""


def plan_topic(source: SourceTopic, target: TargetTopic | None, *, target_cluster: str, broker_count: int) -> TopicPlan:
    """What has to be done at a target of so many brokers; `Stopped` if the topic cannot be mirrored there."""
    _check_no_loop(source, target_cluster)
    if target is None:
        replicas = max(min(source.replica_count, broker_count), 1)
        options: dict[str, str | None] = dict(_copied(source.options, replicas))
        return TopicPlan(create_partitions=source.partition_count, replica_count=replicas, options=options)
    _check_same_source(source.source, target)
    wanted = _copied(source.options, target.replica_count)
    present = {name: value for name, value in target.options.items() if name not in NOT_COPIED}
    changes: dict[str, str | None] = {name: value for name, value in wanted.items() if present.get(name) != value}
    changes |= dict.fromkeys(present.keys() - wanted.keys())
    grow_to = source.partition_count if source.partition_count > target.partition_count else 0
    return TopicPlan(grow_to=grow_to, options=changes)


def _copied(options: Mapping[str, str], replica_count: int) -> dict[str, str]:
    copied = {name: value for name, value in options.items() if name not in NOT_COPIED}
    minimum = copied.get(_MIN_IN_SYNC, "")
    if minimum.isdecimal() and int(minimum) > replica_count:
        copied[_MIN_IN_SYNC] = str(replica_count)
    return copied


def _check_no_loop(source: SourceTopic, target_cluster: str) -> None:
    upstream = MirrorSource.parse(source.options.get(OPTION, ""))
    if upstream is not None and upstream.cluster_id == target_cluster:
        raise Stopped(
            f"a loop: the topic is itself a mirror of {upstream.topic} of the target's cluster; leave it out, or promote it first"
        )


def _check_same_source(source: MirrorSource, target: TargetTopic) -> None:
    text = target.options.get(OPTION, "")
    if text == str(source):
        return
    present = MirrorSource.parse(text)
    if not text:
        raise Stopped(
            "the target has a topic of this name that is not a mirror (it was made there, or promoted); delete or rename it, or leave it "
            "out of --topics"
        )
    if present is None or present.cluster_id != source.cluster_id or present.topic != source.topic:
        raise Stopped(f"the topic of the target is a mirror of {text}, not of {source}")
    if present.topic_id != source.topic_id:
        raise Stopped(
            f"the topic was deleted at the source and created anew (its id was {present.topic_id} and is {source.topic_id}); the target "
            "keeps the records of the old one: promote or delete it there to mirror the new one"
        )
    raise Stopped("the topic is being promoted")
