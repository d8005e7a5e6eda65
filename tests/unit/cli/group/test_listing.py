"""The words of groups that are looked at again and again; what brokers answer is made up here."""

from typing import Any

import pytest

from millstream.cli.group import listing
from millstream.cli.group.known_group import KnownGroup, Member
from millstream.cli.group.listing import GroupListing
from millstream.cli.group.verdict import OBSERVE_SECONDS
from millstream.cli.position import OffsetRange
from millstream.topic_partition import TopicPartition

PLACE = TopicPartition("orders", 0)


class World:
    """One group, one partition; and the readers of both."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.committed = 0
        self.latest = 100
        self.members = 1
        self.commits_meanwhile = 0
        self.partitions = {"orders": [0]}
        self.cluster = self.admin = None
        monkeypatch.setattr(listing, "offset_ranges", lambda *_, places: dict.fromkeys(places, OffsetRange(0, self.latest)))
        # It has what is asked of both.
        self.listing = GroupListing(self, self, clock=lambda: self.now, sleep=self.sleep)  # type: ignore[arg-type]

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.committed += self.commits_meanwhile

    def all(self) -> list[KnownGroup]:
        members = [Member(str(number), [PLACE]) for number in range(self.members)]
        return [KnownGroup("reports", "classic", "stable", members, {PLACE: self.committed})]

    def timestamps(self, wanted: Any) -> dict[Any, int]:
        return dict.fromkeys(wanted, 0)  # long ago

    def again(self, *, after: float = 2.0) -> str:
        self.now += after
        (row,) = self.listing.again()
        return str(row["is"])


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def test_group_that_commits_nothing_is_stuck_after_a_while(world: World) -> None:
    words = [world.again() for _ in range(5)]
    assert words == ["unknown", "unknown", "unknown", "stuck", "stuck"]
    world.committed = 10
    assert world.again() == "ok"


def test_group_whose_lag_does_not_fall_is_slow(world: World) -> None:
    world.again()
    for _ in range(3):
        world.committed += 10
        world.latest += 20
        assert world.again() == "slow"
    world.committed += 30
    assert world.again() == "ok"


def test_group_without_members_is_dead_after_a_while_and_ok_without_lag(world: World) -> None:
    world.members = 0
    assert [world.again() for _ in range(4)] == ["unknown", "unknown", "unknown", "dead"]
    world.committed = 100
    assert world.again() == "ok"


def test_group_without_members_that_somebody_commits_for_is_not_dead(world: World) -> None:
    world.members, world.commits_meanwhile = 0, 10
    (row,) = world.listing.once(observe_s=OBSERVE_SECONDS)
    assert row["is"] == "ok"
    world.commits_meanwhile = 0
    (row,) = world.listing.once(observe_s=OBSERVE_SECONDS)
    assert row["is"] == "dead"


def test_one_look_waits_only_until_the_group_has_moved(world: World) -> None:
    (row,) = world.listing.once(observe_s=OBSERVE_SECONDS)
    assert (row["is"], world.now) == ("stuck", OBSERVE_SECONDS)
    world.now, world.commits_meanwhile = 0.0, 50
    (row,) = world.listing.once(observe_s=OBSERVE_SECONDS)
    assert (row["is"], row["lag"]) == ("ok", 50)
    assert world.now < 1


def test_one_look_without_watching_does_not_guess(world: World) -> None:
    (row,) = world.listing.once(observe_s=0)
    assert (row["is"], world.now) == ("unknown", 0.0)
