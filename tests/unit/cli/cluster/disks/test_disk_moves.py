"""Replicas on their way to other directories; the brokers are played by a few lines."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, cast

import pytest

from millstream.admin_errors import LogDirNotFound, ReplicaNotAvailable
from millstream.cli.cluster.disks import disk_moves
from millstream.cli.cluster.disks.disk_moves import DiskMoves
from millstream.cli.cluster.ending import finish
from millstream.cli.cluster.execution import Manner, carry_out
from millstream.cli.cluster.following import Follower
from millstream.cli.cluster.operated_cluster import OperatedCluster
from millstream.cli.cluster.planning.plan import DiskMove, Plan
from millstream.client.admin.disk_admin import Disk, Disks, Replica, Stored
from millstream.client.codecs.metadata import ClusterMetadata, PartitionMetadata, TopicMetadata
from millstream.client.errors import BrokerUnavailable
from millstream.errors import CommandFailed, InvalidReplicaAssignment, InvalidRequest, MillstreamError, StorageError
from millstream.topic_partition import TopicPartition
from tests.unit.cli.cluster.planning.layouts import layout_of

PLACE = TopicPartition("t", 0)
OLD, NEW = Replica(1, PLACE), Replica(2, PLACE)
MOVED, COMING = DiskMove(OLD, "/a", "/b", 10), DiskMove(NEW, None, "/b", 0)
MANNER = Manner(yes=True, dry_run=False, as_json=False, no_wait=False, throttle=None)
DIRECTORIES = {1: (Disk("/a"), Disk("/b")), 2: (Disk("/a"), Disk("/b"))}


class PlayedBrokers:
    """Answers with what a test has put here, and remembers what it was asked for."""

    brokers = "here"
    live_brokers = (1, 2)

    def __init__(self) -> None:
        self.disks = self.admin = self.cluster = self
        self.silent: set[int] = set()
        self.heard: list[tuple[int, ...] | None] = [(1,)]
        """The replicas that each answer about the topic names; None: there is no such topic."""
        self.refuses: dict[Replica, MillstreamError] = {}
        self.has = Disks(dict(DIRECTORIES), {OLD: Stored("/a", 10)})
        self.asked: list[dict[Replica, str]] = []
        self.refuses_all: MillstreamError | None = None
        self.refused_reassignments: dict[TopicPartition, MillstreamError] = {}

    def move(self, targets: Mapping[Replica, str]) -> dict[Replica, MillstreamError]:
        self.asked.append(dict(targets))
        return {replica: error for replica, error in self.refuses.items() if replica in targets}

    def describe_disks(self, _: Iterable[Replica]) -> Disks:
        return self.has

    def alter(self, _: Mapping[TopicPartition, Any]) -> dict[TopicPartition, MillstreamError]:
        if self.refuses_all is not None:
            raise self.refuses_all
        return self.refused_reassignments

    def throttle(self, _: object) -> None:
        pass

    def remove_throttles(self, _: object) -> dict[object, MillstreamError]:
        return {}

    def sizes_of_new(self, _: object) -> dict[int, dict[TopicPartition, int]]:
        return {}

    def silent_brokers(self, among: Collection[int]) -> list[int]:
        return sorted(self.silent.intersection(among))

    def under_way(self) -> dict[TopicPartition, Any]:
        return {}

    def refresh(self, _: object) -> None:
        """Asked once more, the brokers have heard what became of the topic."""
        found = self.heard.pop(0) if len(self.heard) > 1 else self.heard[0]
        partitions = {} if found is None else {0: PartitionMetadata(0, found[0], 1, found, found)}
        self.metadata = ClusterMetadata(topics={"t": TopicMetadata("t", None, 0, partitions)})


@pytest.fixture
def brokers() -> PlayedBrokers:
    return PlayedBrokers()


def moves_of(brokers: PlayedBrokers, *moves: DiskMove) -> DiskMoves:
    return DiskMoves(cast("OperatedCluster", brokers), moves)


def test_a_replica_is_asked_for_before_it_comes_and_until_it_is_there(brokers: PlayedBrokers) -> None:
    moves = moves_of(brokers, COMING)
    brokers.refuses = {NEW: ReplicaNotAvailable("not here")}
    assert moves.begin() == {}
    assert moves.look({PLACE}) == {NEW: 0}
    brokers.refuses = {NEW: BrokerUnavailable("it was restarted")}
    assert moves.look({PLACE}) == {NEW: 0}
    # It was forgotten in the restart that it was to be in /b: now it moves there.
    brokers.refuses = {}
    brokers.has.current[NEW] = Stored("/a", 7)
    brokers.has.future[NEW] = Stored("/b", 3)
    assert moves.look(()) == {NEW: 3}
    assert brokers.asked == [{NEW: "/b"}] * 4
    brokers.has.future.clear()
    brokers.has.current[NEW] = Stored("/b", 7)
    assert moves.look(()) == {}
    assert len(brokers.asked) == 4
    assert moves.failed == {}


def test_a_replica_that_never_comes_is_not_waited_for_when_the_reassignment_is_over(
    brokers: PlayedBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    moves = moves_of(brokers, COMING)
    brokers.refuses = {NEW: ReplicaNotAvailable("not here")}
    moves.begin()
    assert moves.look({PLACE}) == {NEW: 0}
    monkeypatch.setattr(disk_moves, "PATIENCE_S", -1.0)
    assert moves.look(()) == {}
    assert moves.failed == {NEW: "not here"}


def test_a_move_that_its_broker_gave_up_is_said_and_a_broker_that_is_away_goes_on_later(brokers: PlayedBrokers) -> None:
    moves = moves_of(brokers, MOVED)
    assert moves.begin() == {}
    brokers.has.future[OLD] = Stored("/b", 4)
    assert moves.look(()) == {OLD: 4}
    here = brokers.has.of_brokers.pop(1)
    brokers.has.future.clear()
    assert moves.look(()) == {OLD: 4}
    brokers.has.of_brokers[1] = here
    assert moves.look(()) == {}
    assert "it stays in /a: the log of the broker says why" in moves.failed[OLD]


def test_what_is_refused_is_refused_at_once_and_what_is_here_need_not_come(brokers: PlayedBrokers) -> None:
    brokers.refuses = {OLD: ReplicaNotAvailable("gone"), NEW: LogDirNotFound("no /b")}
    assert moves_of(brokers, MOVED, COMING).begin().keys() == {OLD, NEW}


def test_a_replica_is_taken_back_to_where_it_was(brokers: PlayedBrokers) -> None:
    moves_of(brokers, MOVED, COMING).take_back()
    assert brokers.asked == [{OLD: "/a"}]


@pytest.mark.parametrize("is_reassignment", [False, True])
def test_a_plan_of_which_a_part_is_refused_leaves_replicas_where_they_are(brokers: PlayedBrokers, *, is_reassignment: bool) -> None:
    layout = layout_of([1, 2], {"t-0": ((1,), 5)})
    brokers.refuses = {NEW: ReplicaNotAvailable("not here")}
    if is_reassignment:
        brokers.refused_reassignments = {PLACE: InvalidReplicaAssignment("no")}
    else:
        brokers.refuses[OLD] = StorageError("/c is offline")
    plan = Plan.of(layout, {PLACE: (1, 2)}, [MOVED, COMING])
    with pytest.raises(CommandFailed, match="the plan was refused and taken back: t-0"):
        carry_out(cast("OperatedCluster", brokers), plan, MANNER, with_loads=False, question="?")
    assert brokers.asked[-1] == {OLD: "/a"}


def test_a_reassignment_that_is_refused_as_a_whole_leaves_replicas_where_they_are(brokers: PlayedBrokers) -> None:
    brokers.refuses_all = InvalidRequest("not you")
    plan = Plan.of(layout_of([1, 2], {"t-0": ((1,), 5)}), {PLACE: (1, 2)}, [MOVED])
    with pytest.raises(InvalidRequest):
        carry_out(cast("OperatedCluster", brokers), plan, MANNER, with_loads=False, question="?")
    assert brokers.asked == [{OLD: "/b"}, {OLD: "/a"}]


def test_nothing_is_begun_if_a_broker_whose_disks_are_to_change_does_not_answer(brokers: PlayedBrokers) -> None:
    brokers.silent = {1}
    plan = Plan.of(layout_of([1, 2], {"t-0": ((1,), 5)}), {}, [MOVED])
    with pytest.raises(CommandFailed, match="Broker 1 does not answer, so nothing can be moved between disks there, and nothing was begun"):
        carry_out(cast("OperatedCluster", brokers), plan, MANNER, with_loads=False, question="?")
    assert brokers.asked == []


def test_a_broker_that_dies_while_something_moves_between_its_disks_is_named(brokers: PlayedBrokers) -> None:
    follower = Follower(cast("OperatedCluster", brokers), [], moves_of(brokers, MOVED))
    brokers.has.future[OLD] = Stored("/b", 4)
    assert follower.look().absent == ()
    brokers.has.future.clear()
    del brokers.has.of_brokers[1]
    assert follower.look().absent == (1,)


def test_what_is_deleted_while_it_moves_between_disks_is_no_failure(brokers: PlayedBrokers, capsys: pytest.CaptureFixture[str]) -> None:
    brokers.has.current.clear()
    brokers.heard = [(1,), (1,), None]
    finish(cast("OperatedCluster", brokers), [], moves_of(brokers, MOVED), {})
    assert capsys.readouterr().out.splitlines()[1:] == ["deleted meanwhile, with its topic: 1 partition"]
    brokers.heard = [(1,), (2,)]
    with pytest.raises(CommandFailed, match="t-0 of broker 1; the broker does not have it any more"):
        finish(cast("OperatedCluster", brokers), [], moves_of(brokers, MOVED), {})
