"""Penstock, through its command line."""

import sys
from collections.abc import Sequence
from pathlib import Path

from bench.peers.broker import Peer


class Penstock(Peer):
    """The `penstock` command that was installed beside the running Python."""

    name = "penstock"

    def __init__(self, options: Sequence[str] = ()) -> None:
        self.options = tuple(options)

    def command(self, directory: Path, port: int) -> Sequence[str]:
        executable = Path(sys.executable).with_name("penstock")
        extra = [argument for option in self.options for argument in ("-X", option)]
        return [
            str(executable),
            "serve",
            "--listen",
            f"127.0.0.1:{port}",
            "--coordination",
            "127.0.0.1:0",
            "--data",
            str(directory),
            *extra,
        ]
