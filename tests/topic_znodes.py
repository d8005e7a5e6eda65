"""Topics written to a tree of znodes, as a controller writes them."""

from millstream.coordination import paths
from millstream.coordination.change_log import ChangeLog
from millstream.coordination.cluster_view import TopicState
from millstream.coordination.interface import Coordination, Create, Delete, Operation, SetData

Touched = tuple[str, tuple[int, ...] | None]


def topic_creations(topic: TopicState) -> list[Operation]:
    """The znodes of a topic."""
    states = enumerate(topic.partitions)
    parents = [Create(paths.topic(topic.name), topic.header.encode()), Create(paths.partitions(topic.name))]
    return [*parents, *(Create(paths.partition(topic.name, number), state.encode()) for number, state in states)]


async def create_topic(coordination: Coordination, topic: TopicState) -> None:
    """Write a topic, and that it is new."""
    await change(coordination, topic_creations(topic), (topic.name, None))


async def delete_topic(coordination: Coordination, name: str) -> None:
    """Remove a topic and its partitions."""
    parent = paths.partitions(name)
    children = [Delete(f"{parent}/{child}") for child in await coordination.children(parent)]
    await change(coordination, [*children, Delete(parent), Delete(paths.topic(name))], (name, None))


async def set_header(coordination: Coordination, name: str, data: bytes) -> None:
    """Replace what the topic's own znode says."""
    await change(coordination, [SetData(paths.topic(name), data)], (name, None))


async def set_partition(coordination: Coordination, name: str, number: int, data: bytes) -> None:
    """Replace the state of a partition."""
    await change(coordination, [SetData(paths.partition(name, number), data)], (name, (number,)))


async def change(coordination: Coordination, operations: list[Operation], *touched: Touched) -> None:
    """Write, and say what was written."""
    changes = ChangeLog.decode((await coordination.get(paths.CHANGES))[0]).with_changes(touched)
    await coordination.multi([*operations, SetData(paths.CHANGES, changes.encode())])
