"""A cluster on this machine, for trying things out: `scripts/cluster [N]` starts a real ZooKeeper and N brokers, and watches over them.

Every process is in a group of its own, so that Ctrl-C reaches only this one, which then stops them in order: the brokers one after the
other, the last first, and then what they keep their znodes in.
"""

import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from cluster_flags import parse

from tests.brokers import MillstreamBroker
from tests.cluster.brokers import MillstreamBrokers, broker_name
from tests.cluster.server_process import ServerProcess, missing_zookeeper
from tests.ports import free_port

ROOT = Path(__file__).resolve().parents[1]
FIRST_PORT = 9092
LOOK_SECONDS = 0.1
SESSION_TIMEOUT_MS = 6000
"""A third of the default: who kills a broker to see what happens does not want to wait long for it."""
LOG_LINES = 5


class LocalCluster:
    """The processes, in the order in which they were started."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.zookeeper: ServerProcess | None = None
        self.brokers: MillstreamBrokers | None = None
        self._reported: set[int] = set()

    @property
    def nodes(self) -> list[MillstreamBroker]:
        return [] if self.brokers is None else list(self.brokers.nodes.values())

    def start(self, count: int, options: Mapping[str, str], *, is_embedded: bool) -> None:
        """Start everything, and return when it is ready; SystemExit with the last lines of a broker that ends before."""
        where = "" if is_embedded else self._start_zookeeper()
        self.brokers = MillstreamBrokers(
            self.directory / "output", options, zookeeper=where, count=count, session_timeout_ms=SESSION_TIMEOUT_MS
        )
        for port, node in zip(broker_ports(count), self.nodes, strict=True):
            node.port, node.in_own_group, node.flags = port, True, []
            node.data = self.directory / broker_name(node.node_id)
        say(f"starting {count} broker{'s' if count > 1 else ''}")
        try:
            self.brokers.start(*self.brokers.nodes)
        except AssertionError:
            for node in self.nodes:
                if node.lives and not node.is_running:
                    raise SystemExit(f"cluster: broker {node.node_id} did not become ready:\n{last_lines(node)}") from None
            raise

    def _start_zookeeper(self) -> str:
        (self.directory / "zookeeper").mkdir(exist_ok=True)
        self.zookeeper = ServerProcess("zookeeper", self.directory / "zookeeper", is_durable=True, in_own_group=True)
        say(f"starting ZooKeeper at {self.zookeeper.address}")
        self.zookeeper.start()
        return f"{self.zookeeper.address}/millstream"

    def report_ended(self) -> None:
        """Say once of each process that has ended by itself that it has."""
        for node in self.nodes:
            if not node.is_running and node.node_id not in self._reported:
                self._reported.add(node.node_id)
                say(f"broker {node.node_id} has ended, with exit code {node.process.returncode}; {node.stderr} ends with:")
                print(last_lines(node), file=sys.stderr)
                say(f"to start it again, in another terminal: {' '.join(node.command())}")
        if self.zookeeper is not None and self.zookeeper.has_ended:
            say("ZooKeeper has ended: what the brokers have goes on, and nothing can be changed. Stop with Ctrl-C and start again")
            self.zookeeper = None

    @property
    def is_running(self) -> bool:
        return any(node.is_running for node in self.nodes)

    def stop(self) -> None:
        """Stop everything, in the opposite order."""
        for node in reversed(self.nodes):
            if node.is_running:
                say(f"stopping broker {node.node_id}")
                try:
                    node.stop()
                except AssertionError:
                    say(f"broker {node.node_id} did not stop, and was killed")
        if self.zookeeper is not None:
            say("stopping ZooKeeper")
            self.zookeeper.stop()

    def kill(self) -> None:
        """End everything at once."""
        if self.brokers is not None:
            self.brokers.close()
        if self.zookeeper is not None:
            self.zookeeper.kill()


def broker_ports(count: int) -> list[int]:
    """9092 and those that follow, or free ones where one of them is taken."""
    wanted = list(range(FIRST_PORT, FIRST_PORT + count))
    for port in wanted:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                return [free_port() for _ in wanted]
    return wanted


def last_lines(node: MillstreamBroker) -> str:
    """The end of what a broker printed, to be shown."""
    lines = node.output.splitlines() or ["(it has said nothing)"]
    return "\n".join(f"  {line}" for line in lines[-LOG_LINES:])


def say(text: str) -> None:
    """Print a line for the person at the terminal."""
    print(f"cluster: {text}", file=sys.stderr, flush=True)


def explain(cluster: LocalCluster) -> None:
    """What is there, and how to try it."""
    addresses = ",".join(node.bootstrap_servers for node in cluster.nodes)
    coordination = "" if cluster.zookeeper is None else f" zookeeper {cluster.zookeeper.address}/millstream"
    print(f"ready: brokers {addresses}{coordination}", flush=True)
    command = ".venv/bin/millstream"
    replicas = min(3, len(cluster.nodes))
    victim = cluster.nodes[-1]
    print(
        f"\nData and logs are in {cluster.directory}. In another terminal:\n\n"
        f"  export MILLSTREAM_BROKERS={addresses}\n"
        f"  {command} cluster status\n"
        f"  {command} topic create clicks --partitions 6 --replicas {replicas} --config min.insync.replicas={max(1, replicas - 1)}\n"
        f"  {command} produce clicks hello\n"
        f"  kill -9 {victim.pid}      # broker {victim.node_id}; then ask for the status again, and go on producing\n"
        f"  {command} consume clicks\n\n"
        "Ctrl-C stops the cluster.",
        flush=True,
    )


def main() -> int:
    """Run a cluster until it is asked to stop; exit code 1 if it ended by itself."""
    flags = parse(sys.argv[1:])
    reason = None if flags.embedded else missing_zookeeper()
    if reason is not None:
        raise SystemExit(f"cluster: {reason}. Without Java: scripts/cluster --embedded")
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell starts what runs in the background with SIGINT ignored
        signal.signal(number, signal.default_int_handler)
    (ROOT / ".cache").mkdir(exist_ok=True)
    if flags.data is not None:
        flags.data.mkdir(parents=True, exist_ok=True)
    directory = (flags.data or Path(tempfile.mkdtemp(prefix="cluster-", dir=ROOT / ".cache"))).resolve()
    cluster = LocalCluster(directory)
    try:
        cluster.start(flags.count, dict(flags.options), is_embedded=flags.embedded)
        explain(cluster)
        while cluster.is_running:
            time.sleep(LOOK_SECONDS)
            cluster.report_ended()
        say("no broker is running any more")
        return 1
    except KeyboardInterrupt:
        with suppress(KeyboardInterrupt):
            cluster.stop()
        return 0
    finally:
        cluster.kill()
        if flags.data is None and not flags.keep:
            shutil.rmtree(directory, ignore_errors=True)
        else:
            say(f"data and logs are kept in {directory}")


if __name__ == "__main__":
    sys.exit(main())
