"""What a server is started with: addresses, directories, who it is, and the broker options by Kafka's names."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class ServerOptions:
    """Everything that is decided before the start."""

    listen_host: str = "127.0.0.1"
    listen_port: int = 9092
    """0 picks a free port."""
    advertise: tuple[str, int] | None = None
    """What clients are told; the address listened on if None."""
    coordination_host: str = "127.0.0.1"
    coordination_port: int = 2181
    coordination_port_required: bool = False
    """Whether a taken coordination port is an error; otherwise a free one is picked."""
    zookeeper: str | None = None
    """A real ZooKeeper, `host:port,host:port/chroot`, instead of the embedded coordination."""
    data: tuple[Path, ...] = (Path("penstock-data"),)
    forget_directories: tuple[str, ...] = ()
    """Ids of data directories that are given up, with all their records."""
    node_id: int = 1
    options: Mapping[str, str] = field(default_factory=dict)
