import logging
from collections.abc import Iterator

import pytest

from millstream.broker.cluster.logger_levels import LEVELS, LoggerLevels
from millstream.coordination.cluster_view import BrokerState, ClusterView
from millstream.errors import InvalidConfig, InvalidRequest
from millstream.options.alteration import Alteration, AlterOperation

PARENT, CHILD = "millstream-test-levels", "millstream-test-levels.child"


@pytest.fixture
def levels() -> Iterator[LoggerLevels]:
    for name in (PARENT, CHILD):
        logging.getLogger(name).setLevel(logging.NOTSET)
    logging.getLogger(PARENT).setLevel(logging.WARNING)
    view = ClusterView(brokers={number: BrokerState(number, "host", 9092) for number in (1, 2)})
    yield LoggerLevels(lambda: view, node_id=1)
    for name in (PARENT, CHILD):
        logging.getLogger(name).setLevel(logging.NOTSET)


def levels_of(levels: LoggerLevels) -> dict[str, str | None]:
    return {row.name: row.value for row in levels.describe("1", [PARENT, CHILD])}


@pytest.mark.parametrize("word", LEVELS)
async def test_every_level_of_kafkas_is_set_and_described(levels: LoggerLevels, word: str) -> None:
    await levels.increment("1", [Alteration(CHILD, AlterOperation.SET, word)], validate_only=False)
    assert levels_of(levels) == {PARENT: "WARN", CHILD: word}
    await levels.increment("1", [Alteration(CHILD, AlterOperation.DELETE, None)], validate_only=False)
    assert levels_of(levels) == {PARENT: "WARN", CHILD: "WARN"}


async def test_what_is_only_checked_changes_nothing(levels: LoggerLevels) -> None:
    await levels.increment("1", [Alteration(CHILD, AlterOperation.SET, "DEBUG")], validate_only=True)
    assert levels_of(levels)[CHILD] == "WARN"


async def test_one_wrong_level_of_a_request_leaves_all_as_they_are(levels: LoggerLevels) -> None:
    wanted = [Alteration(PARENT, AlterOperation.SET, "DEBUG"), Alteration(CHILD, AlterOperation.SET, "LOUD")]
    with pytest.raises(InvalidConfig, match="LOUD"):
        await levels.increment("1", wanted, validate_only=False)
    assert levels_of(levels) == {PARENT: "WARN", CHILD: "WARN"}


async def test_a_logger_that_is_named_twice_is_refused(levels: LoggerLevels) -> None:
    wanted = [Alteration(CHILD, AlterOperation.SET, "DEBUG"), Alteration(CHILD, AlterOperation.SET, "INFO")]
    with pytest.raises(InvalidRequest, match="twice"):
        await levels.increment("1", wanted, validate_only=False)


def test_only_the_loggers_that_are_asked_for_are_looked_at(levels: LoggerLevels, monkeypatch: pytest.MonkeyPatch) -> None:
    everything = {row.name for row in levels.describe("1", None)}
    assert {"root", PARENT, CHILD} <= everything
    for name in everything - {"root", CHILD, PARENT}:
        monkeypatch.setattr(logging.getLogger(name), "getEffectiveLevel", lambda: pytest.fail("it was not asked for"))
    assert [row.name for row in levels.describe("1", [CHILD, "no logger", "root", CHILD])] == [CHILD, "root"]


def test_loggers_of_another_broker_are_not_known_here(levels: LoggerLevels) -> None:
    assert levels.names() == ["1", "2"]
    with pytest.raises(InvalidRequest, match="ask broker '2' itself"):
        levels.describe("2", None)
