"""A cluster on this machine, for trying things out: `scripts/cluster [N]` starts a real ZooKeeper and N brokers, and watches over them.

Every process is in a group of its own, so that Ctrl-C reaches only this one, which then stops them in order: the brokers one after the
other, the last first, and then what they keep their znodes in.
"""

import argparse
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.cluster.server_process import ServerProcess, free_port, missing_zookeeper

ROOT = Path(__file__).resolve().parents[1]
FIRST_PORT = 9092
MOST_BROKERS = 20
START_SECONDS = 60.0
STOP_SECONDS = 60.0
LOOK_SECONDS = 0.1
SESSION = "zookeeper.session.timeout.ms=6000"
"""A third of the default: who kills a broker to see what happens does not want to wait long for it."""
LOG_LINES = 5


@dataclass
class Broker:
    """One broker process."""

    number: int
    command: list[str]
    log: Path
    address: str = ""
    process: "subprocess.Popen[bytes] | None" = None
    is_reported: bool = False

    def start(self) -> None:
        """Start it; `await_ready` waits for it."""
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=ROOT, process_group=0)

    def await_ready(self) -> None:
        """Return when it accepts clients; SystemExit with its last lines if it ends before."""
        deadline = time.monotonic() + START_SECONDS
        while not self.address:
            for line in self.log.read_text(errors="replace").splitlines():
                words = line.split()
                if words[:2] == ["ready:", "broker"]:
                    self.address = words[2]
            if not self.is_running or time.monotonic() > deadline:
                raise SystemExit(f"cluster: broker {self.number} did not become ready:\n{last_lines(self.log)}")
            time.sleep(LOOK_SECONDS)

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def stop(self) -> None:
        """Ask it to end, wait for that, and end it if it does not."""
        if self.process is None or not self.is_running:
            return
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            say(f"broker {self.number} does not stop and is killed")
            self.process.kill()
            self.process.wait()


@dataclass
class LocalCluster:
    """The processes, in the order in which they were started."""

    directory: Path
    zookeeper: ServerProcess | None = None
    brokers: list[Broker] = field(default_factory=list)

    def start(self, count: int, options: Sequence[str], *, is_embedded: bool) -> None:
        """Start everything, and return when it is ready."""
        ports = broker_ports(count)
        if is_embedded:
            tree = f"127.0.0.1:{free_port()}"
            places = [["--coordination", tree], *[["--zookeeper", tree]] * (count - 1)]
        else:
            (self.directory / "zookeeper").mkdir(exist_ok=True)
            self.zookeeper = ServerProcess("zookeeper", self.directory / "zookeeper", is_durable=True, in_own_group=True)
            say(f"starting ZooKeeper at {self.zookeeper.address}")
            self.zookeeper.start()
            places = [["--zookeeper", f"{self.zookeeper.address}/millstream"]] * count
        for number, (port, place) in enumerate(zip(ports, places, strict=True), 1):
            command = [str(Path(sys.executable).with_name("millstream")), "serve", "--node-id", str(number), *place]
            command += ["--listen", f"127.0.0.1:{port}", "--data", str(self.directory / f"broker-{number}")]
            command += [part for option in (SESSION, *options) for part in ("-X", option)]
            log = self.directory / f"broker-{number}.log"
            log.write_bytes(b"")
            self.brokers.append(Broker(number, command, log))
        say(f"starting {count} broker{'s' if count > 1 else ''}")
        for broker in self.brokers:
            broker.start()
            if broker.number == 1:
                broker.await_ready()  # an embedded tree has to be there before the others look for it
        for broker in self.brokers:
            broker.await_ready()

    def report_ended(self) -> None:
        """Say once of each process that has ended by itself that it has."""
        for broker in self.brokers:
            if broker.process is not None and not broker.is_running and not broker.is_reported:
                broker.is_reported = True
                say(f"broker {broker.number} has ended, with exit code {broker.process.returncode}; {broker.log} ends with:")
                print(last_lines(broker.log), file=sys.stderr)
                say(f"to start it again, in another terminal: {' '.join(broker.command)}")
        if self.zookeeper is not None and self.zookeeper.has_ended:
            say("ZooKeeper has ended: what the brokers have goes on, and nothing can be changed. Stop with Ctrl-C and start again")
            self.zookeeper = None

    @property
    def is_running(self) -> bool:
        return any(broker.is_running for broker in self.brokers)

    def stop(self) -> None:
        """Stop everything, in the opposite order."""
        for broker in reversed(self.brokers):
            if broker.is_running:
                say(f"stopping broker {broker.number}")
                broker.stop()
        if self.zookeeper is not None:
            say("stopping ZooKeeper")
            self.zookeeper.stop()

    def kill(self) -> None:
        """End everything at once."""
        for broker in self.brokers:
            if broker.process is not None and broker.is_running:
                broker.process.kill()
                broker.process.wait()
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


