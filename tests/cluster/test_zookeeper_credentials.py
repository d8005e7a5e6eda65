"""Credentials: with them everyone may read the znodes, only brokers with the same may write them, and the paper's consumers go on."""

import asyncio
import logging
import socket
import uuid
from collections.abc import AsyncIterator

import pytest
from kazoo.exceptions import NoAuthError

from millstream.coordination import paths
from millstream.coordination.ensemble.kazoo_adapter import KazooCoordination
from millstream.coordination.interface import Create, SetData
from millstream.zookeeper.errors import ConnectionLost, NoAuth
from tests.cluster.server_process import ServerProcess
from tests.zookeeper_broker import tree_of

CREDENTIALS = "broker:s3cret:with a colon"


@pytest.fixture
def address(zookeeper: ServerProcess) -> str:
    return f"{zookeeper.address}/{uuid.uuid4().hex}/nested"


@pytest.fixture
async def owner(address: str) -> AsyncIterator[KazooCoordination]:
    session = await KazooCoordination.connect(address, credentials=CREDENTIALS)
    yield session
    await session.close()


async def test_everyone_reads_and_only_the_same_credentials_write(owner: KazooCoordination, address: str) -> None:
    await owner.create(paths.BROKERS)
    await owner.multi([Create(paths.BROKER_IDS), Create(paths.TOPICS, b"t")])
    await owner.create(paths.broker(1), b"first", ephemeral=True)
    same = await KazooCoordination.connect(address, credentials=CREDENTIALS)
    assert (await same.set(paths.TOPICS, b"changed")).version == 1
    await same.close()
    for credentials in (None, "broker:wrong"):
        other = await KazooCoordination.connect(address, credentials=credentials)
        assert (await other.get(paths.broker(1)))[0] == b"first"
        assert await other.children(paths.BROKERS) == ["ids", "topics"]
        for attempt in (
            other.set(paths.TOPICS, b""),
            other.create(paths.broker(2), ephemeral=True),
            other.delete(paths.broker(1)),
            other.multi([SetData(paths.TOPICS, b"")]),
            other.create("/new-root"),
        ):
            with pytest.raises(NoAuth, match="--zookeeper-credentials"):
                await attempt
        await other.close()


async def test_what_the_papers_consumers_write_stays_open(owner: KazooCoordination, address: str) -> None:
    await owner.create(paths.CONSUMERS)
    consumer = await KazooCoordination.connect(address)
    await consumer.create(f"{paths.CONSUMERS}/group/ids/c1", ephemeral=True, make_parents=True)
    await consumer.create(f"{paths.CONSUMERS}/group/offsets/t/0", b"7", make_parents=True)
    await owner.set(f"{paths.CONSUMERS}/group/offsets/t/0", b"8")
    await consumer.close()


async def test_the_levels_of_a_chroot_belong_to_who_made_them(owner: KazooCoordination, address: str, zookeeper: ServerProcess) -> None:
    with tree_of(zookeeper.address) as stranger:
        chroot = "/" + address.partition("/")[2]
        with pytest.raises(NoAuthError):
            stranger.create(f"{chroot}/mine")


async def test_credentials_come_along_after_a_reconnect(owner: KazooCoordination) -> None:
    await owner.create("/ours")
    owner._client._connection._socket.shutdown(socket.SHUT_RDWR)
    async with asyncio.timeout(20):
        while True:
            try:
                await owner.set("/ours", b"after")  # which may be done although it fails
                return
            except ConnectionLost:
                await asyncio.sleep(0.01)


async def test_credentials_are_not_logged_at_any_level(address: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "millstream.coordination.ensemble.kazoo_client")
    session = await KazooCoordination.connect(address, credentials=CREDENTIALS)
    await session.close()
    assert "Sending request" in caplog.text
    assert "s3cret" not in caplog.text
