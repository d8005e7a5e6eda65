"""A topic that is mirrored, and the partitions of it that this process copies."""

from dataclasses import dataclass, field
from uuid import UUID

from millstream.mirror.copying.partition_copy import PartitionCopy
from millstream.mirror.mirror_source import MirrorSource


@dataclass
class MirroredTopic:
    """What readers and writers need to know of a topic."""

    source: MirrorSource
    target_id: UUID
    is_compacted: bool
    copies: dict[int, PartitionCopy] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Its name, at both sides."""
        return self.source.topic
