"""A coordination server in a process of its own, ours or a real ZooKeeper, on a free loopback port with its own directory; or several
ZooKeepers that are one (`Ensemble`).

Real ZooKeeper comes from Debian's package `zookeeper` (`apt-get install -y --no-install-recommends zookeeper`) or from the jars that
PySpark carries. It is started as a plain Java process and ended by its process id; where Java or the jars are missing,
`missing_zookeeper` says so.
"""

import importlib.util
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

from tests.ports import free_port

_DEBIAN_JAR = Path("/usr/share/java/zookeeper.jar")
_START_DEADLINE_S = 60.0
_PROJECT = Path(__file__).parents[2]


class ServerProcess:
    """Starts, stops, kills and starts again, always on the same port and directory."""

    def __init__(self, kind: str, directory: Path, *, is_durable: bool = False, settings: str = "", in_own_group: bool = False) -> None:
        """`is_durable`: a real ZooKeeper syncs its transactions to the disk, as it does by default; tests can do without.

        `settings` are further lines of its configuration. `in_own_group`: Ctrl-C in the terminal does not reach it.
        """
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self._directory = directory
        self._command = (
            _real_command(self.port, directory, settings, is_durable=is_durable)
            if kind == "zookeeper"
            else _embedded_command(self.port, directory)
        )
        self._group = 0 if in_own_group else None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def has_ended(self) -> bool:
        """Whether it was started, and has ended by itself."""
        return self._process is not None and self._process.poll() is not None

    @property
    def is_running(self) -> bool:
        return self._process is not None

    @property
    def pid(self) -> int:
        assert self._process is not None, "it does not run"
        return self._process.pid

    @property
    def mode(self) -> str:
        """What it is by its own words: `standalone`, `leader`, `follower`; empty while it does not serve clients."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(b"srvr")
                answer = b"".join(iter(lambda: connection.recv(4096), b"")).decode()
        except OSError:
            return ""
        # One that still loads its tree answers `ruok` with yes, but refuses clients; `srvr` shows the difference.
        return answer.partition("Mode: ")[2].partition("\n")[0]

    def start(self) -> None:
        """Start, and return when it serves clients."""
        self.launch()
        self.await_serving()

    def launch(self) -> None:
        """Start it, and do not wait: a member of an ensemble serves no client before the others are there."""
        with (self._directory / "server.out").open("ab") as output:
            self._process = subprocess.Popen(
                self._command, cwd=_PROJECT, stdin=subprocess.DEVNULL, stdout=output, stderr=output, process_group=self._group
            )

    def await_serving(self) -> None:
        """Return when it serves clients."""
        assert self._process is not None
        deadline = time.monotonic() + _START_DEADLINE_S
        while not self.mode:
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise AssertionError(f"the server did not start:\n{(self._directory / 'server.out').read_text()[-4000:]}")
            time.sleep(0.02)

    def stop(self) -> None:
        """Ask it to end, and wait."""
        self._end("terminate")

    def kill(self) -> None:
        """End it as a crash would."""
        self._end("kill")

    def _end(self, how: str) -> None:
        if self._process is not None:
            getattr(self._process, how)()
            self._process.wait(30)
            self._process = None


class Ensemble:
    """Several real ZooKeepers on this machine that are one. On a busy machine they have 20 s for each other; a death is noticed at once."""

    def __init__(self, directory: Path, *, size: int = 3) -> None:
        ports = [(free_port(), free_port()) for _ in range(size)]
        members = "".join(f"server.{n}=127.0.0.1:{quorum}:{election}\n" for n, (quorum, election) in enumerate(ports, 1))
        self.members = []
        for number in range(1, size + 1):
            own = directory / f"zookeeper-{number}"
            (own / "data").mkdir(parents=True, exist_ok=True)
            (own / "data" / "myid").write_text(f"{number}\n")
            self.members.append(ServerProcess("zookeeper", own, settings=f"initLimit=240\nsyncLimit=80\n{members}"))
        self.address = ",".join(member.address for member in self.members)

    @property
    def leader(self) -> ServerProcess:
        """The member that leads now; AssertionError if there is none."""
        leaders = [member for member in self.members if member.is_running and member.mode == "leader"]
        assert leaders, "the ensemble has no leader"
        return leaders[0]

    def start(self) -> None:
        """Start all, and return when they all serve clients."""
        for member in self.members:
            member.launch()
        for member in self.members:
            member.await_serving()

    def kill(self) -> None:
        """End all as a crash would."""
        for member in self.members:
            member.kill()


def missing_zookeeper() -> str | None:
    """Why there is no real ZooKeeper here, or None."""
    if shutil.which("java") is None:
        return "no Java here: a real ZooKeeper needs a JRE (Debian: openjdk-17-jre-headless)"
    if _classpath() is None:
        return "no ZooKeeper here: apt-get install -y --no-install-recommends zookeeper (or pip install pyspark)"
    return None


def _classpath() -> str | None:
    if _DEBIAN_JAR.exists():
        return str(_DEBIAN_JAR)
    pyspark = importlib.util.find_spec("pyspark")
    if pyspark is not None and pyspark.origin is not None:
        jars = Path(pyspark.origin).parent / "jars"
        if any(jars.glob("zookeeper-[0-9]*.jar")):
            return f"{jars}/*"
    return None


def _embedded_command(port: int, directory: Path) -> list[str]:
    return [sys.executable, "-m", "tests.cluster.embedded_server", str(directory / "data"), str(port)]


def _real_command(port: int, directory: Path, settings: str, *, is_durable: bool) -> list[str]:
    configuration = directory / "zoo.cfg"
    configuration.write_text(
        f"tickTime=250\ndataDir={directory / 'data'}\nclientPort={port}\nclientPortAddress=127.0.0.1\nmaxClientCnxns=0\n"
        "minSessionTimeout=500\nmaxSessionTimeout=60000\nadmin.enableServer=false\n4lw.commands.whitelist=*\n"
        f"{settings}"
    )
    options = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dfile.encoding=UTF-8"]
    if not is_durable:
        options.append("-Dzookeeper.forceSync=no")
    classpath = _classpath()
    assert classpath is not None
    return ["java", *options, "-cp", classpath, "org.apache.zookeeper.server.quorum.QuorumPeerMain", str(configuration)]
