"""A controller at work."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from millstream.broker.cluster import active_controller as module
from tests.unit.broker.cluster.controlled_cluster import Cluster


@pytest.fixture
async def cluster(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Cluster]:
    monkeypatch.setattr(module, "RETRY_S", 0.001)
    cluster = Cluster()
    running = asyncio.create_task(cluster.controller.run())
    yield cluster
    assert not running.done()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
