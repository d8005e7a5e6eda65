"""What becomes of the records that a producer is given: counted per partition, so that a million lines cost no memory."""

import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from millstream.cli.output import print_json
from millstream.cli.parameters import Output
from millstream.cli.produce.record_form import Outgoing
from millstream.errors import CommandFailed

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

T = TypeVar("T")

FLUSH_SLICE_SECONDS = 0.2
PROGRESS_AFTER_SECONDS = 1.0
PROGRESS_EVERY_SECONDS = 0.2


@dataclass
class Deliveries:
    """Hands records to a producer and hears what became of them."""

    topic: str
    producer: "Producer"
    output: Output = Output.TABLE
    sent: dict[int, list[int]] = field(default_factory=dict)
    failure: "KafkaError | None" = None

    @property
    def count(self) -> int:
        """How many records were delivered."""
        return sum(count for count, _, _ in self.sent.values())

    def hand_over(self, record: Outgoing) -> None:
        """Give a record to the producer, which sends it when it likes; waits while its queue is full."""
        from confluent_kafka import KafkaException

        while True:
            try:
                self.producer.produce(
                    self.topic,
                    record.value,
                    record.key,
                    partition=record.partition,
                    headers=list(record.headers),
                    timestamp=record.timestamp,
                    on_delivery=self._delivered,
                )
                break
            except BufferError:
                self.producer.poll(FLUSH_SLICE_SECONDS)
            except KafkaException as exception:
                if exception.args[0].name() != "_UNKNOWN_PARTITION":
                    raise
                where = f"partition {record.partition}, which the topic {self.topic!r} does not have"
                raise CommandFailed(f"A record names {where}: --by-key lets the keys decide about partitions.") from exception
        self.producer.poll(0)

    def wait(self, *, at_most_s: float | None = None) -> bool:
        """Until all that was handed over is delivered, or one has failed, or the time is up; whether all are."""
        until = None if at_most_s is None else time.monotonic() + at_most_s
        while self.failure is None and (until is None or time.monotonic() < until):
            if self.producer.flush(FLUSH_SLICE_SECONDS) == 0:
                return self.failure is None
        return False

    def _delivered(self, error: "KafkaError | None", message: "Message") -> None:
        if error is not None:
            self.failure = self.failure or error
            return
        partition, offset = message.partition() or 0, message.offset()
        offset = -1 if offset is None else offset  # with acks=0 no offset is answered
        count, first, _ = self.sent.get(partition, (0, offset, offset))
        self.sent[partition] = [count + 1, first, offset]
        if self.output is Output.JSON:
            print_json({"topic": message.topic(), "partition": partition, "offset": offset if offset >= 0 else None})

    def summary(self) -> str:
        """One line that says how many records went where."""
        parts = [
            f"partition {partition} " + (f"offsets {first}-{last}" if first >= 0 else f"{count} unacknowledged")
            for partition, (count, first, last) in sorted(self.sent.items())
        ]
        return f"sent {self.count} record{'' if self.count == 1 else 's'} to {self.topic}" + (": " + ", ".join(parts) if parts else "")

    def doubt(self) -> str:
        """What is not known, when nothing is waited for any more; nothing if all is."""
        return f"; {count} more may have arrived or not" if (count := len(self.producer)) else ""


def with_progress(lines: Iterable[T], deliveries: Deliveries) -> Iterator[T]:
    """The same lines; when it takes long and a person watches, how far it is on the last line of the terminal."""
    if not sys.stderr.isatty() or sys.stdin.isatty():
        yield from lines
        return
    from rich.console import Console

    started = time.monotonic()
    shown = started + PROGRESS_AFTER_SECONDS - PROGRESS_EVERY_SECONDS
    with Console(stderr=True).status("") as status:
        for line in lines:
            yield line
            now = time.monotonic()
            if now - shown >= PROGRESS_EVERY_SECONDS:
                shown = now
                status.update(f"{deliveries.count:,} records delivered, {deliveries.count / (now - started):,.0f} per second")
