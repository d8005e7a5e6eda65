"""What a server is started with: addresses, directories, who it is, and the broker options by Kafka's names."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from millstream.address import Address
from millstream.files import path_text


class ServerOptions(NamedTuple):
    """Everything that is decided before the start."""

    listen_host: str = "127.0.0.1"
    listen_port: int = 9092
    """0 picks a free port."""
    bootstrap: tuple[str, int] | None = None
    """A second address to listen on, with the other brokers that this machine runs in processes of their own (`processes`)."""
    advertise: tuple[str, int] | None = None
    """Where clients connect; the address listened on if None."""
    coordination_host: str = "127.0.0.1"
    coordination_port: int = 2181
    coordination_port_required: bool = False
    """Whether a taken coordination port is an error; otherwise a free one is picked."""
    zookeeper: str | None = None
    """A real ZooKeeper, `host:port,host:port/chroot`, instead of the embedded coordination."""
    zookeeper_credentials: Path | None = None
    """A file with one line, `user:password`; the words themselves would be seen in lists of processes."""
    data: tuple[Path, ...] = (Path("millstream-data"),)
    forget_directories: tuple[str, ...] = ()
    """Ids of data directories that are given up, with all their records."""
    node_id: int = 1
    slow_request_ms: int = 1_000
    """What takes longer is logged; 0 is never."""
    options: Mapping[str, str] = MappingProxyType({})

    def facts(self, *, listen: tuple[str, int], advertise: tuple[str, int]) -> dict[str, str]:
        """What was decided, by the names of Kafka's options."""
        return {
            "node.id": str(self.node_id),
            "broker.id": str(self.node_id),
            # A comma stands between directories, so one inside a name is written as addresses on the web write it.
            "log.dirs": ",".join(path_text(path).replace(",", "%2C") for path in self.data),
            "listeners": f"PLAINTEXT://{Address(*listen)}",
            "advertised.listeners": f"PLAINTEXT://{Address(*advertise)}",
        }
