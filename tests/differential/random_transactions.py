"""Random transactional producers at the wire: what they send depends on a seed and on what they were answered, and on nothing else."""

import random
from dataclasses import dataclass, field

from tests.connection import DELETE_RECORDS
from tests.transactional_wire import IMPLICIT, Conversation, Granted, Sent

PARTITIONS = 2
OLD_END, NEW_END = 4, 5
VERSIONS = (9, 11, 12)


@dataclass
class RandomProducer:
    """One transactional id, in one of the protocol's ages; what it believes of its transaction."""

    name: str
    version: int
    granted: Granted
    added: set[int] = field(default_factory=set)
    sequences: dict[int, int] = field(default_factory=dict)
    is_open: bool = False

    def begin_again(self, granted: Granted) -> None:
        """Another epoch, and nothing written in it."""
        if granted != self.granted:
            self.sequences.clear()
        self.granted = granted
        self.added.clear()
        self.is_open = False


class RandomTransactions:
    """A few producers, who sometimes make mistakes."""

    def __init__(self, talk: Conversation, seed: int) -> None:
        self._talk = talk
        self._random = random.Random(seed)
        self._producers = [
            RandomProducer(f"{talk.topic}-{number}", version, self._begin(number)) for number, version in enumerate(VERSIONS)
        ]

    def _begin(self, number: int) -> Granted:
        return self._talk.begin(f"{self._talk.topic}-{number}")

    def step(self) -> None:
        """Something that one of them does."""
        producer = self._random.choice(self._producers)
        kinds = [self.send] * 10 + [self.send_wrong] * 4 + [self.end] * 4 + [self.restart, self.mark, self.delete]
        self._random.choice(kinds)(producer)
        partition = self._random.randrange(PARTITIONS)
        self._talk.describe("producers", partition)
        self._talk.read("committed", partition, offset=self._start(partition))

    def _start(self, partition: int) -> int:
        """A place where a reader may begin."""
        starts = [one for title, one in self._talk.noted if title == f"start {partition}"]
        first = starts[-1] if starts else 0
        assert isinstance(first, int)
        return first

    def send(self, producer: RandomProducer) -> None:
        """The next batch, for one partition or all of them."""
        partitions = [self._random.randrange(PARTITIONS)] if self._random.random() < 0.7 else list(range(PARTITIONS))
        missing = [one for one in partitions if one not in producer.added]
        if missing and producer.version < IMPLICIT and self._random.random() < 0.9:
            self._talk.add(producer.name, producer.granted, *missing)
            producer.added.update(missing)
            producer.is_open = True
        sent = [Sent(one, *producer.granted, producer.sequences.get(one, 0)) for one in partitions]
        self._talk.produce("send", producer.name, *sent, version=producer.version)
        for index, code, *_ in self._answered():
            if code == 0:
                producer.sequences[index] = producer.sequences.get(index, 0) + 1
                producer.is_open = True

    def _answered(self) -> list[tuple[int, int, int, int]]:
        answered = self._talk.noted[-1][1]
        assert isinstance(answered, list)
        return answered

    def send_wrong(self, producer: RandomProducer) -> None:
        """A batch that is not the next one: former epoch, other sequence, other id."""
        partition = self._random.randrange(PARTITIONS)
        producer_id, epoch = producer.granted
        sequence = max(producer.sequences.get(partition, 0) + self._random.choice([0, 0, -1, -2, 1, 4]), 0)
        # A batch of a later epoch, though refused, makes Kafka refuse what follows: that is not copied (`cluster.verifications`).
        epoch = max(epoch + self._random.choice([0, 0, 0, -1]), 0)
        name = self._random.choice([producer.name, producer.name, None, self._random.choice(self._producers).name])
        version = self._random.choice(VERSIONS)
        self._talk.produce(f"send wrong {epoch} {sequence} {version}", name, Sent(partition, producer_id, epoch, sequence), version=version)
        [(_, code, *_)] = self._answered()
        if code == 0 and epoch == producer.granted.epoch:
            producer.sequences[partition] = max(producer.sequences.get(partition, 0), sequence + 1)

    def end(self, producer: RandomProducer) -> None:
        """Commit or abort, if there is anything."""
        if producer.is_open:
            version = NEW_END if producer.version >= IMPLICIT else OLD_END
            producer.begin_again(self._talk.end(producer.name, producer.granted, version=version, is_commit=self._random.random() < 0.5))

    def restart(self, producer: RandomProducer) -> None:
        """Another instance of it: what was open is aborted."""
        producer.begin_again(self._talk.begin(producer.name))

    def mark(self, producer: RandomProducer) -> None:
        """A marker that its coordinator did not send, of an epoch that may be too early."""
        epoch = max(producer.granted.epoch - self._random.choice([0, 1]), 0)
        marker = Granted(producer.granted.producer_id, epoch)
        self._talk.mark(f"mark {epoch}", marker, self._random.randrange(PARTITIONS), is_commit=self._random.random() < 0.5)

    def delete(self, _producer: RandomProducer) -> None:
        """Records are deleted, also of open transactions."""
        partition = self._random.randrange(PARTITIONS)
        wanted = {"partition_index": partition, "offset": -1 if self._random.random() < 0.1 else self._start(partition) + 1}
        asked = {"topics": [{"name": self._talk.topic, "partitions": [wanted]}], "timeout_ms": 30_000}
        [answer] = self._talk.ask(DELETE_RECORDS, 1, **asked).topics[0].partitions
        if answer.error_code == 0:
            self._talk.note(f"start {partition}", int(answer.low_watermark))
