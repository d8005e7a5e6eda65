"""A tree of znodes, and a watcher that follows it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from millstream.broker.cluster.registration import prepare_tree
from millstream.coordination.embedded import EmbeddedCoordination
from millstream.files import Files
from tests.manual_clock import ManualClock
from tests.unit.coordination.following import Follower


@pytest.fixture
async def coordination(tmp_path: Path) -> AsyncIterator[EmbeddedCoordination]:
    opened = await EmbeddedCoordination.open(tmp_path, files=Files(), clock=ManualClock(), broker_session_name="b", is_synced=False)
    await prepare_tree(opened, cluster_id="cluster")
    yield opened
    await opened.close()


@pytest.fixture
async def follower(coordination: EmbeddedCoordination) -> AsyncIterator[Follower]:
    follower = Follower(coordination)
    await follower.watcher.load()
    running = asyncio.create_task(follower.watcher.run())
    yield follower
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
