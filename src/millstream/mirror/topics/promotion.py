"""Promotion: mirrored topics of the target become ordinary ones that clients write to.

1. `mirror.source` says that the topic is being promoted: no mirror appends to it any more, and clients do not write yet.
2. The leader of each partition aborts the transactions that are open there, and sets aside the producer ids of the source: else the last
   stable offset would never move again, and a producer with a reused id would have its records dropped as repeats.
3. The option is removed: the topic is writable.

Each step may be repeated: whoever is interrupted promotes again. Records that the source has beyond the ends are not copied any more.
"""

import asyncio
from collections.abc import Mapping
from time import monotonic
from typing import Final, NamedTuple

from millstream.client.codecs.metadata import TopicMetadata
from millstream.client.codecs.mirror_append import MirrorAppend
from millstream.client.errors import kafka_error
from millstream.client.retry import may_pass
from millstream.errors import CommandFailed, MillstreamError, PolicyViolation
from millstream.mirror.clusters.side import Side
from millstream.mirror.clusters.topic_admin import options_of, set_options
from millstream.mirror.mirror_source import OPTION, MirrorSource
from millstream.topic_partition import TopicPartition
from millstream.wire.mirror_append import MirrorPartition, MirrorTopic

TIMEOUT_S: Final = 30.0
_PAUSE_S: Final = 0.2
_ANY_END: Final = -1


class Promoted(NamedTuple):
    """A partition that clients may write to."""

    topic: str
    partition: int
    log_end_offset: int
    """The offset that the first new record gets."""
    source: str
    """The cluster that it was a mirror of."""


async def mirrored_topics(target: Side) -> dict[str, MirrorSource]:
    """The topics of a cluster that are mirrors, or half promoted."""
    names = (await target.refresh()).topics
    options = await options_of(target, names)
    found = {name: MirrorSource.parse(own.get(OPTION, "")) for name, own in options.items()}
    return {name: source for name, source in sorted(found.items()) if source is not None}


async def promote(target: Side, topics: Mapping[str, MirrorSource]) -> list[Promoted]:
    """Promote these topics; `CommandFailed` names the one that cannot be for now, those before it are promoted."""
    promoted = []
    for name, source in topics.items():
        try:
            promoted += await _promote(target, name, source)
        except MillstreamError as error:
            raise CommandFailed(f"the topic {name} is not promoted yet: {error}; promote it again") from None
    return promoted


async def _promote(target: Side, name: str, source: MirrorSource) -> list[Promoted]:
    await _change(target, name, source.promoting)
    topic = target.metadata.topics[name]
    ends = await asyncio.gather(*(_end(target, topic, index, source) for index in sorted(topic.partitions)))
    await _change(target, name, None)
    return [Promoted(name, index, end, source.cluster_id) for index, end in zip(sorted(topic.partitions), ends, strict=True)]


async def _change(target: Side, name: str, value: str | None) -> None:
    refused = await set_options(target, name, {OPTION: value})
    if refused:
        raise CommandFailed(f"{OPTION} cannot be changed: {refused[OPTION]}")


async def _end(target: Side, topic: TopicMetadata, index: int, source: MirrorSource) -> int:
    """Let the leader of a partition end the mirroring; where its log ends then."""
    assert topic.topic_id is not None
    partition = TopicPartition(topic.name, index)
    wanted = MirrorPartition(index, _ANY_END, memoryview(b""))
    request = MirrorAppend([MirrorTopic(topic.topic_id.bytes, source.promoting, [wanted])], is_last=True)
    deadline = monotonic() + TIMEOUT_S
    while True:
        try:
            [answered] = await target.ask_leader(partition, request)
            [answer] = answered.partitions
            if not answer.error_code:
                return answer.log_end_offset
            raise kafka_error(answer.error_code, answer.error_message or "")
        except MillstreamError as error:
            # The brokers learn of the changed option one after the other.
            if monotonic() > deadline or not (may_pass(error) or isinstance(error, PolicyViolation)):
                raise
        await asyncio.sleep(_PAUSE_S)
        await target.refresh()
