import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from millstream.broker.cluster.controller_channel import ControllerChannel, Local
from millstream.broker.cluster.peers import Peers
from millstream.client.codecs.request import MessageRequest, Request
from millstream.client.errors import AnswerTimedOut, BrokerUnavailable
from millstream.coordination.cluster_view import ClusterView
from millstream.errors import NotController
from millstream.wire.api import ApiKey
from tests.waiting import eventually

REQUEST: MessageRequest[Any] = MessageRequest(ApiKey.ALTER_PARTITION, {})
SELF, OTHER = 1, 2


class Answer(NamedTuple):
    error_code: int
    by: int


class Cluster:
    """A view that the test changes, and brokers that answer as it says."""

    def __init__(self, controller: int) -> None:
        self.view = ClusterView(controller_id=controller)
        self.asked: list[int] = []
        self.answers: dict[int, list[Answer | Exception]] = {}
        self._changed = asyncio.Event()

    def elect(self, controller: int) -> None:
        self.view = ClusterView(controller_id=controller)
        self._changed.set()

    def channel(self, local: Local | None = None) -> ControllerChannel:
        peers = Peers(view=lambda: self.view, client_id="test")
        peers.ask = self._ask  # type: ignore[method-assign,assignment]
        return ControllerChannel(peers, node_id=SELF, view=lambda: self.view, until=self._until, local=local or self._local)

    async def _until(self, predicate: Callable[[ClusterView], bool], *, timeout_ms: int) -> bool:
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while not predicate(self.view):
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return False
        return True

    async def _ask(self, node_id: int, _request: Request[Any], *, timeout_s: float) -> Any:
        return self._answered_by(node_id)

    async def _local(self, _request: Request[Any]) -> Any:
        return self._answered_by(SELF)

    def _answered_by(self, node_id: int) -> Answer:
        self.asked.append(node_id)
        answer = self.answers[node_id].pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


async def test_the_broker_that_the_view_names_is_asked() -> None:
    cluster = Cluster(OTHER)
    cluster.answers[OTHER] = [Answer(0, OTHER)]
    assert await cluster.channel().ask(REQUEST, timeout_s=5) == Answer(0, OTHER)


async def test_the_own_broker_is_asked_without_a_socket() -> None:
    cluster = Cluster(SELF)
    cluster.answers[SELF] = [Answer(0, SELF)]
    assert await cluster.channel().ask(REQUEST, timeout_s=5) == Answer(0, SELF)


async def test_other_errors_are_the_callers() -> None:
    cluster = Cluster(OTHER)
    cluster.answers[OTHER] = [Answer(77, OTHER)]
    assert await cluster.channel().ask(REQUEST, timeout_s=5) == Answer(77, OTHER)


@pytest.mark.parametrize("trouble", [Answer(NotController.code, OTHER), BrokerUnavailable("gone"), NotController("not yet")])
async def test_a_controller_that_is_none_is_asked_again_after_a_pause(trouble: Answer | Exception) -> None:
    cluster = Cluster(OTHER)
    cluster.answers[OTHER] = [trouble, Answer(0, OTHER)]
    assert await cluster.channel().ask(REQUEST, timeout_s=5) == Answer(0, OTHER)
    assert cluster.asked == [OTHER, OTHER]


async def test_a_new_controller_is_asked_as_soon_as_the_view_names_it() -> None:
    cluster = Cluster(-1)
    cluster.answers = {OTHER: [BrokerUnavailable("killed")], SELF: [Answer(0, SELF)]}
    asking = asyncio.create_task(cluster.channel().ask(REQUEST, timeout_s=30))
    await asyncio.sleep(0)
    cluster.elect(OTHER)
    await eventually(lambda: cluster.asked)
    cluster.elect(SELF)
    assert await asking == Answer(0, SELF)
    assert cluster.asked == [OTHER, SELF]


async def test_without_a_controller_the_time_runs_out() -> None:
    with pytest.raises(NotController, match=r"there was no controller for 0.05 s"):
        await Cluster(-1).channel().ask(REQUEST, timeout_s=0.05)


async def test_the_last_trouble_is_raised_when_the_time_is_up() -> None:
    cluster = Cluster(OTHER)
    cluster.answers[OTHER] = [BrokerUnavailable("gone")] * 10
    with pytest.raises(BrokerUnavailable, match="gone"):
        await cluster.channel().ask(REQUEST, timeout_s=0.05)


async def test_a_controller_in_this_broker_that_takes_too_long_is_given_up() -> None:
    async def never(_request: Request[Any]) -> Any:
        await asyncio.Event().wait()

    with pytest.raises(AnswerTimedOut, match="this broker"):
        await Cluster(SELF).channel(local=never).ask(REQUEST, timeout_s=0.05)


async def test_controller_that_is_replaced_before_it_answers_is_not_waited_for() -> None:
    cluster = Cluster(OTHER)
    channel = cluster.channel()

    async def paused(node_id: int, _request: Request[Any], *, timeout_s: float) -> Any:
        cluster.asked.append(node_id)
        await asyncio.sleep(timeout_s)

    channel._peers.ask = paused  # type: ignore[method-assign,assignment]
    cluster.answers[SELF] = [Answer(0, SELF)]
    asking = asyncio.create_task(channel.ask(REQUEST, timeout_s=20))
    await eventually(lambda: cluster.asked == [OTHER])
    cluster.elect(SELF)
    assert await asking == Answer(0, SELF)
