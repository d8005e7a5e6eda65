"""A broker's partitions, and a desk to ask at."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from millstream.cluster.replicas import Replicas
from millstream.coordination.cluster_view import TopicState
from millstream.log.config import LogConfig
from millstream.log.directories.manager import LogManager
from tests.unit.broker.handlers.desk import Desk
from tests.unit.cluster.hosting import replicas_on, started_logs


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as executor:
        yield executor


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[LogManager]:
    logs = started_logs(tmp_path)
    yield logs
    logs.close()


def config_of(topic: TopicState) -> LogConfig:
    return LogConfig.of({name: int(value) if value.isdigit() else value for name, value in topic.configs.items()})


@pytest.fixture
def replicas(logs: LogManager) -> Replicas:
    return replicas_on(logs, log_config=config_of)
