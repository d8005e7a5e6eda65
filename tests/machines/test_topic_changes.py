"""What a change of topics costs a shard: it looks at the topics that changed, and at no others, however many there are."""

from collections.abc import Iterator, KeysView
from typing import Any
from uuid import UUID

import pytest

from millstream.groups.commands import ConsumerHeartbeat
from millstream.groups.settings import GroupSettings
from millstream.groups.shard import GroupCoordinatorShard
from millstream.groups.topic_image import TopicImage, TopicInfo

MANY = 2_000
MEMBERS: dict[str, dict[str, Any]] = {"names": {"subscribed_topic_names": ("t1", "t2")}, "pattern": {"subscribed_topic_regex": "t1.*"}}


class Counted(dict[str, TopicInfo]):
    """Counts how many topics somebody looks at."""

    looked_at = 0

    def __getitem__(self, name: str) -> TopicInfo:
        self.looked_at += 1
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self.looked_at += 1
        return super().get(name, default)

    def __contains__(self, name: object) -> bool:
        self.looked_at += 1
        return super().__contains__(name)

    def __iter__(self) -> Iterator[str]:
        self.looked_at += len(self)
        return super().__iter__()

    def keys(self) -> KeysView[str]:  # type: ignore[override]
        self.looked_at += len(self)
        return super().keys()

    def items(self) -> Any:
        self.looked_at += len(self)
        return super().items()


def image_of(*names: str) -> TopicImage:
    return TopicImage(Counted({name: TopicInfo(UUID(int=hash(name) & (1 << 100) - 1), 1) for name in names}))


def looked_at(*images: TopicImage) -> int:
    return sum(image.topics.looked_at for image in images)  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", MEMBERS)
@pytest.mark.parametrize(("added", "removed"), [("t1-new", None), ("other", None), (None, "t7"), (None, "t1")])
def test_topic_that_comes_or_goes_costs_the_same_among_few_and_among_many(kind: str, added: str | None, removed: str | None) -> None:
    costs = [cost_of_a_change(count, kind, added=added, removed=removed) for count in (50, MANY)]
    assert costs[0] == costs[1] < 60, costs


def cost_of_a_change(count: int, kind: str, *, added: str | None, removed: str | None) -> int:
    """How many topics a shard with one group looks at."""
    coordinator = GroupCoordinatorShard(GroupSettings())
    coordinator.loaded(0)
    # The pattern matches the same ones whatever their number.
    names = [f"t{number}" for number in range(20)] + [f"u{number}" for number in range(count)]
    before = image_of(*names)
    coordinator.topics_changed(before, 0)
    command = ConsumerHeartbeat("g", "m", 0, "c", "/h", rebalance_timeout_ms=1_000, topic_partitions=(), **MEMBERS[kind])
    coordinator.handle(command, "w", now_ms=0)
    coordinator.tick(1_000)
    coordinator.handle(command, "w", now_ms=1_000)
    after = image_of(*(name for name in names if name != removed), *([added] if added else []))
    started = looked_at(before, after)
    changed = {added or removed or ""}
    coordinator.topics_changed(after, 1_000, changed=changed)
    return looked_at(before, after) - started


def test_image_changes_like_a_dictionary() -> None:
    image = TopicImage({"a": TopicInfo(UUID(int=1), 1), "b": TopicInfo(UUID(int=2), 1)})
    changed = image.with_changes({"a": TopicInfo(UUID(int=3), 2), "b": None, "c": TopicInfo(UUID(int=4), 1), "d": None})
    assert changed == TopicImage({"a": TopicInfo(UUID(int=3), 2), "c": TopicInfo(UUID(int=4), 1)})
    assert changed.names == {UUID(int=3): "a", UUID(int=4): "c"}
    assert image.names == {UUID(int=1): "a", UUID(int=2): "b"}
