"""A registry as a process on a broker of a benchmark, and a raw client that costs little beside it."""

import re
import socket
import subprocess
import sys
from pathlib import Path
from time import monotonic
from typing import Self

from bench.case import BenchError
from bench.measure import cpu_seconds, resident_bytes

LENGTH = re.compile(rb"content-length: (\d+)")


class Registry:
    """`millstream registry serve`, from exec to ready."""

    def __init__(self, bootstrap_servers: str, directory: Path) -> None:
        command = [str(Path(sys.executable).with_name("millstream")), "registry", "serve", "-b", bootstrap_servers]
        self.stderr = (directory / "registry.stderr").open("ab")
        started = monotonic()
        arguments = [*command, "--listen", "127.0.0.1:0", "--log-level", "warning"]
        self.process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=self.stderr, stdin=subprocess.DEVNULL)
        assert self.process.stdout is not None
        try:
            line = self.process.stdout.readline()
            self.start_seconds = monotonic() - started
            if not line.startswith(b"ready: registry "):
                raise BenchError(f"the registry did not become ready: {line!r}")
            self.port = int(line.rpartition(b":")[2])
        except BaseException:
            self.stop()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def cpu_seconds(self) -> float:
        return cpu_seconds(self.process.pid)

    def resident_bytes(self) -> int:
        return resident_bytes(self.process.pid)

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
        self.stderr.close()


class RawClient:
    """Connections on which one request each is under way."""

    def __init__(self, port: int, connections: int) -> None:
        self._sockets = [socket.create_connection(("127.0.0.1", port)) for _ in range(connections)]
        for one in self._sockets:
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask_all(self, request: bytes) -> None:
        """The request on every connection, and every answer."""
        for one in self._sockets:
            one.sendall(request)
        for one in self._sockets:
            _answer(one)

    def close(self) -> None:
        for one in self._sockets:
            one.close()


def _answer(connection: socket.socket) -> None:
    data = b""
    while True:
        data += connection.recv(65536)
        end = data.find(b"\r\n\r\n")
        if end >= 0:
            length = LENGTH.search(data)
            if not data.startswith(b"HTTP/1.1 200") or length is None:
                raise BenchError(f"the registry answered {data[:200]!r}")
            if len(data) >= end + 4 + int(length[1]):
                return
