"""An embedded tree, with one session for each consumer of a test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from millstream.clock import SystemClock
from millstream.coordination import paths
from millstream.coordination.embedded import EmbeddedCoordination
from millstream.files import Files
from millstream.zookeeper.keeper import TreeKeeper


@pytest.fixture
async def keeper(tmp_path: Path) -> AsyncIterator[TreeKeeper]:
    opened = await TreeKeeper.open(tmp_path, files=Files(), clock=SystemClock(), is_synced=False)
    yield opened
    await opened.close()


@pytest.fixture
async def ann(keeper: TreeKeeper) -> EmbeddedCoordination:
    session = EmbeddedCoordination(keeper, broker_session_name="ann")
    for path in paths.PERSISTENT_PARENTS:
        await session.create(path)
    return session


@pytest.fixture
async def bob(ann: EmbeddedCoordination, keeper: TreeKeeper) -> EmbeddedCoordination:
    return EmbeddedCoordination(keeper, broker_session_name="bob")
