"""A broker that publishes metrics, and its pages."""

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tests.brokers import MillstreamBroker, Options

INTERVAL_S = 0.3


class PublishingBroker(MillstreamBroker):
    """`millstream serve` with metrics on a free port, taken several times a second."""

    def __init__(self, directory: Path, options: Options, *, node_id: int = 1, zookeeper: str = "") -> None:
        super().__init__(directory, options, node_id=node_id, zookeeper=zookeeper)
        self.flags = ["--no-registry", "--metrics", "127.0.0.1:0", "--metrics-interval", str(INTERVAL_S)]

    @property
    def metrics_address(self) -> str:
        """Where the ready line says that the metrics are."""
        ready = next(line for line in self.stdout.read_text().splitlines() if line.startswith("ready:"))
        words = ready.removeprefix("ready:").split()
        return dict(zip(words[::2], words[1::2], strict=True))["metrics"]

    @property
    def publishers(self) -> list[int]:
        """The processes that publish for this broker."""
        listed = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return [int(pid) for pid in listed if b"millstream.monitoring.process" in Path(f"/proc/{pid}/cmdline").read_bytes()]

    def page(self, path: str) -> tuple[int, str]:
        """Status and text."""
        try:
            with urllib.request.urlopen(f"http://{self.metrics_address}{path}", timeout=60) as answer:
                return int(answer.status), answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def series(self) -> dict[str, float]:
        """The values by name and labels."""
        status, text = self.page("/metrics")
        assert status == 200, text
        lines = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
        return {name: float(value) for name, _, value in lines}


def ask_json(url: str) -> Any:
    """What an HTTP API answers."""
    with urllib.request.urlopen(url, timeout=60) as answer:
        return json.load(answer)
