"""A broker that passes requests on, with a controller that is a function."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from millstream.broker.cluster import forwarding as module
from millstream.broker.cluster.envelope import Envelope, EnvelopeAnswer
from millstream.broker.cluster.forwarding import RequestForwarding
from millstream.broker.cluster.peers import Peers
from millstream.broker.network.api import Fields, Forwarding, Later, Request, api
from millstream.broker.network.router import Router
from millstream.client.errors import BrokerUnavailable
from millstream.coordination.cluster_view import ClusterView
from millstream.coordination.cluster_watcher import ClusterWatcher
from millstream.errors import InvalidRequest, KafkaError, MalformedFrame, NotController
from millstream.replication_errors import BrokerIdNotRegistered, StaleBrokerEpoch
from millstream.wire.api import ApiKey
from millstream.wire.messages import encode_response
from tests.unit.broker.handlers.desk import Desk

ME, OTHER = 1, 2


class Watcher:
    """A view that tests change by hand."""

    def __init__(self, controller_id: int) -> None:
        self.view = ClusterView(controller_id=controller_id)
        self.caught_up = 0
        self._changed = asyncio.Event()

    def elect(self, controller_id: int) -> None:
        self.view = ClusterView(controller_id=controller_id)
        self._changed.set()

    async def until(self, predicate: Callable[[ClusterView], bool], *, timeout_ms: int) -> bool:
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._changed.wait()
        except TimeoutError:
            return predicate(self.view)
        return True

    async def catch_up(self, _stale: object, *, timeout_ms: int) -> bool:
        self.caught_up += 1
        return timeout_ms > 0


class Controller:
    """The other broker, as far as its answers go."""

    def __init__(self, *answers: EnvelopeAnswer | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[Envelope] = []

    async def ask(self, node_id: int, request: Envelope, *, timeout_s: float) -> EnvelopeAnswer:
        assert node_id == OTHER
        self.asked.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


class Topics:
    """Deletes topics, where it may."""

    def __init__(self) -> None:
        self.is_controller = False
        self.clients: list[str | None] = []

    @api(ApiKey.DELETE_TOPICS, 1, 6, forwarding=Forwarding.WHOLE)
    def delete_topics(self, request: Request) -> Later:
        self.clients.append(request.session.client_id)
        return self._delete(request.decode().topic_names)

    async def _delete(self, names: list[str]) -> Fields:
        code = 0 if self.is_controller else NotController.code
        return {"responses": [{"name": name, "error_code": code} for name in names]}


class Setting:
    """One broker and its surroundings."""

    def __init__(self, watcher: Watcher, controller: Controller) -> None:
        self.watcher, self.controller, self.topics, self.desk = watcher, controller, Topics(), Desk()
        router = Router([self.topics.delete_topics], spawn=lambda work: work.close())
        self.forwarding = RequestForwarding(
            cast(ClusterWatcher, watcher),
            router.carry_out,
            node_id=ME,
            broker_epoch=lambda: 40,
            new_peers=lambda: cast(Peers, controller),
        )

    async def delete(self, name: str) -> Any:
        answer = await self.desk.ask(self.forwarding.forward, ApiKey.DELETE_TOPICS, 3, topic_names=[name], timeout_ms=0)
        return [(response.name, response.error_code) for response in answer.responses]


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> EnvelopeAnswer:
    """The deletion of one topic, as the controller answers it; nothing is waited for for long."""
    monkeypatch.setattr(module, "SHORTEST_TIMEOUT_MS", 500)
    monkeypatch.setattr(module, "_RETRY_S", 0.001)
    reply: Fields = {"responses": [{"name": "orders", "error_code": 0}]}
    return EnvelopeAnswer(0, encode_response(ApiKey.DELETE_TOPICS, 3, correlation_id=1, reply=reply)[4:])


async def test_answer_of_the_controller_is_the_answer_and_this_broker_has_seen_what_was_done(answer: EnvelopeAnswer) -> None:
    setting = Setting(Watcher(OTHER), Controller(answer))
    assert await setting.delete("orders") == [("orders", 0)]
    assert (len(setting.controller.asked), setting.watcher.caught_up, setting.topics.clients) == (1, 1, [])


async def test_controller_carries_it_out_itself_for_the_client_that_asked(answer: EnvelopeAnswer) -> None:
    setting = Setting(Watcher(ME), Controller())
    setting.topics.is_controller = True
    assert await setting.delete("orders") == [("orders", 0)]
    assert (setting.watcher.caught_up, setting.topics.clients) == (0, [setting.desk.session.client_id])


async def test_request_waits_for_an_election(answer: EnvelopeAnswer) -> None:
    setting = Setting(Watcher(-1), Controller(answer))
    deleting = asyncio.create_task(setting.delete("orders"))
    await asyncio.sleep(0.01)
    assert not deleting.done()
    setting.watcher.elect(OTHER)
    assert await deleting == [("orders", 0)]


@pytest.mark.parametrize("controller_id", [-1, ME])
async def test_without_a_controller_a_client_is_told_so_when_its_time_is_up(answer: EnvelopeAnswer, controller_id: int) -> None:
    setting = Setting(Watcher(controller_id), Controller())
    assert await setting.delete("orders") == [("orders", NotController.code)]


async def test_controller_that_is_gone_or_is_none_or_does_not_know_this_broker_yet_is_asked_again(answer: EnvelopeAnswer) -> None:
    not_controller, not_known = EnvelopeAnswer(NotController.code, b""), EnvelopeAnswer(BrokerIdNotRegistered.code, b"")
    setting = Setting(Watcher(OTHER), Controller(BrokerUnavailable("gone"), not_controller, not_known, answer))
    assert await setting.delete("orders") == [("orders", 0)]


async def test_broker_that_is_not_registered_in_time_answers_what_clients_ask_again_after(
    answer: EnvelopeAnswer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SHORTEST_TIMEOUT_MS", 20)
    setting = Setting(Watcher(OTHER), Controller(*[EnvelopeAnswer(StaleBrokerEpoch.code, b"")] * 1_000))
    assert await setting.delete("orders") == [("orders", NotController.code)]


async def test_refusal_of_the_envelope_is_no_answer(answer: EnvelopeAnswer) -> None:
    setting = Setting(Watcher(OTHER), Controller(EnvelopeAnswer(InvalidRequest.code, b"")))
    with pytest.raises(KafkaError):
        await setting.delete("orders")


async def test_slow_request_does_not_hold_up_another_one(answer: EnvelopeAnswer, monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[Controller] = []

    def new_peers() -> Peers:
        used.append(Controller(answer, answer))
        return cast(Peers, used[-1])

    setting = Setting(Watcher(OTHER), Controller())
    monkeypatch.setattr(setting.forwarding, "_new_peers", new_peers)
    go_on = asyncio.Event()
    slow = Controller.ask

    async def wait(self: Controller, node_id: int, request: Envelope, *, timeout_s: float) -> EnvelopeAnswer:
        if self is used[0]:
            await go_on.wait()
        return await slow(self, node_id, request, timeout_s=timeout_s)

    monkeypatch.setattr(Controller, "ask", wait)
    first = asyncio.create_task(setting.delete("orders"))
    await asyncio.sleep(0)
    assert await setting.delete("orders") == await setting.delete("orders") == [("orders", 0)]
    assert (first.done(), len(used)) == (False, 2)
    go_on.set()
    assert await first == [("orders", 0)]


async def test_request_that_does_not_fit_into_an_envelope_ends_the_connection_of_its_client(answer: EnvelopeAnswer) -> None:
    setting = Setting(Watcher(OTHER), Controller(answer))
    names = ["x" * 30_000] * (module.LARGEST_REQUEST_BYTES // 30_000 + 1)
    with pytest.raises(MalformedFrame, match="above the limit"):
        await setting.desk.ask(setting.forwarding.forward, ApiKey.DELETE_TOPICS, 3, topic_names=names, timeout_ms=0)
