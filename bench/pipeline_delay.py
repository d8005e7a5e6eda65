"""From produce to visible: messages come steadily, a load with a trigger of a second runs, and the table is looked at all the time.

A message is visible when a commit is there that has its offset. The first seconds, in which Spark starts and warms up, do not count.
"""

from collections import deque
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from time import monotonic, sleep
from typing import Final

from bench.case import Bar, BenchError, Context, Metric, Values
from bench.lake_topic import register_views, view_batch
from bench.measure import percentile
from bench.pipeline import LakeCase, registry_url
from bench.spark_session import session
from bench.topics import create_topic
from millstream.client.cluster import Cluster
from millstream.client.codecs.produce import BatchFor
from millstream.lake.delta_table import DeltaWriter
from millstream.spark.jobs.load.load import start_load

RECORDS: Final = 10
PAUSE_S: Final = 0.01
LOOK_S: Final = 0.005
LONGEST_S: Final = 60.0


class PipelineDelay(LakeCase):
    """About a thousand messages a second, in batches of ten, to one partition after the other."""

    max_rounds = 1

    def __init__(self, partitions: int, *, warm_up_s: float, seconds: float) -> None:
        super().__init__(0)
        self.name = f"pipeline-delay-{partitions}"
        self.title = f"from produce to visible in the table, trigger 1 s, {partitions} partitions"
        self.metrics = (
            Metric("p50", "s", Bar(0.8, "at most", "value")),
            Metric("p99", "s", Bar(1.3, "at most", "value")),
            Metric("max", "s"),
        )
        self._partitions = partitions
        self._warm_up_s = warm_up_s
        self._seconds = seconds

    def run(self, context: Context) -> Values:
        broker = context.broker
        [schema_id] = register_views(registry_url(), self.name)
        create_topic(broker, self.name, partitions=self._partitions)
        with TemporaryDirectory(prefix="millstream-bench-") as directory:
            settings = self.settings(broker, self.name, directory, once=False)
            sent = _Sent(broker.bootstrap_servers, self.name, schema_id, self._partitions)
            query = start_load(session(), settings)
            try:
                sent.start()
                delays = self._watch(context, sent, DeltaWriter(f"{settings.to}/{self.name}"), Path(settings.to, self.name, "_delta_log"))
            finally:
                sent.stop()
                query.stop()
        return {"p50": percentile(delays, 50), "p99": percentile(delays, 99), "max": max(delays)}

    def _watch(self, context: Context, sent: "_Sent", table: DeltaWriter, log: Path) -> list[float]:
        """The delays of what was sent after the warm-up, until enough was."""
        delays: list[float] = []
        commits, began = 0, monotonic()
        while monotonic() - began < self._warm_up_s + self._seconds + LONGEST_S:
            sleep(LOOK_S)
            if (found := len(list(log.glob("*.json")))) == commits:
                continue
            seen, commits = monotonic(), found
            visible = sent.take_until(table.positions(self.name, range(self._partitions)))
            delays += [seen - moment for moment in visible if moment - began >= self._warm_up_s]
            if delays and seen - began > self._warm_up_s + self._seconds:
                context.say(f"{self.name}: {len(delays):,} batches seen in {commits} commits")
                return delays
        raise BenchError(f"only {len(delays)} of the batches came into the table")


class _Sent:
    """Sends, and remembers when which offsets were sent."""

    def __init__(self, bootstrap_servers: str, topic: str, schema_id: int, partitions: int) -> None:
        self._cluster = Cluster(bootstrap_servers)
        self._topic = topic
        self._batches: Sequence[bytes] = [view_batch(number, schema_id, records=RECORDS) for number in range(20)]
        self._ends: list[deque[tuple[int, float]]] = [deque() for _ in range(partitions)]
        self._stopped = Event()
        self._thread = Thread(target=self._send, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()
        self._cluster.close()

    def take_until(self, positions: dict[int, int]) -> list[float]:
        """When what is before these offsets was sent, each batch once."""
        moments = []
        for partition, position in positions.items():
            ends = self._ends[partition]
            while ends and ends[0][0] <= position:
                moments.append(ends.popleft()[1])
        return moments

    def _send(self) -> None:
        number = 0
        while not self._stopped.wait(PAUSE_S):
            partition, turn = number % len(self._ends), number // len(self._ends)
            moment = monotonic()
            self._cluster.produce(BatchFor(self._topic, partition, self._batches[number % len(self._batches)]), acks=1)
            self._ends[partition].append((RECORDS * (turn + 1), moment))
            number += 1
