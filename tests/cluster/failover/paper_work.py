"""The paper's client at work: its groups are in ZooKeeper, so no broker coordinates them."""

from millstream.paper.consumer import Consumer
from millstream.paper.producer import Producer
from tests.cluster.failover.worker import ThreadWorker


class PaperProducer(ThreadWorker):
    """It says what was not written, and nothing about what was, nor where: so it flushes, and each partition counts as reached."""

    is_producer = True

    def __init__(self, name: str, topic: str, bootstrap_servers: str) -> None:
        super().__init__(name, topic)
        self._bootstrap_servers = bootstrap_servers

    def work(self) -> None:
        number = 0
        with Producer(self._bootstrap_servers) as producer:
            while self.is_wanted:
                producer.send(self.topic, [b"%d" % each for each in range(number, number + 3)])
                producer.flush()
                for each in range(number, number + 3):
                    self.noted(each % 3, -1, each)
                number += 3
                self.pause()


class PaperConsumer(ThreadWorker):
    """One stream of a group."""

    is_producer = False

    def __init__(self, name: str, topic: str, zookeeper: str, *, group: str) -> None:
        super().__init__(name, topic)
        self._zookeeper, self._group = zookeeper, group
        self._consumer: Consumer | None = None

    def end(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
        super().end()

    def work(self) -> None:
        self._consumer = Consumer(self._zookeeper, self._group)
        [stream] = self._consumer.create_message_streams(self.topic)
        for message in stream:
            assert message.payload is not None
            self.noted(message.partition, message.offset, int(message.payload))