def last_lines(log: Path) -> str:
    """The end of a log, to be shown."""
    lines = log.read_text(errors="replace").splitlines() or ["(it has said nothing)"]
    return "\n".join(f"  {line}" for line in lines[-LOG_LINES:])


def say(text: str) -> None:
    """Tell the person at the terminal."""
    print(f"cluster: {text}", file=sys.stderr, flush=True)


def explain(cluster: LocalCluster) -> None:
    """What is there, and how to try it."""
    addresses = ",".join(broker.address for broker in cluster.brokers)
    coordination = "" if cluster.zookeeper is None else f" zookeeper {cluster.zookeeper.address}/millstream"
    print(f"ready: brokers {addresses}{coordination}", flush=True)
    command = ".venv/bin/millstream"
    replicas = min(3, len(cluster.brokers))
    victim = cluster.brokers[-1]
    assert victim.process is not None
    print(
        f"\nData and logs are in {cluster.directory}. In another terminal:\n\n"
        f"  export MILLSTREAM_BROKERS={addresses}\n"
        f"  {command} cluster status\n"
        f"  {command} topic create clicks --partitions 6 --replicas {replicas} --config min.insync.replicas={max(1, replicas - 1)}\n"
        f"  {command} produce clicks hello\n"
        f"  kill -9 {victim.process.pid}      # broker {victim.number}; then ask for the status again, and go on producing\n"
        f"  {command} consume clicks -o beginning\n\n"
        "Ctrl-C stops the cluster.",
        flush=True,
    )


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The flags; ends with a sentence if there is no ZooKeeper here."""
    parser = argparse.ArgumentParser(prog="scripts/cluster", description="Starts a real ZooKeeper and N brokers on this machine.")
    parser.add_argument("count", metavar="N", type=int, nargs="?", default=3, help="number of brokers (default 3)")
    parser.add_argument("--embedded", action="store_true", help="without Java: the first broker keeps the znodes for all")
    parser.add_argument("--data", metavar="DIR", type=Path, help="keep data and logs there, and go on with what is there")
    parser.add_argument("--keep", action="store_true", help="do not remove the data at the end (without --data: .cache/cluster-...)")
    parser.add_argument("-X", metavar="NAME=VALUE", dest="options", action="append", default=[], help="an option of all brokers")
    flags = parser.parse_args(arguments)
    if not 1 <= flags.count <= MOST_BROKERS:
        parser.error(f"N must be 1 to {MOST_BROKERS}, and is {flags.count}")
    reason = None if flags.embedded else missing_zookeeper()
    if reason is not None:
        parser.exit(1, f"cluster: {reason}. Without Java: scripts/cluster --embedded\n")
    return flags


def main() -> int:
    """Run a cluster until it is asked to stop; exit code 1 if it ended by itself."""
    flags = parse(sys.argv[1:])
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell starts what runs in the background with SIGINT ignored
        signal.signal(number, signal.default_int_handler)
    (ROOT / ".cache").mkdir(exist_ok=True)
    if flags.data is not None:
        flags.data.mkdir(parents=True, exist_ok=True)
    directory = (flags.data or Path(tempfile.mkdtemp(prefix="cluster-", dir=ROOT / ".cache"))).resolve()
    cluster = LocalCluster(directory)
    try:
        cluster.start(flags.count, flags.options, is_embedded=flags.embedded)
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
