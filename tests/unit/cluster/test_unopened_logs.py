from dataclasses import replace
from uuid import UUID

import pytest

from millstream.cluster import unopened_logs
from millstream.cluster.unopened_logs import Portion, UnopenedLogs
from tests.unit.cluster.hosting import topic_state

LARGE = topic_state("large", partitions=5, topic_id=UUID(int=1))
SMALL = topic_state("small", partitions=1, topic_id=UUID(int=2))


@pytest.fixture(autouse=True)
def _portions_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unopened_logs, "PORTION", 2)


def opened(unopened: UnopenedLogs) -> list[str]:
    """All portions in their order."""
    found = []
    while (portion := unopened.next_portion()) is not None:
        found += [f"{portion.topic}-{index}" for index in portion.indexes]
        unopened.done(portion)
    return found


def test_topics_take_turns() -> None:
    unopened = UnopenedLogs()
    unopened.add(LARGE, range(5), shown=0)
    unopened.add(SMALL, [0], shown=0)
    assert opened(unopened) == ["large-0", "large-1", "small-0", "large-2", "large-3", "large-4"]
    assert not unopened


def test_a_topic_is_shown_as_before_until_its_last_log_is_open() -> None:
    unopened = UnopenedLogs()
    unopened.add(LARGE, [2, 3, 4], shown=2)
    first = unopened.next_portion()
    assert first == Portion("large", LARGE.topic_id, (2, 3))
    assert unopened.done(first) is False
    # It grows once more meanwhile: still nothing of what came is shown.
    unopened.add(LARGE, [4, 5], shown=5)
    assert unopened.shown_partitions == {"large": 2}
    last = unopened.next_portion()
    assert last == Portion("large", LARGE.topic_id, (4, 5))
    assert unopened.done(last) is True
    assert unopened.shown_partitions == {}


def test_what_was_opened_of_a_former_topic_does_not_count_for_the_next_of_its_name() -> None:
    unopened = UnopenedLogs()
    unopened.add(SMALL, [0], shown=0)
    former = unopened.next_portion()
    assert former is not None
    unopened.forget("small")
    assert unopened.next_portion() is None
    unopened.add(replace(SMALL, topic_id=UUID(int=3)), [0], shown=0)
    assert unopened.done(former) is False
    assert unopened.shown_partitions == {"small": 0}
    assert unopened.next_portion() == Portion("small", UUID(int=3), (0,))
