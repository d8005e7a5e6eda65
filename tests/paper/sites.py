"""Where the claims on distributed coordination are shown: a broker with its embedded coordination, and one on a real ZooKeeper."""

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from millstream.client.errors import ClientError
from millstream.paper.consumer import Consumer
from millstream.paper.message import ConsumedMessage, Message
from millstream.paper.producer import Producer
from millstream.paper.settings import ConsumerSettings
from millstream.paper.stream import MessageStream
from tests.brokers import IS_KAFKA, MillstreamBroker
from tests.cluster.server_process import ServerProcess, missing_zookeeper
from tests.paper.znode_history import Event, embedded_history, zookeeper_history
from tests.topics import create_topic, fresh_name
from tests.waiting import wait_until
from tests.zookeeper_broker import ZooKeeperBroker

SESSION_S = 6.0


class Site:
    """A broker, where its znodes are, and consumers that end with the test."""

    def __init__(self, broker: MillstreamBroker) -> None:
        self.broker = broker
        self.tree = KazooClient(hosts=broker.coordination)
        self.tree.start(timeout=20)
        self._consumers: list[Consumer] = []

    @property
    def coordination(self) -> str:
        """What consumers connect to."""
        return self.broker.coordination

    def topic(self, partitions: int = 1) -> str:
        return create_topic(self.broker, partitions=partitions)

    def send(self, topic: str, count: int, *, start: int = 0, partitions: int = 1) -> None:
        """Numbers as payloads, in order within each key, the keys spread over the partitions."""
        with Producer(self.broker.bootstrap_servers) as producer:
            keys = [f"key-{number % (partitions * 4)}" for number in range(start, start + count)]
            producer.send(topic, [Message(b"%d" % number, key) for number, key in enumerate(keys, start)])

    def consumer(self, group: str, *, consumer_id: str | None = None, settings: ConsumerSettings | None = None) -> Consumer:
        chosen = settings or ConsumerSettings(auto_commit_interval_s=0.1, session_timeout_s=SESSION_S)
        made = Consumer(self.coordination, group, consumer_id=consumer_id, **vars(chosen))
        self._consumers.append(made)
        return made

    def reader(self, group: str, topic: str, *, streams: int = 1, consumer_id: str | None = None) -> "Reader":
        return Reader(self.consumer(group, consumer_id=consumer_id), topic, streams=streams)

    def owners(self, group: str, topic: str) -> dict[int, str]:
        """What the ownership registry says."""
        path = f"/consumers/{group}/owners/{topic}"
        owners = {}
        for partition in self.tree.get_children(path) if self.tree.exists(path) else []:
            with suppress(Exception):  # it may go between the two questions
                owners[int(partition)] = self.tree.get(f"{path}/{partition}")[0].decode()
        return owners

    def offsets(self, group: str, topic: str) -> dict[int, int]:
        """What the offset registry says."""
        path = f"/consumers/{group}/offsets/{topic}"
        return {int(partition): int(self.tree.get(f"{path}/{partition}")[0]) for partition in self.tree.get_children(path)}

    def history(self) -> Iterator[list[Event]]:
        """Every transaction of the tree, from the disk."""
        _, slash, path = self.coordination.partition("/")
        if not slash:
            return embedded_history(self.broker.data / "coordination")
        return zookeeper_history(self.broker.directory.parent / "data", f"/{path}")

    def close_consumers(self) -> None:
        for consumer in self._consumers:
            consumer.close()
        self._consumers.clear()

    def close(self) -> None:
        self.tree.stop()
        self.tree.close()


class Reader:
    """A consumer with one thread per stream, each of which notes what it gets."""

    def __init__(self, consumer: Consumer, topic: str, *, streams: int = 1) -> None:
        self.consumer = consumer
        self.streams = consumer.create_message_streams({topic: streams})
        self.got: list[ConsumedMessage] = []
        self.by_stream: dict[int, list[ConsumedMessage]] = defaultdict(list)
        self._threads = [
            threading.Thread(target=self._read, args=(number, stream), daemon=True) for number, stream in enumerate(self.streams)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def numbers(self) -> list[int]:
        """The payloads, in the order in which they came."""
        return [int(message.payload or b"") for message in list(self.got)]

    @property
    def partitions(self) -> list[int]:
        return sorted(partition for stream in self.streams for partition in stream.partitions)

    def close(self) -> None:
        self.consumer.close()
        for thread in self._threads:
            thread.join(10)
            assert not thread.is_alive()

    def _read(self, number: int, stream: MessageStream) -> None:
        with suppress(ClientError):
            for message in stream:
                self.got.append(message)
                self.by_stream[number].append(message)


def wait_for_all(count: int, *readers: Reader) -> list[int]:
    """Every number below `count`, however the readers share them; returns all they got, sorted."""

    def all_numbers() -> list[int]:
        return sorted(number for reader in readers for number in reader.numbers)

    wait_until(lambda: set(all_numbers()) >= set(range(count)), f"{count} messages at {len(readers)} consumers", deadline_s=60)
    return all_numbers()


def fresh_group() -> str:
    return fresh_name("group")


def start_site(kind: str, directory: Path) -> Iterator[Site]:
    """A broker of the kind `embedded` or `zookeeper`, with all that belongs to it."""
    if IS_KAFKA:
        pytest.skip("Apache Kafka 4 knows no ZooKeeper")
    zookeeper = None
    broker: MillstreamBroker
    directory.mkdir(parents=True, exist_ok=True)
    if kind == "zookeeper":
        reason = missing_zookeeper()
        if reason is not None:
            pytest.skip(reason)
        zookeeper = ServerProcess("zookeeper", directory)
        zookeeper.start()
        broker = ZooKeeperBroker(directory / "broker", zookeeper.address)
    else:
        broker = MillstreamBroker(directory, {})
    broker.start()
    site = Site(broker)
    yield site
    site.close_consumers()
    site.close()
    broker.kill()
    if zookeeper is not None:
        zookeeper.kill()


KINDS = ["embedded", "zookeeper"]


@pytest.fixture(scope="module", params=KINDS)
def shared_site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One of each kind for all tests that do not disturb it."""
    yield from start_site(request.param, tmp_path_factory.mktemp(request.param))


@pytest.fixture
def site(shared_site: Site) -> Iterator[Site]:
    """The shared site; consumers end with the test."""
    yield shared_site
    shared_site.close_consumers()


@pytest.fixture(params=KINDS)
def own_site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    """A site that the test may disturb."""
    yield from start_site(request.param, tmp_path / "site")
