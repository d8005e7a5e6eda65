"""`millstream serve --processes N`, its children, and clients that remember what was acknowledged."""

import os
import signal
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import confluent_kafka
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.brokers import MillstreamBroker, Options
from tests.connection import METADATA
from tests.ports import free_port
from tests.topics import fresh_name
from tests.waiting import wait_until


class ProcessesBroker(MillstreamBroker):
    """The parent of several brokers; with `processes` 0 it is a broker that is alone."""

    def __init__(self, directory: Path, options: Options | None = None, *, processes: int = 2) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        super().__init__(directory, {"offsets.topic.num.partitions": 4, **(options or {})})
        self.processes = processes
        self.paths = [self.data]

    @property
    def data_directories(self) -> list[Path]:
        return self.paths

    def command(self) -> list[str]:
        command = super().command()
        if self.processes:
            at = command.index("--node-id")
            command[at : at + 2] = ["--processes", str(self.processes)]
        return command

    @property
    def ready_line(self) -> dict[str, str]:
        """The pairs of the ready line."""
        words = self.stdout.read_text().removeprefix("ready:").split()
        return dict(zip(words[::2], words[1::2], strict=True))

    def children(self) -> dict[int, int]:
        """The process of each broker that runs, by its number."""
        found = {}
        for pid in Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split():
            try:
                port = _listening_port(int(pid), self.ready_line)
            except OSError:
                continue
            if port is not None:
                found[port] = int(pid)
        return found

    def kill_child(self, number: int) -> int:
        """The end of one of the brokers without warning; returns which process it was."""

        def kill() -> int:
            pid = self.children().get(number, 0)
            try:
                if pid:
                    os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                return 0
            return pid

        return wait_until(kill, f"a process of broker {number}", deadline_s=60)

    def await_restart(self, number: int, *, killed: int) -> None:
        """Wait until the broker runs in another process than the one that was killed."""
        wait_until(lambda: self.children().get(number, killed) != killed, f"broker {number} is started again", deadline_s=60)

    def create_topic(self, *, partitions: int) -> str:
        """A topic whose partitions are led, by whichever brokers."""
        name = fresh_name()
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers})
        admin.create_topics([NewTopic(name, partitions)])[name].result(60)
        wait_until(lambda: len(leaders := self.leaders(name)) == partitions and -1 not in leaders.values(), f"leaders of {name}")
        return name

    def begin_writing(self, count: int, *, partitions: int) -> "Writing":
        """A topic of its own, and so many messages that are on their way into it."""
        writing = Writing(self.bootstrap_servers, self.create_topic(partitions=partitions), partitions=partitions)
        writing.write(count)
        return writing

    def await_leaders(self, topic: str, expected: set[int]) -> None:
        """Wait until these brokers lead the partitions of a topic."""
        wait_until(lambda: set(self.leaders(topic).values()) == expected, f"{topic} is led by {expected}")

    def leaders(self, topic: str) -> dict[int, int]:
        """Which broker leads each partition."""
        with self.connect() as connection:
            [answer] = connection.ask(METADATA, 12, {"topics": [{"name": topic}]}).topics
            return {partition.partition_index: partition.leader_id for partition in answer.partitions}

    def refusal(self) -> str:
        """The last line of a start that is refused: one sentence, no traceback."""
        self.launch()
        code = self.wait()
        assert code in (1, 2), self.output
        assert "Traceback" not in self.output
        return self.output.splitlines()[-1]


def _listening_port(pid: int, places: dict[str, str]) -> int | None:
    """The number of the broker whose own port the process listens on."""
    inodes = {os.readlink(link)[8:-1] for link in Path(f"/proc/{pid}/fd").iterdir() if os.readlink(link).startswith("socket:[")}
    listening = set()
    for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and fields[9] in inodes:
            listening.add(int(fields[1].rpartition(":")[2], 16))
    own = {int(address.rpartition(":")[2]): int(name[7:]) for name, address in places.items() if name.startswith("broker-")}
    return next((number for port, number in own.items() if port in listening), None)


def free_ports(count: int) -> int:
    """The first of so many ports in a row that are free at the moment."""
    for _ in range(1000):
        first = free_port()
        with ExitStack() as probes, suppress(OSError):
            for port in range(first, first + count):
                probes.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return first
    raise AssertionError(f"there are no {count} free ports in a row")


class Writing:
    """An idempotent producer that writes numbers to all partitions of a topic, and what of them was acknowledged."""

    def __init__(self, bootstrap_servers: str, topic: str, *, partitions: int) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "enable.idempotence": True,
                "log_level": 0,
                "linger.ms": 2,
                "message.timeout.ms": 120_000,
            }
        )
        self._bootstrap_servers = bootstrap_servers
        self.topic = topic
        self._partitions = partitions
        self.sent = 0
        self.acknowledged: set[int] = set()
        self.failures: list[str] = []

    def write(self, count: int) -> None:
        """So many more; those that were sent before may be acknowledged meanwhile."""
        for _ in range(count):
            number = self.sent
            self.sent += 1
            self._producer.produce(
                self.topic,
                str(number),
                partition=number % self._partitions,
                on_delivery=lambda *answer, number=number: self._note(number, *answer),
            )
            self._producer.poll(0)

    def await_first(self) -> None:
        """Write on until something is acknowledged."""

        def has_first() -> bool:
            self.write(10)
            return bool(self.acknowledged)

        wait_until(has_first, "the first acknowledgement")

    def finish(self) -> None:
        """Wait until all are acknowledged."""
        assert self._producer.flush(120) == 0
        assert not self.failures, self.failures[:3]
        assert len(self.acknowledged) == self.sent

    def check(self) -> None:
        """Everything is in the topic, and once."""
        found = read_numbers(self._bootstrap_servers, self.topic, partitions=self._partitions)
        assert found == Counter(range(self.sent))

    def _note(self, number: int, error: confluent_kafka.KafkaError | None, _message: object) -> None:
        if error is None:
            self.acknowledged.add(number)
        else:
            self.failures.append(str(error))


def read_numbers(bootstrap_servers: str, topic: str, *, partitions: int) -> Counter[int]:
    """All numbers in the topic, with how often each is there."""
    with _consumer(bootstrap_servers) as consumer:
        ends = {}
        for partition in range(partitions):
            _, ends[partition] = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=60)
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
        found: Counter[int] = Counter()

        def has_all() -> bool:
            for message in consumer.consume(10_000, timeout=0.2):
                assert message.error() is None
                found[int(message.value() or b"")] += 1
            return sum(found.values()) >= sum(ends.values())

        wait_until(has_all, f"all of {topic}", deadline_s=120)
    return found


@contextmanager
def _consumer(bootstrap_servers: str) -> Iterator[Consumer]:
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "none", "log_level": 0, "enable.auto.commit": False})
    try:
        yield consumer
    finally:
        consumer.close()
