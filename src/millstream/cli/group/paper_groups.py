"""The paper's groups, which live in ZooKeeper and not in the brokers: read, moved and deleted there (`coordination.paths`).

ZooKeeper is the one that is named (`--zookeeper`), or the one that `millstream serve` has on this machine; whether it belongs to the
cluster that is asked is known by the cluster's id, which both hold. Nothing is created there but offsets that are asked
for (and the path behind the address, if there is none).

Writing an offset changes its version, so an owner notices with its next commit and goes on from there: a group can be moved while it runs.
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import typer

from millstream.address import parse_listen_address
from millstream.errors import CommandFailed, StartupError, UsageError
from millstream.topic_partition import TopicPartition

if TYPE_CHECKING:
    from millstream.coordination.interface import Coordination

T = TypeVar("T")

Zookeeper = Annotated[
    str | None,
    typer.Option(
        "--zookeeper",
        metavar="HOST:PORT[,...]",
        envvar="MILLSTREAM_ZOOKEEPER",
        help="Where the groups of the paper's consumers are.",
        show_default="127.0.0.1:2181, if it belongs to these brokers",
    ),
]
USUAL: Final = ("127.0.0.1", 2181)
LOOK_S: Final = 0.3
CONNECT_MS: Final = 5_000
LOOPBACK: Final = ("127.", "localhost", "[::1]", "::1")


@dataclass(frozen=True)
class PaperGroup:
    """A group as its znodes say it is."""

    name: str
    members: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """The streams of each consumer, by topic."""
    owners: Mapping[TopicPartition, str] = field(default_factory=dict)
    committed: Mapping[TopicPartition, int] = field(default_factory=dict)

    @property
    def topics(self) -> set[str]:
        """What it reads, or has read."""
        return {place.topic for place in self.committed} | {topic for topics in self.members.values() for topic in topics}

    @property
    def state(self) -> str:
        """In the words that Kafka's groups have."""
        return "stable" if self.members else "empty"


