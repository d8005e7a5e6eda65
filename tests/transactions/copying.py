"""A copy under way: messages that are written all the time, a copier process that is killed, and what source and target have in the end."""

import threading
from typing import Self

from confluent_kafka import Producer

from millstream.client.cluster import Cluster
from millstream.client.errors import ClientError
from millstream.errors import KafkaError
from millstream.offset import LATEST
from millstream.paper.settings import Isolation
from millstream.topic_partition import TopicPartition
from tests.transactions.committed import read_partition
from tests.transactions.copier import transformed
from tests.transactions.killed_process import KilledProcess
from tests.waiting import wait_until

PAUSE_S = 0.05
AT_ONCE = 10
GOES_ON_S = 120.0


class Feed:
    """Writes numbered messages with keys, from a thread, until it is closed."""

    def __init__(self, brokers: str, topic: str) -> None:
        self.count = 0
        self._topic = topic
        self._producer = Producer(
            {"bootstrap.servers": brokers, "enable.idempotence": True, "partitioner": "murmur2_random", "log_level": 0}
        )
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Write no more; what was written is there."""
        self._is_over.set()
        self._thread.join()
        assert self._producer.flush(GOES_ON_S) == 0

    def _write(self) -> None:
        while not self._is_over.wait(PAUSE_S):
            for _ in range(AT_ONCE):
                self._producer.produce(self._topic, b"%d" % self.count, b"key %d" % (self.count % 17))
                self.count += 1


class Copy:
    """What is known of source and target."""

    def __init__(self, brokers: str, source: str, target: str, partitions: int) -> None:
        self._brokers = brokers
        self._partitions = partitions
        self.source = source
        self.target = target

    def written(self) -> int:
        """How much is in the log of the target, aborted messages and markers included; 0 while nobody can say."""
        places = [TopicPartition(self.target, number) for number in range(self._partitions)]
        try:
            with Cluster(self._brokers, timeout_s=5) as cluster:
                return sum(found.offset for found in cluster.offsets(dict.fromkeys(places, LATEST)).values())
        except (ClientError, KafkaError):
            return 0

    def await_progress(self, copier: KilledProcess) -> None:
        """Until something more was written."""
        wait_until(self.written, f"anything is known: {copier.output}", deadline_s=GOES_ON_S)
        before = self.written()
        wait_until(lambda: self.written() > before + 2 * AT_ONCE, f"more than {before}: {copier.output}", deadline_s=GOES_ON_S)

    def check(self, count: int, copier: KilledProcess) -> None:
        """The target is the source, exactly and in order, when all of it was copied."""
        try:
            wait_until(lambda: self._copied() >= count, "all copied", deadline_s=GOES_ON_S)
        except AssertionError as error:
            raise AssertionError(f"{self._copied()} of {count} copied: {copier.output}") from error
        for partition in range(self._partitions):
            expected = [transformed(value) for value in self.read(self.source, partition)]
            assert self.read(self.target, partition) == expected, f"partition {partition}, {copier.output}"

    def aborted(self) -> int:
        """How many messages of the target are for nobody."""
        return sum(
            len(self.read(self.target, partition, isolation="read_uncommitted")) - len(self.read(self.target, partition))
            for partition in range(self._partitions)
        )

    def read(self, topic: str, partition: int, *, isolation: Isolation = "read_committed") -> list[bytes]:
        """All messages of a partition."""
        return [message.payload or b"" for message in read_partition(self._brokers, topic, partition, isolation=isolation)]

    def _copied(self) -> int:
        return sum(len(self.read(self.target, partition)) for partition in range(self._partitions))
