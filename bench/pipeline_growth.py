"""How a load into Delta tables grows: with partitions, with what waits in the topic, with versions of the schema.

Each size is loaded once, after a warm-up. The rate of the smallest backlog shows what a run costs however little it loads.
"""

from abc import abstractmethod
from collections.abc import Sequence

from bench.case import Context, Metric, Values
from bench.lake_topic import add_views, register_views
from bench.pipeline import PARTITIONS, WARM_UPS, LakeCase, registry_url
from bench.spark_read import rate


class _Growth(LakeCase):
    """Loads of several sizes, one metric each."""

    max_rounds = 1

    def __init__(self, name: str, title: str, *, count: int, sizes: Sequence[int], what: str) -> None:
        super().__init__(count)
        self.name = f"pipeline-{name}"
        self.title = title
        self._sizes = sizes
        self._what = what
        self.metrics = tuple(Metric(self._metric(size), "rows/s") for size in sizes)

    def prepare(self, context: Context) -> None:
        topic = f"{self.name}-warm"
        count = self.fill(context, topic, self.count // 4)
        for _ in range(WARM_UPS):
            self.load(context.broker, topic, count)

    def run(self, context: Context) -> Values:
        values = {}
        for size in self._sizes:
            topic, count = self.make(context, size)
            values[self._metric(size)] = rate(count, lambda topic=topic, count=count: self.load(context.broker, topic, count))  # type: ignore[misc]
            context.say(f"{self.name}: {self._metric(size)}: {values[self._metric(size)]:,.0f} rows/s")
        return values

    @abstractmethod
    def make(self, context: Context, size: int) -> tuple[str, int]:
        """A topic of this size, and how many messages it has."""

    def _metric(self, size: int) -> str:
        return f"{size:,} {self._what}"


class GrowingPartitions(_Growth):
    """The same messages in more and more partitions."""

    def __init__(self, count: int, partitions: Sequence[int]) -> None:
        super().__init__("partitions", "load, as partitions grow", count=count, sizes=partitions, what="partitions")

    def make(self, context: Context, size: int) -> tuple[str, int]:
        topic = f"{self.name}-{size}"
        return topic, self.fill(context, topic, self.count, partitions=size)


class GrowingBacklog(_Growth):
    """More and more messages in the same partitions."""

    def __init__(self, backlogs: Sequence[int]) -> None:
        super().__init__("backlog", "load, as the backlog grows", count=backlogs[0], sizes=backlogs, what="messages")
        self._filled = 0

    def make(self, context: Context, size: int) -> tuple[str, int]:
        if not self._filled:
            self._filled = self.fill(context, self.name, size)
        elif size > self._filled:
            schema_ids = register_views(registry_url(), self.name)
            self._filled += add_views(context.broker, self.name, size - self._filled, schema_ids, partitions=PARTITIONS)
        return self.name, self._filled


class GrowingVersions(_Growth):
    """Messages of more and more versions of their schema, in turn."""

    def __init__(self, count: int, versions: Sequence[int]) -> None:
        super().__init__("versions", "load, as schema versions grow", count=count, sizes=versions, what="versions")

    def make(self, context: Context, size: int) -> tuple[str, int]:
        topic = f"{self.name}-{size}"
        return topic, self.fill(context, topic, self.count, versions=size)
