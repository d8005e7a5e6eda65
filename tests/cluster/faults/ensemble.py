"""Three ZooKeepers that elect a leader among themselves; any one of them may die."""

import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.cluster.server_process import ServerProcess, free_port


class EnsembleMember(ServerProcess):
    """One real ZooKeeper of an ensemble."""

    def __init__(self, directory: Path, number: int, servers: list[str]) -> None:
        (directory / "data").mkdir(parents=True)
        super().__init__("zookeeper", directory)
        (directory / "data" / "myid").write_text(f"{number}\n")
        with (directory / "zoo.cfg").open("a") as configuration:
            configuration.write("initLimit=40\nsyncLimit=20\n" + "".join(f"{line}\n" for line in servers))
        self._command[-2] = "org.apache.zookeeper.server.quorum.QuorumPeerMain"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_leader(self) -> bool:
        """Whether the others follow it."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=2) as connection:
                connection.sendall(b"srvr")
                return b"Mode: leader" in b"".join(iter(lambda: connection.recv(4096), b""))
        except OSError:
            return False


class Ensemble:
    """All of them."""

    def __init__(self, directory: Path, size: int = 3) -> None:
        numbers = range(1, size + 1)
        servers = [f"server.{number}=127.0.0.1:{free_port()}:{free_port()}" for number in numbers]
        self.members = [EnsembleMember(directory / f"zookeeper-{number}", number, servers) for number in numbers]

    def start(self) -> None:
        """Start those that do not run, and return when all serve clients: one alone never does."""
        with ThreadPoolExecutor() as threads:
            for started in [threads.submit(member.start) for member in self.members if not member.is_running]:
                started.result()

    def leader(self) -> EnsembleMember | None:
        """The one that leads at the moment."""
        return next((member for member in self.members if member.is_running and member.is_leader), None)

    def kill(self) -> None:
        """All at once, as a crash."""
        for member in self.members:
            member.kill()
