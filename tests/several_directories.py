"""A broker with several data directories, which a test can take away, empty, swap and leave out."""

from pathlib import Path

import pytest

from tests.brokers import MillstreamBroker
from tests.topics import create_topic, produce_values, read_all


class SeveralDirectoriesBroker(MillstreamBroker):
    """`millstream serve --data ... --data ...`; a test may change the flags between two lives."""

    def __init__(self, directory: Path, *paths: Path, zookeeper: str = "") -> None:
        directory.mkdir(parents=True, exist_ok=True)
        super().__init__(directory, {}, zookeeper=zookeeper)
        self.paths = list(paths)
        self.forgotten: list[str] = []

    @property
    def data_directories(self) -> list[Path]:
        return self.paths

    def command(self) -> list[str]:
        return [*super().command(), *(f"--forget-directory={forgotten}" for forgotten in self.forgotten)]

    def refusal(self) -> str:
        """The last line of a start that is refused; one line, without a traceback."""
        with pytest.raises(AssertionError, match="ended with 1 before it was ready"):
            self.start()
        assert "Traceback" not in self.output
        return self.output.splitlines()[-1]


def fill(broker: SeveralDirectoriesBroker, *, partitions: int = 4) -> str:
    """A topic with one record in each partition, spread over the directories."""
    topic = create_topic(broker, partitions=partitions)
    for partition in range(partitions):
        produce_values(broker, topic, [f"{partition}".encode()], partition=partition)
    return topic


def content(broker: SeveralDirectoriesBroker, topic: str, *, partitions: int = 4) -> list[bytes | None]:
    """The values of all partitions, one after the other."""
    return [record.value for partition in range(partitions) for record in read_all(broker, topic, partition=partition)]


def partitions_in(path: Path) -> set[str]:
    """The names of the logs in a data directory."""
    return {found.name for found in path.iterdir() if found.is_dir() and found.name != "coordination"}


def directory_id(path: Path) -> str:
    """The id of a data directory, as its own file tells it."""
    lines = (path / "meta.properties").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)["directory.id"]
