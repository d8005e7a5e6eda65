"""What is left behind when a plan cannot be carried out to its end; the cluster is played by a few lines."""

from collections.abc import Callable, Collection, Mapping
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import Any, cast

import pytest

from millstream.admin_errors import NoReassignmentInProgress
from millstream.cli.cluster.execution import Manner, carry_out
from millstream.cli.cluster.obstacles import refuse_leaderless
from millstream.cli.cluster.operated_cluster import OperatedCluster
from millstream.cli.cluster.planning.plan import DiskMove, Plan
from millstream.client.admin.config_admin import Options, Resource
from millstream.client.errors import BrokerUnavailable
from millstream.errors import CommandFailed, InvalidReplicaAssignment, InvalidRequest, KafkaError, MillstreamError
from millstream.topic_partition import TopicPartition
from tests.unit.cli.cluster.planning.layouts import layout_of

COPIED, REORDERED, REFUSED, SHRUNK = (TopicPartition("t", number) for number in range(4))
LAYOUT = layout_of([1, 2, 3], {f"t-{number}": ((1, 2), 5) for number in range(4)})
PLAN = Plan.of(LAYOUT, {COPIED: (2, 3), REORDERED: (2, 1), REFUSED: (1, 3)})
MANNER = Manner(yes=True, dry_run=False, as_json=False, no_wait=False, throttle="1MB")


class PlayedCluster:
    """Refuses what it is asked to, and remembers what it was asked."""

    brokers = "here"
    live_brokers = (1, 2, 3)
    missing_brokers = ()

    def __init__(self, alter: Callable[[Mapping[TopicPartition, Any]], dict[TopicPartition, KafkaError]]) -> None:
        self.admin = self
        self._alter = alter
        self.asked: list[dict[TopicPartition, Any]] = []
        self.throttled: set[Resource] = set()
        self.interruptions: list[BaseException] = []
        self.begun = PLAN.targets
        self.silent: set[int] = set()

    def alter(self, targets: Mapping[TopicPartition, Any]) -> dict[TopicPartition, KafkaError]:
        self.asked.append(dict(targets))
        return self._alter(targets)

    def under_way(self) -> dict[TopicPartition, Any]:
        if self.interruptions:
            raise self.interruptions.pop()
        return dict.fromkeys(self.begun)

    def disk_moves_under_way(self) -> list[DiskMove]:
        return []

    def throttle(self, options: Mapping[Resource, Options]) -> None:
        self.throttled.update(options)

    def remove_throttles(self, resources: Collection[Resource]) -> dict[Resource, MillstreamError]:
        self.throttled.difference_update(resources)
        return {}

    def silent_brokers(self, among: Collection[int]) -> list[int]:
        return sorted(self.silent.intersection(among))

    def leaderless(self) -> set[TopicPartition]:
        return {COPIED, SHRUNK, REORDERED}


def run(cluster: PlayedCluster, manner: Manner = MANNER) -> None:
    carry_out(cast("OperatedCluster", cluster), PLAN, manner, with_loads=True, question="?")


def test_a_plan_of_which_a_part_is_refused_is_taken_back_whole() -> None:
    def refuse(targets: Mapping[TopicPartition, Any]) -> dict[TopicPartition, KafkaError]:
        if REFUSED in targets:
            return {REFUSED: InvalidReplicaAssignment("no such broker")}
        return {REORDERED: NoReassignmentInProgress("it was done at once")} if targets.get(REORDERED, ()) is None else {}

    cluster = PlayedCluster(refuse)
    with pytest.raises(CommandFailed, match=r"the plan was refused and taken back: t-2 was refused; t-2: no such broker"):
        run(cluster)
    assert cluster.asked == [PLAN.targets, {COPIED: None, REORDERED: None}, {COPIED: (1, 2), REORDERED: (1, 2)}]
    assert cluster.throttled == set()


def test_a_request_without_an_answer_may_have_begun_something() -> None:
    def hang_up(_: Mapping[TopicPartition, Any]) -> dict[TopicPartition, KafkaError]:
        raise BrokerUnavailable("the broker closed the connection")

    cluster = PlayedCluster(hang_up)
    with pytest.raises(CommandFailed, match=r"closed the connection. A part may have been begun. .*--follow.*--cancel"):
        run(cluster)
    assert len(cluster.throttled) == 4


def refuse_all(_: Mapping[TopicPartition, Any]) -> dict[TopicPartition, KafkaError]:
    raise InvalidRequest("not you")


def test_what_was_refused_as_a_whole_leaves_no_throttle_unless_a_part_was_begun() -> None:
    cluster = PlayedCluster(refuse_all)
    cluster.begun = {}
    with pytest.raises(InvalidRequest):
        run(cluster)
    assert cluster.throttled == set()
    cluster = PlayedCluster(refuse_all)
    with pytest.raises(CommandFailed, match="A part may have been begun"):
        run(cluster)
    assert len(cluster.throttled) == 4


def test_brokers_that_do_not_answer_are_named_before_anything_is_begun(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = PlayedCluster(refuse_all)
    cluster.silent = {3}
    with pytest.raises(CommandFailed, match=r"Broker 3 does not answer, so no throttle can be set there, and nothing was begun"):
        run(cluster)
    assert (cluster.asked, cluster.throttled) == ([], set())
    for manner in (replace(MANNER, throttle=None), replace(MANNER, dry_run=True)):
        with suppress(CommandFailed):
            run(cluster, manner)
        assert "Broker 3 does not answer: what is copied there waits until that changes." in capsys.readouterr().err
    cluster.silent = {1, 9}
    run(cluster, replace(MANNER, dry_run=True))
    assert "answer" not in capsys.readouterr().err, "nothing is copied there"


@pytest.mark.parametrize(("place", "after", "is_refused"), [(COPIED, (2, 3), True), (SHRUNK, (1,), True), (REORDERED, (2, 1), False)])
def test_what_nobody_leads_gets_no_other_replicas(place: TopicPartition, after: tuple[int, ...], is_refused: bool) -> None:
    cluster = cast("OperatedCluster", PlayedCluster(lambda _: {}))
    with pytest.raises(CommandFailed, match=f"nobody leads {place}") if is_refused else nullcontext():
        refuse_leaderless(cluster, Plan.of(LAYOUT, {place: after}))


def test_two_interruptions_in_a_row_tell_how_to_go_on_too(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = PlayedCluster(lambda _: {})
    cluster.interruptions = [KeyboardInterrupt(), KeyboardInterrupt()]
    with pytest.raises(KeyboardInterrupt):
        run(cluster)
    said = capsys.readouterr().err
    assert "interrupted: some of what was begun may be left." in said
    assert "--follow` waits for the end and then removes the throttle" in said


@pytest.mark.parametrize("end", [KeyboardInterrupt, BrokenPipeError])
def test_ctrl_c_or_the_end_of_a_pipe_leaves_the_throttle_and_says_how_to_go_on(
    end: type[BaseException], capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = PlayedCluster(lambda _: {})
    cluster.interruptions = [end()]
    with pytest.raises(end):
        run(cluster)
    assert cluster.asked == [PLAN.targets]
    assert len(cluster.throttled) == 4
    said = capsys.readouterr().err
    assert "interrupted: 3 partitions left." in said
    assert "--follow` waits for the end and then removes the throttle" in said


def test_a_cluster_that_is_lost_while_it_moves_goes_on_without_the_command() -> None:
    cluster = PlayedCluster(lambda _: {})
    cluster.interruptions = [BrokerUnavailable("gone")]
    with pytest.raises(CommandFailed, match=r"gone. The cluster goes on with it"):
        run(cluster)
