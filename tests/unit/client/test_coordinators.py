"""Requests find their coordinators, and find them again."""

from types import SimpleNamespace
from typing import Any

import pytest

from millstream.client.codecs.request import MessageRequest
from millstream.client.coordinators import GROUP, TRANSACTION, Coordinators
from millstream.client.errors import BrokerUnavailable, kafka_error
from millstream.errors import InvalidGroupId, NotCoordinator
from millstream.wire.api import ApiKey
from tests.unit.client.model_cluster import ModelCluster

REQUEST: MessageRequest[Any] = MessageRequest(ApiKey.END_TXN, {})


def read(answer: Any) -> int:
    if answer.error_code:
        raise kafka_error(answer.error_code)
    return int(answer.broker)


def read_of(_key: str, answer: Any) -> int:
    return read(answer)


def answer_of(broker: int, _request: MessageRequest[Any]) -> Any:
    return SimpleNamespace(error_code=0, broker=broker)


def test_many_keys_are_found_with_one_question_and_asked_at_once() -> None:
    cluster = ModelCluster({"a": 1, "b": 2, "c": 1}, answer_of)
    coordinators = Coordinators(cluster.as_cluster, TRANSACTION, timeout_s=5)
    for _ in range(2):
        assert coordinators.ask_all(dict.fromkeys("abc", REQUEST), read_of) == {"a": 1, "b": 2, "c": 1}
    assert cluster.finds == 1
    assert coordinators.ask("b", REQUEST, read) == 2
    assert coordinators.ask_all({}, read_of) == {}
    assert cluster.finds == 1


def test_a_coordinator_that_moved_or_is_gone_is_found_again_and_others_are_not_asked_twice() -> None:
    cluster = ModelCluster({"a": 1, "b": 2}, answer_of)
    coordinators = Coordinators(cluster.as_cluster, TRANSACTION, timeout_s=5)
    cluster.gone = {2}

    def move(broker: int, request: MessageRequest[Any]) -> Any:
        cluster.coordinators["b"] = 3
        return answer_of(broker, request)

    cluster.answer = move
    assert coordinators.ask_all(dict.fromkeys("ab", REQUEST), read_of) == {"a": 1, "b": 3}
    assert [broker for broker, _ in cluster.sent] == [1, 2, 3]


def test_an_answer_that_another_broker_coordinates_is_asked_again_there() -> None:
    cluster = ModelCluster({"g": 1}, answer_of)
    coordinators = Coordinators(cluster.as_cluster, GROUP, timeout_s=5)

    def not_here(broker: int, request: MessageRequest[Any]) -> Any:
        cluster.coordinators["g"] = 2
        return SimpleNamespace(error_code=NotCoordinator.code) if broker == 1 else answer_of(broker, request)

    cluster.answer = not_here
    assert coordinators.ask("g", REQUEST, read) == 2


def test_other_errors_and_the_end_of_patience_are_raised() -> None:
    cluster = ModelCluster({"g": 1}, lambda *_: SimpleNamespace(error_code=InvalidGroupId.code))
    coordinators = Coordinators(cluster.as_cluster, GROUP, timeout_s=0.1)
    with pytest.raises(InvalidGroupId):
        coordinators.ask("g", REQUEST, read)
    assert len(cluster.sent) == 1
    cluster.gone = {1}
    with pytest.raises(BrokerUnavailable, match="broker 1 is gone"):
        coordinators.ask("g", REQUEST, read)
