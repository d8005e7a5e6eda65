"""Millstream on an ensemble of three real ZooKeepers."""

from collections.abc import Callable, Iterable
from pathlib import Path

from tests.cluster.faults.cluster import NODE_IDS, Cluster, broker_name, place_of
from tests.cluster.faults.network import Link
from tests.cluster.faults.nodes import MillstreamNode
from tests.cluster.server_process import Ensemble, ServerProcess
from tests.connection import METADATA


class MillstreamCluster(Cluster):
    """Its coordination is the ensemble."""

    peer = "millstream"

    def __init__(self, directory: Path, *, session_timeout_ms: int, disks: Iterable[int] = (), ensemble_size: int = 3) -> None:
        super().__init__(directory, session_timeout_ms=session_timeout_ms, disks=disks)
        self._ensemble = Ensemble(directory, size=ensemble_size)

    def controller(self) -> int:
        return int(self.ask(METADATA, 12, {"topics": []}).controller_id)

    def coordination_links(self, node_id: int) -> list[Link]:
        return [Link(broker_name(node_id), _server_name(number)) for number in range(len(self._ensemble.members))]

    def kill_coordination(self) -> Callable[[], None]:
        for member in self._ensemble.members:
            self._kill_server(member)
        return self._start_servers

    def kill_coordination_leader(self) -> Callable[[], None]:
        self._kill_server(self._ensemble.leader)
        return self._start_servers

    def _build(self) -> None:
        self.stack.callback(self._ensemble.kill)
        self._start_servers()
        members = enumerate(self._ensemble.members)
        servers = [f"127.0.0.1:{self.network.add(_server_name(number), member.port)}" for number, member in members]
        for node_id in NODE_IDS:
            node = MillstreamNode(place_of(self, node_id), self._options(), node_id=node_id)
            if node_id in self.disks:
                node.data = self.disks[node_id].path / "data"
            node.zookeeper = f"{','.join(servers)}/faults"
            node.advertised_port = self.network.add(broker_name(node_id), node.port)
            self.nodes[node_id] = node
            self.proxy_ports[node_id] = node.advertised_port

    def _start_servers(self) -> None:
        """Those that do not run."""
        for member in self._ensemble.members:
            if not member.is_running:
                member.launch()
                self.reaper.watch(member.pid)
        for member in self._ensemble.members:
            member.await_serving()

    def _kill_server(self, member: ServerProcess) -> None:
        if member.is_running:
            pid = member.pid
            member.kill()
            self.reaper.forget(pid)

    def _options(self) -> dict[str, object]:
        session_ms = round(self.session_timeout_s * 1000)
        return {
            "zookeeper.session.timeout.ms": session_ms,
            "replica.lag.time.max.ms": session_ms,
            "min.insync.replicas": 2,
            "offsets.topic.num.partitions": 3,
        }


def _server_name(number: int) -> str:
    return f"coordination-{number + 1}"
