"""Which offsets of a consumer group are copied to the target, where offsets mean the same. Pure.

Only forward, and never past the end of what is copied: a group that changes over to the target reads a few records again, and skips none.
"""

from collections.abc import Iterable, Mapping

from millstream.mirror.group_names import OWN_PREFIX
from millstream.topic_partition import TopicPartition

Offsets = Mapping[TopicPartition, int]


def offsets_to_copy(source: Offsets, target: Offsets, *, ends: Offsets) -> dict[TopicPartition, int]:
    """What to commit at the target: `source` and `target` are what is committed there, `ends` where the copies end."""
    wanted = {partition: min(offset, ends[partition]) for partition, offset in source.items() if partition in ends and offset >= 0}
    return {partition: offset for partition, offset in wanted.items() if offset > target.get(partition, -1)}


def groups_to_copy(groups: Iterable[str]) -> list[str]:
    """The groups of applications: not those of mirrors."""
    return sorted(group for group in groups if not group.startswith(OWN_PREFIX))
