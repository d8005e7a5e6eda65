"""What a scan that follows a topic does about brokers that do not answer, without any."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

from millstream.client.errors import BrokerUnavailable
from millstream.errors import NotLeaderOrFollower
from millstream.tables import follower
from millstream.tables.follower import Follower
from millstream.topic_partition import TopicPartition

PLACE = TopicPartition("views", 0)
ROWS = pa.record_batch({"value": [1]})
GONE = BrokerUnavailable("it is being restarted")


class FakeCluster:
    """A cluster that cannot be asked about its topics."""

    def refresh(self, _topics: object) -> None:
        raise GONE


class ScriptedFollower(Follower):
    """Gets these answers one after the other: an error, or what it makes one batch of."""

    def __init__(self, answers: list[Any]) -> None:
        options = SimpleNamespace(topic=PLACE.topic, read_committed=False, request_timeout_ms=30_000)
        super().__init__(cast("Any", options), cast("Any", SimpleNamespace(cluster=FakeCluster())))
        self._answers = iter(answers)
        self._followed[PLACE] = cast("Any", SimpleNamespace(decoder=SimpleNamespace(next_offset=0)))

    def _follow(self, place: TopicPartition, offset: int) -> None:
        raise AssertionError("nothing new is followed")

    def _ask_leaders(self) -> list[Any]:
        answer = next(self._answers)
        if isinstance(answer, Exception):
            raise answer
        return [answer]

    def _take(self, fetched: Any) -> Iterator[pa.RecordBatch]:
        if isinstance(fetched, int):
            self._handle_refusal(PLACE, self._followed[PLACE], fetched)
        else:
            yield fetched


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Time passes only where a test lets it."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(follower, "monotonic", lambda: clock.now)
    monkeypatch.setattr(follower, "sleep", lambda _: None)
    monkeypatch.setattr(ScriptedFollower, "_look_for_partitions", lambda _: None)
    return clock


def test_a_batch_that_is_looked_at_for_long_is_no_silence_of_the_brokers(clock: SimpleNamespace) -> None:
    batches = ScriptedFollower([ROWS, GONE, GONE, ROWS]).batches({})
    next(batches)
    clock.now += 3600
    assert next(batches) is ROWS


def test_a_broker_that_refuses_and_then_goes_away_is_waited_for(clock: SimpleNamespace) -> None:
    assert next(ScriptedFollower([NotLeaderOrFollower.code, GONE, ROWS]).batches({})) is ROWS


def test_brokers_that_stay_away_are_an_error(clock: SimpleNamespace) -> None:
    def answers() -> Iterator[Any]:
        yield ROWS
        while True:
            clock.now += 20
            yield GONE

    batches = ScriptedFollower(cast("Any", answers())).batches({})
    next(batches)
    with pytest.raises(BrokerUnavailable, match="it is being restarted"):
        next(batches)