class PaperGroups:
    """The groups in one ZooKeeper."""

    def __init__(self, address: str) -> None:
        self.address = address

    def read(self, names: Iterable[str] | None = None) -> dict[str, PaperGroup]:
        """Some groups, as far as they exist, or all."""
        return self._run(lambda tree: _read(tree, names))

    def move(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Write offsets, whoever owns the partitions."""
        self._run(lambda tree: _move(tree, group, offsets))

    def delete(self, group: str) -> None:
        """Delete everything of a group that has no members."""
        self._run(lambda tree: _delete(tree, group))

    def cluster_id(self) -> str | None:
        """The id of the cluster that keeps its znodes there."""
        return self._run(_cluster_id)

    def _run(self, work: "Callable[[Coordination], Awaitable[T]]") -> T:
        from millstream.coordination.ensemble.kazoo_adapter import KazooCoordination
        from millstream.zookeeper.errors import ZooKeeperError

        async def run() -> T:
            coordination = await KazooCoordination.connect(self.address, connect_timeout_ms=CONNECT_MS)
            try:
                return await work(coordination)
            finally:
                await coordination.close()

        try:
            with _quiet():
                return asyncio.run(run())
        except StartupError as error:
            what = f"What listens at {self.address} did not answer as ZooKeeper within {CONNECT_MS // 1000} s"
            raise CommandFailed(f"{what}: is it ZooKeeper, and is it well?") from error
        except ZooKeeperError as error:
            raise CommandFailed(f"ZooKeeper at {self.address} refused: {error}.") from error
        except ValueError as error:
            raise UsageError(f"--zookeeper {self.address} is no address: give HOST:PORT, several with commas, then a /path.") from error


def find_paper_groups(zookeeper: str | None, *, brokers: str, cluster_id: str | None) -> PaperGroups | None:
    """Where the paper's groups of a cluster are; None if that was not said and is not to be found at the usual place."""
    if zookeeper is None and not _is_someone_there(brokers):
        return None
    found = PaperGroups(zookeeper if zookeeper is not None else f"{USUAL[0]}:{USUAL[1]}")
    if zookeeper is None:
        try:
            return found if found.cluster_id() == cluster_id else None
        except CommandFailed:
            return None
    _check_reachable(zookeeper)
    theirs = found.cluster_id()
    if theirs is None or cluster_id is None or theirs == cluster_id:
        return found
    raise CommandFailed(f"ZooKeeper at {zookeeper} belongs to the cluster {theirs}, and the brokers at {brokers} to {cluster_id}.")


@contextmanager
def _quiet() -> Iterator[None]:
    """What the session says while it waits is for logs; here there is one sentence, at the end."""
    logger = logging.getLogger("millstream.coordination")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def _check_reachable(zookeeper: str) -> None:
    """Say at once that no server is there, which a session would try to reach for seconds."""
    reasons = []
    for server in zookeeper.partition("/")[0].split(","):
        try:
            host, port = parse_listen_address(server, "--zookeeper")
            with socket.create_connection((host, port), timeout=CONNECT_MS / 1000):
                return
        except OSError as error:
            reasons.append(f"{server.strip()}: {error.strerror or error}")
    raise CommandFailed(f"No ZooKeeper answers at {zookeeper} ({'; '.join(reasons)}): is it running, and is the address right?")


def _is_someone_there(brokers: str) -> bool:
    """Whether something listens where `millstream serve` has its coordination, if the brokers are on this machine."""
    if not brokers.startswith(LOOPBACK):
        return False
    try:
        with socket.create_connection(USUAL, timeout=LOOK_S):
            return True
    except OSError:
        return False


async def _cluster_id(tree: "Coordination") -> str | None:
    from millstream.coordination import paths
    from millstream.zookeeper.errors import NoNode

    try:
        data, _ = await tree.get(paths.CLUSTER_ID)
    except NoNode:
        return None
    return data.decode(errors="replace").strip() or None


async def _read(tree: "Coordination", names: Iterable[str] | None) -> dict[str, PaperGroup]:
    from millstream.coordination import paths

    existing = await _children(tree, paths.CONSUMERS)
    wanted = sorted(existing if names is None else set(names) & set(existing))
    return {name: await _read_group(tree, name) for name in wanted}


async def _read_group(tree: "Coordination", name: str) -> PaperGroup:
    from millstream.coordination import paths
    from millstream.paper.groups.assignment import read_subscription
    from millstream.paper.groups.group_registry import read_offset

    ids = await _children(tree, paths.consumer_ids(name))
    registered = await asyncio.gather(*(_get(tree, paths.consumer(name, each)) for each in ids))
    subscriptions = {each: read_subscription(data) for each, data in zip(ids, registered, strict=True) if data is not None}
    owners = await _leaves(tree, f"{paths.CONSUMERS}/{name}/owners")
    offsets = {place: read_offset(data) for place, data in (await _leaves(tree, f"{paths.CONSUMERS}/{name}/offsets")).items()}
    return PaperGroup(
        name,
        members={each: {} if found is None else found.topics for each, found in subscriptions.items()},
        owners={place: data.decode(errors="replace") for place, data in owners.items()},
        committed={place: offset for place, offset in offsets.items() if offset is not None},
    )


async def _leaves(tree: "Coordination", path: str) -> dict[TopicPartition, bytes]:
    """What stands below `path/TOPIC/PARTITION`."""
    topics = await _children(tree, path)
    partitions = await asyncio.gather(*(_children(tree, f"{path}/{topic}") for topic in topics))
    places = [
        TopicPartition(topic, int(number))
        for topic, numbers in zip(topics, partitions, strict=True)
        for number in numbers
        if number.isascii() and number.isdigit()
    ]
    found = await asyncio.gather(*(_get(tree, f"{path}/{place.topic}/{place.partition}") for place in places))
    return {place: data for place, data in zip(places, found, strict=True) if data is not None}


async def _children(tree: "Coordination", path: str) -> list[str]:
    from millstream.zookeeper.errors import NoNode

    try:
        return await tree.children(path)
    except NoNode:
        return []


async def _get(tree: "Coordination", path: str) -> bytes | None:
    from millstream.zookeeper.errors import NoNode

    try:
        return (await tree.get(path))[0]
    except NoNode:
        return None


async def _move(tree: "Coordination", group: str, offsets: Mapping[TopicPartition, int]) -> None:
    from millstream.coordination import paths
    from millstream.zookeeper.errors import NodeExists, NoNode

    for place, offset in offsets.items():
        path, data = paths.committed_offset(group, topic_name=place.topic, partition=place.partition), str(offset).encode()
        try:
            await tree.set(path, data)
        except NoNode:
            try:
                await tree.create(path, data, make_parents=True)
            except NodeExists:  # a consumer was quicker
                await tree.set(path, data)


async def _delete(tree: "Coordination", group: str) -> None:
    from millstream.coordination import paths

    if await _children(tree, paths.consumer_ids(group)):
        raise CommandFailed(f"The group {group!r} has members by now: stop them first.")
    await _delete_below(tree, f"{paths.CONSUMERS}/{group}")


async def _delete_below(tree: "Coordination", path: str) -> None:
    for name in await _children(tree, path):
        await _delete_below(tree, f"{path}/{name}")
    await tree.delete(path)
