"""Converts topics of older releases (`coordination.old_layout`), once: a controller does it when it is elected.

`/brokers/topics` holds the number of the layout when all topics below it have been looked at. Partitions are written before the topic's own
znode, whose version is part of the write: until that moment the topic is in the old layout, and what a controller left half done is written
again by the next one.
"""

import asyncio
import logging
from typing import Final

from millstream.cluster.controller.metadata_writer import MetadataWriter, chunks_of
from millstream.coordination import paths
from millstream.coordination.interface import Check, Coordination, Create, Delete, SetData
from millstream.coordination.old_layout import decode_old_topic, is_in_old_layout
from millstream.coordination.partition_state import PartitionState
from millstream.coordination.topic_header import TopicHeader
from millstream.zookeeper.errors import BadVersion, NodeExists, NoNode

logger = logging.getLogger(__name__)

LAYOUT: Final = b"2"
AT_ONCE: Final = 100


async def has_old_topics(coordination: Coordination) -> bool:
    """Whether there may be topics in the old layout."""
    data, _ = await coordination.get(paths.TOPICS)
    return data != LAYOUT and bool(await coordination.children(paths.TOPICS))


async def convert_layout(coordination: Coordination, writer: MetadataWriter) -> None:
    """Convert all topics that are in the old layout; NotController if there is another controller by now."""
    data, stat = await coordination.get(paths.TOPICS)
    if data == LAYOUT:
        return
    names = await coordination.children(paths.TOPICS)
    is_complete = True
    for start in range(0, len(names), AT_ONCE):
        is_complete &= all(await asyncio.gather(*(_convert(coordination, writer, name) for name in names[start : start + AT_ONCE])))
    if is_complete:
        await writer.write([SetData(paths.TOPICS, LAYOUT, stat.version)])


async def _convert(coordination: Coordination, writer: MetadataWriter, name: str) -> bool:
    """Whether the topic needs no conversion any more."""
    data, stat = await coordination.get(paths.topic(name))
    if not is_in_old_layout(data):
        return True
    try:
        header, partitions = decode_old_topic(name, data)
    except ValueError as error:
        logger.error("the topic %s of an older release cannot be converted, and is left alone: %s", paths.topic(name), error)
        return False
    try:
        await _clear(coordination, writer, name)
        await _write(writer, name, partitions, header, version=stat.version)
    except (BadVersion, NoNode, NodeExists) as error:
        logger.warning("topic %s was changed while it was converted: %r", name, error)
        return False
    return True


async def _clear(coordination: Coordination, writer: MetadataWriter, name: str) -> None:
    """Remove what was left of a conversion that was not finished."""
    try:
        children = await coordination.children(paths.partitions(name))
    except NoNode:
        return
    for chunk in chunks_of([*(Delete(f"{paths.partitions(name)}/{child}") for child in children), Delete(paths.partitions(name))]):
        await writer.write(chunk)


async def _write(writer: MetadataWriter, name: str, partitions: tuple[PartitionState, ...], header: TopicHeader, *, version: int) -> None:
    creations = [Create(paths.partition(name, number), state.encode()) for number, state in enumerate(partitions)]
    chunks = list(chunks_of([Create(paths.partitions(name)), *creations], room=len(header.encode())))
    for chunk in chunks[:-1]:
        await writer.write([Check(paths.topic(name), version), *chunk])
    await writer.write([*chunks[-1], SetData(paths.topic(name), header.encode(), version)], [(name, None)])
