"""What a case drives and measures: one broker, or a cluster of them.

A case that is written for a `Service` runs on both: topics are created with as many replicas as the service says, CPU and memory are
sums over all brokers, and a connection to a partition goes to its leader. A ZooKeeper beside the brokers is counted apart.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path

from bench.measure import cpu_seconds, peak_resident_bytes, resident_bytes
from bench.raw import RawConnection


class Service(ABC):
    """Something that runs and answers Kafka's protocol on loopback."""

    name: str
    replicas = 1
    """How many replicas a topic gets."""
    topic_config: Mapping[str, str] = {}
    """What every topic is created with."""

    @property
    @abstractmethod
    def pids(self) -> tuple[int, ...]:
        """The broker processes that run now."""

    @property
    def coordination_pids(self) -> tuple[int, ...]:
        """Processes beside the brokers that they cannot do without (ZooKeeper): counted, but apart."""
        return ()

    @property
    @abstractmethod
    def bootstrap_servers(self) -> str:
        """Every address a client may begin with."""

    @property
    @abstractmethod
    def is_running(self) -> bool:
        """Whether every process that should run does."""

    @abstractmethod
    def connect(self) -> RawConnection:
        """A connection to some broker."""

    @abstractmethod
    def connect_to_leader(self, topic: str, partition: int) -> RawConnection:
        """A connection to the broker that leads a partition."""

    @abstractmethod
    def is_settled(self, topic: str, *, partitions: int) -> bool:
        """Whether a new topic can be written to, with all the replicas it should have."""

    @abstractmethod
    def stop(self) -> float:
        """Stop everything cleanly; the seconds it took."""

    @abstractmethod
    def kill(self) -> None:
        """Stop everything as a crash would."""

    def cpu_seconds(self) -> float:
        return cpu_seconds(*self.pids)

    def resident_bytes(self) -> int:
        return resident_bytes(*self.pids)

    def peak_resident_bytes(self) -> int:
        return sum(peak_resident_bytes(pid) for pid in self.pids)


class Kind(ABC):
    """One kind of service, and how it is started."""

    name: str

    @abstractmethod
    def start(self, directory: Path) -> Service:
        """Start it on a directory and wait until it answers."""
