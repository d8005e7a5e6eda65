"""Brokers that publish metrics, and their pages."""

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tests.brokers import MillstreamBroker, Options

INTERVAL_S = 0.3
FLAGS = ("--no-registry", "--metrics", "127.0.0.1:0", "--metrics-interval", str(INTERVAL_S))
"""On a free port, taken several times a second."""


class PublishingBroker(MillstreamBroker):
    """`millstream serve` with metrics."""

    def __init__(self, directory: Path, options: Options) -> None:
        super().__init__(directory, options)
        self.flags = list(FLAGS)

    @property
    def metrics_address(self) -> str:
        """Where the ready line says that the metrics are."""
        return metrics_address(self)

    @property
    def publishers(self) -> list[int]:
        """The processes that publish for this broker."""
        listed = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return [int(pid) for pid in listed if b"millstream.monitoring.process" in Path(f"/proc/{pid}/cmdline").read_bytes()]

    def page(self, path: str) -> tuple[int, str]:
        """Status and text."""
        return page(self, path)

    def series(self) -> dict[str, float]:
        """The values by name and labels."""
        return series(self)


def metrics_address(broker: MillstreamBroker) -> str:
    """Where the ready line says that the metrics are."""
    ready = next(line for line in broker.stdout.read_text().splitlines() if line.startswith("ready:"))
    words = ready.removeprefix("ready:").split()
    return dict(zip(words[::2], words[1::2], strict=True))["metrics"]


def page(broker: MillstreamBroker, path: str) -> tuple[int, str]:
    """Status and text."""
    try:
        with urllib.request.urlopen(f"http://{metrics_address(broker)}{path}", timeout=60) as answer:
            return int(answer.status), answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def series(broker: MillstreamBroker) -> dict[str, float]:
    """The values by name and labels."""
    status, text = page(broker, "/metrics")
    assert status == 200, text
    lines = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in lines}


def ask_json(url: str) -> Any:
    """What an HTTP API answers."""
    with urllib.request.urlopen(url, timeout=60) as answer:
        return json.load(answer)
