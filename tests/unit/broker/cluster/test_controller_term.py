"""Partitions that move to other brokers, from the request to the znodes."""

import asyncio

import pytest

from millstream.admin_errors import NoReassignmentInProgress
from millstream.broker.cluster.controller_term import CHUNK, SLICE, InSyncChange
from millstream.cluster.controller.controller_machine import ControllerMachine
from millstream.coordination.partition_state import PartitionState
from millstream.topic_partition import TopicPartition
from millstream.zookeeper.errors import ConnectionLost
from tests.unit.broker.cluster.controlled_cluster import ORDERS, Cluster
from tests.waiting import eventually


async def test_thousands_of_partitions_are_moved_in_slices_and_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(partitions=5_000)
    running = asyncio.create_task(cluster.controller.run())
    await cluster.elect()
    cluster.tree.writes.clear()
    longest, last = 0, 0
    decided = 0
    reassign = ControllerMachine.reassign

    def counted(*arguments: object, **options: object) -> PartitionState:
        nonlocal decided
        decided += 1
        return reassign(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(ControllerMachine, "reassign", counted)
    asked = asyncio.create_task(cluster.controller.reassign(dict.fromkeys(cluster.tree.states, (3, 2)), may_grow=True))
    while not asked.done():
        await asyncio.sleep(0)
        longest, last = max(longest, decided - last), decided
    answers = asked.result()
    assert len(answers) == 5_000
    assert {state.replicas for state in cluster.tree.states.values()} == {(3, 2)}
    assert 0 < longest <= SLICE
    assert max(len(states) for states, _ in cluster.tree.writes) <= CHUNK
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_move_that_is_under_way_is_found_by_the_next_controller(cluster: Cluster) -> None:
    await cluster.elect()
    cluster.tree.register(4, 14)
    cluster.show()
    (answer,) = (await cluster.controller.reassign({ORDERS: (4, 2)}, may_grow=True)).values()
    assert isinstance(answer, PartitionState)
    assert list(await cluster.controller.reassignments()) == [ORDERS]
    cluster.show()
    await cluster.elect()
    assert (await cluster.controller.reassignments())[ORDERS].adding_replicas == (4,)
    change = InSyncChange(cluster.orders, {1: 11, 2: 12, 4: 14})
    await cluster.controller.alter_partitions(1, 11, {ORDERS: change})
    assert (cluster.orders.replicas, cluster.orders.leader, await cluster.controller.reassignments()) == ((4, 2), 4, {})


async def test_own_topics_are_not_grown_where_an_operator_has_placed_them(cluster: Cluster) -> None:
    await cluster.elect()
    cluster.own_topics = {"orders": 3}
    await cluster.controller.reassign({ORDERS: (2, 1)}, may_grow=True)
    cluster.tree.register(4, 14)
    cluster.show()
    await cluster.controller.relieve(4, 14)
    assert cluster.orders.replicas == (2, 1)


async def test_a_request_that_breaks_off_in_the_middle_is_finished_by_asking_again() -> None:
    """What is written at once is limited: the next controller finds a part, which stays as it is."""
    cluster = Cluster(partitions=3 * CHUNK)
    running = asyncio.create_task(cluster.controller.run())
    await cluster.elect()
    cluster.tree.register(4, 14)
    cluster.show()
    await eventually(lambda: 4 in cluster.tree.lives)
    for target, is_begun in (((4, 2), True), (None, False)):
        targets: dict[TopicPartition, tuple[int, ...] | None] = dict.fromkeys(cluster.tree.states, target)
        cluster.tree.failures = [None, ConnectionLost("the controller is gone")]
        with pytest.raises(ConnectionLost):
            await cluster.controller.reassign(targets, may_grow=True)
        done = {name: state for name, state in cluster.tree.states.items() if state.is_reassigning is is_begun}
        assert 0 < len(done) < len(targets)
        cluster.show()
        await cluster.elect()
        answers = await cluster.controller.reassign(targets, may_grow=True)
        assert {state.is_reassigning for state in cluster.tree.states.values()} == {is_begun}
        assert all(cluster.tree.states[name] == state for name, state in done.items()), "nothing is done twice"
        refused = {name for name, answer in answers.items() if isinstance(answer, NoReassignmentInProgress)}
        assert refused == (set() if is_begun else done.keys())
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
