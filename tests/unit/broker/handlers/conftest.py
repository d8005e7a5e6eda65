"""A broker's partitions, and a desk to ask at."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from millstream.broker.handlers.fetch.fetch_sessions import FetchSessions
from millstream.broker.network.region_loader import RegionLoader
from millstream.cluster.partition import Partition
from millstream.cluster.replicas import Replicas
from millstream.coordination.cluster_view import TopicState
from millstream.log.config import LogConfig
from millstream.log.directories.manager import LogManager
from tests.manual_clock import ManualClock
from tests.unit.broker.handlers.desk import Desk
from tests.unit.broker.handlers.session_reader import COUNT, STATE, CountingFamily, view
from tests.unit.cluster.hosting import replicas_on


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as executor:
        yield executor


def config_of(topic: TopicState) -> LogConfig:
    return LogConfig.of({name: int(value) if value.isdigit() else value for name, value in topic.configs.items()})


@pytest.fixture
def replicas(logs: LogManager) -> Replicas:
    return replicas_on(logs, log_config=config_of)


@pytest.fixture
async def partitions(replicas: Replicas) -> list[Partition]:
    await replicas.apply(view(*[STATE] * COUNT))
    return list(replicas)


@pytest.fixture
def family(replicas: Replicas, executor: ThreadPoolExecutor, clock: ManualClock) -> CountingFamily:
    sessions = FetchSessions(max_sessions=2, min_idle_ms=1000)
    return CountingFamily(replicas, sessions=sessions, loader=RegionLoader(executor), clock=clock, max_bytes=1 << 20)
