"""What a benchmark is: a case, the metrics it yields, and the bar each metric has to reach.

A new benchmark is one file with one or more subclasses of `Case`, and one line in `suites.py`. A case does the same work on
every peer and returns one number per metric; how often it runs, in which order and what becomes of the numbers is not its
business.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

if TYPE_CHECKING:
    from bench.peers.broker import Broker, Peer
    from bench.peers.cluster import Cluster
    from bench.peers.service import Kind, Service

Values = Mapping[str, float]


class BenchError(Exception):
    """A benchmark could not be run, or a broker gave a wrong answer."""


@dataclass(frozen=True, slots=True)
class Bar:
    """What Millstream has to reach: a bound on its value, on its ratio to Kafka, or on its ratio to another case of its own."""

    limit: float
    side: Literal["at least", "at most"]
    of: Literal["value", "kafka", "case"]
    case: str = ""

    def is_reached(self, measured: float) -> bool:
        return measured >= self.limit if self.side == "at least" else measured <= self.limit

    def __str__(self) -> str:
        sign = ">=" if self.side == "at least" else "<="
        subject = {"value": "", "kafka": " x Kafka", "case": f" x {self.case}"}[self.of]
        return f"{sign} {self.limit:g}{subject}"


@dataclass(frozen=True, slots=True)
class Metric:
    """One number of a case. `summary` says how rounds become one figure: the best for rates, the median for costs."""

    name: str
    unit: str
    bar: Bar | None = None
    summary: Literal["max", "median"] = "median"


@dataclass(slots=True)
class Context:
    """What a case gets: the kind of peer, the one that runs (None for isolated cases), its own directory, the round (0: preparation)."""

    kind: "Kind"
    running: "Service | None"
    directory: Path
    round_number: int
    is_warm: bool = False
    """Whether to measure only after the cost of the work holds still."""
    say: Callable[[str], None] = print
    """How a case that takes long shows how far it is."""

    @property
    def service(self) -> "Service":
        assert self.running is not None, "an isolated case starts brokers of its own"
        return self.running

    @property
    def broker(self) -> "Broker":
        """For cases of suites that run on single brokers."""
        return cast("Broker", self.service)

    @property
    def cluster(self) -> "Cluster":
        """For cases of suites that run on clusters."""
        return cast("Cluster", self.service)

    @property
    def peer(self) -> "Peer":
        """For isolated cases of suites that run on single brokers."""
        return cast("Peer", self.kind)

    def topic(self, case: "Case") -> str:
        """A topic name of this case and round."""
        return f"{case.name}-{self.round_number}"


class Case(ABC):
    """One benchmark. `isolated` ones run while no shared broker is up and start their own."""

    name: str
    title: str
    metrics: tuple[Metric, ...]
    isolated = False
    max_rounds: int | None = None

    def prepare(self, context: Context) -> None:
        """Once per peer before the first round: fill, warm up. Not measured."""
        return

    @abstractmethod
    def run(self, context: Context) -> Values:
        """One round on one peer."""
