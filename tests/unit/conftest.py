"""What unit tests of more than one package share: a log manager in a temporary directory."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from millstream.log.directories.manager import LogManager
from tests.unit.cluster.hosting import started_logs


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[LogManager]:
    logs = started_logs(tmp_path)
    yield logs
    logs.close()
