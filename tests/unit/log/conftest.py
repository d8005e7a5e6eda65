"""A log directory, and logs in it that a test can close, crash and open again."""

from collections.abc import Callable
from pathlib import Path

import pytest

from millstream.files import Files
from millstream.log.config import LogConfig
from millstream.log.directories.directory import LogDirectory
from millstream.log.loading import LoadOrder
from millstream.log.log import Log
from millstream.topic_partition import TopicPartition

NOW_MS = 1_700_000_000_000

OpenLog = Callable[..., Log]


@pytest.fixture
def files() -> Files:
    return Files()


@pytest.fixture
def directory(tmp_path: Path, files: Files) -> LogDirectory:
    return LogDirectory(files, tmp_path, on_offline=lambda _directory, _error: None)


@pytest.fixture
def open_log(directory: LogDirectory) -> OpenLog:
    def open_again(*, is_clean: bool = True, recovery_point: int = 0, log_start_offset: int = 0, **options: object) -> Log:
        path = directory.path / "orders-0"
        directory.files.make_directory(path)
        config = LogConfig.of({name.replace("_", "."): value for name, value in options.items()})
        order = LoadOrder(config, NOW_MS, is_clean=is_clean, recovery_point=recovery_point, log_start_offset=log_start_offset)
        return Log(directory, TopicPartition("orders", 0), path, order)

    return open_again


@pytest.fixture
def log(open_log: OpenLog) -> Log:
    return open_log()
