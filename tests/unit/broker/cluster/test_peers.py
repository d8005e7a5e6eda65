import asyncio
import logging
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from millstream.address import Address
from millstream.broker.cluster.peers import Peers
from millstream.client.codecs.metadata import metadata_request
from millstream.client.errors import AnswerTimedOut, BrokerUnavailable
from millstream.coordination.cluster_view import BrokerState, ClusterView
from tests.unit.client.controller_peer import ControllerPeer
from tests.waiting import eventually

METADATA = metadata_request([])


class Views:
    """The cluster as the test wants it to be seen."""

    def __init__(self) -> None:
        self.view = ClusterView()

    def has(self, node_id: int, address: Address, *, epoch: int = 1) -> None:
        broker = BrokerState(node_id, *address, epoch=epoch)
        self.view = ClusterView(brokers={**self.view.brokers, node_id: broker})


@asynccontextmanager
async def peers_of(views: Views, *, connect_timeout_s: float = 5.0) -> AsyncIterator[Peers]:
    peers = Peers(view=lambda: views.view, client_id="broker-1", connect_timeout_s=connect_timeout_s)
    try:
        yield peers
    finally:
        peers.close()


def free_address() -> Address:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return Address(*listener.getsockname())


async def controller_of(peers: Peers, node_id: int = 2, *, timeout_s: float = 5.0) -> int:
    return (await peers.ask(node_id, METADATA, timeout_s=timeout_s)).controller_id


async def test_requests_to_a_broker_share_one_connection() -> None:
    views = Views()
    async with ControllerPeer(controller=7) as broker, peers_of(views) as peers:
        views.has(2, broker.address)
        assert await asyncio.gather(*(controller_of(peers) for _ in range(5))) == [7] * 5
        assert broker.accepted == 1


async def test_a_broker_that_is_not_registered_is_unavailable() -> None:
    async with peers_of(Views()) as peers:
        with pytest.raises(BrokerUnavailable, match="broker 2 is not registered"):
            await controller_of(peers)


async def test_a_broker_is_asked_where_brokers_reach_it_and_not_where_clients_do() -> None:
    views = Views()
    async with ControllerPeer(controller=7) as broker, peers_of(views) as peers:
        views.view = ClusterView(brokers={2: BrokerState(2, *free_address(), epoch=1, inter_broker=broker.address)})
        assert await controller_of(peers) == 7


async def test_a_connection_that_broke_is_opened_again() -> None:
    views = Views()
    async with ControllerPeer(controller=7) as broker, peers_of(views) as peers:
        views.has(2, broker.address)
        await controller_of(peers)
        broker.drop()
        async with asyncio.timeout(10):
            while True:
                try:
                    assert await controller_of(peers) == 7
                    break
                except BrokerUnavailable:
                    continue
        assert broker.accepted == 2


async def test_a_broker_that_came_back_on_another_port_is_asked_there() -> None:
    views = Views()
    async with ControllerPeer(controller=7) as former, ControllerPeer(controller=8) as present, peers_of(views) as peers:
        views.has(2, former.address)
        assert await controller_of(peers) == 7
        views.has(2, present.address, epoch=2)
        assert await controller_of(peers) == 8
        await eventually(lambda: former.open_connections == 0)


async def test_a_broker_that_cannot_be_reached_is_logged_once_and_when_it_is_back(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="millstream.broker.cluster.peers")
    views = Views()
    async with ControllerPeer(controller=7) as broker, peers_of(views) as peers:
        views.has(2, free_address())
        for _ in range(3):
            with pytest.raises(BrokerUnavailable, match="connection refused"):
                await controller_of(peers)
        [refused] = [record.getMessage() for record in caplog.records]
        assert refused.startswith(
            f"broker 2 cannot be reached at {views.view.brokers[2].host}:{views.view.brokers[2].port}, which it advert"
        )
        views.has(2, broker.address)
        assert await controller_of(peers) == 7


async def test_a_pause_after_failures_ends_when_the_broker_registers_anew() -> None:
    views = Views()
    async with ControllerPeer(controller=7) as broker, peers_of(views) as peers:
        views.has(2, free_address())
        waiting = [asyncio.create_task(controller_of(peers)) for _ in range(2)]
        await asyncio.gather(*waiting, return_exceptions=True)
        late = asyncio.create_task(controller_of(peers))
        await asyncio.sleep(0)
        views.has(2, broker.address, epoch=2)
        assert await controller_of(peers) == 7
        assert await late == 7


async def test_a_caller_that_is_cancelled_leaves_the_connection_to_the_others() -> None:
    views = Views()
    async with ControllerPeer(controller=7) as broker, peers_of(views) as peers:
        views.has(2, broker.address)
        broker.is_held = True
        cancelled, kept = (asyncio.create_task(controller_of(peers)) for _ in range(2))
        await eventually(lambda: broker.asked == 1)
        cancelled.cancel()
        await asyncio.gather(cancelled, return_exceptions=True)
        broker.release()
        assert await kept == 7
        assert broker.accepted == 1


async def test_a_broker_that_does_not_answer_times_out() -> None:
    views = Views()
    async with ControllerPeer(controller=7) as broker, peers_of(views) as peers:
        views.has(2, broker.address)
        broker.is_held = True
        with pytest.raises(AnswerTimedOut):
            await controller_of(peers, timeout_s=0.05)


async def test_a_broker_that_does_not_even_speak_is_waited_for_no_longer_than_the_caller_said() -> None:
    views = Views()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        views.has(2, Address(*silent.getsockname()))
        async with peers_of(views) as peers:
            with pytest.raises(AnswerTimedOut, match=r"broker 2 was not reached within 0\.05 s"):
                await controller_of(peers, timeout_s=0.05)


@pytest.mark.parametrize("moment", ["opening", "asking", "later"])
async def test_closing_fails_whatever_is_under_way(moment: str) -> None:
    views = Views()
    async with ControllerPeer(controller=7) as broker, peers_of(views) as peers:
        views.has(2, broker.address)
        broker.is_held = True
        asked: Callable[[], bool] = {"opening": lambda: True, "asking": lambda: broker.asked > 0, "later": lambda: True}[moment]
        if moment == "later":
            peers.close()
        task = asyncio.create_task(controller_of(peers))
        await asyncio.sleep(0)
        await eventually(asked)
        peers.close()
        with pytest.raises(BrokerUnavailable):
            await task


async def test_a_process_without_descriptors_reaches_no_one_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even the module can be loaded then, if it is the first connection."""
    views = Views()
    async with ControllerPeer(controller=7) as broker, peers_of(views) as peers:
        views.has(2, broker.address)
        with monkeypatch.context() as few:
            few.setitem(sys.modules, "millstream.client.async_connection", None)
            with pytest.raises(BrokerUnavailable, match="no connection to"):
                await controller_of(peers)
        assert await controller_of(peers) == 7
