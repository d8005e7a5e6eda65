"""Millstream, through its command line."""

import sys
from collections.abc import Sequence
from pathlib import Path

from bench.case import BenchError
from bench.peers.broker import Broker, Peer


class Millstream(Peer):
    """The `millstream` command that was installed beside the running Python."""

    name = "millstream"

    def __init__(self, options: Sequence[str] = (), *, zookeeper: str | None = None) -> None:
        self.options = tuple(options)
        self.coordination = ("--coordination", "127.0.0.1:0") if zookeeper is None else ("--zookeeper", zookeeper)

    def command(self, directory: Path, port: int) -> Sequence[str]:
        executable = Path(sys.executable).with_name("millstream")
        extra = [argument for option in self.options for argument in ("-X", option)]
        return [
            str(executable),
            "serve",
            "--listen",
            f"127.0.0.1:{port}",
            *self.coordination,
            "--data",
            str(directory),
            *extra,
        ]


def coordination_of(broker: Broker) -> str:
    """Where the znodes of a running Millstream are, from its ready line."""
    for line in broker.output.read_text(errors="replace").splitlines():
        if line.startswith("ready:"):
            words = line.split()
            return words[words.index("coordination") + 1]
    raise BenchError(f"{broker.name} has no ready line, or no coordination")
