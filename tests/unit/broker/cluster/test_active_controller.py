"""The queue of the controller: what is written in which order, and what happens after a failure."""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import replace
from uuid import UUID

import pytest

from millstream.broker.cluster import active_controller as module
from millstream.broker.cluster.active_controller import ActiveController
from millstream.broker.cluster.controller_term import CHUNK, SLICE, InSyncChange
from millstream.coordination.partition_state import NO_LEADER, PartitionState
from millstream.errors import NotController, UnknownTopicId
from millstream.replication_errors import InvalidUpdateVersion, StaleBrokerEpoch
from millstream.topic_partition import TopicPartition
from millstream.zookeeper.errors import BadVersion, ConnectionLost
from tests.unit.broker.cluster.controlled_cluster import CLAIM, ORDERS, Cluster, rules_of
from tests.waiting import eventually


async def test_brokers_that_come_and_go_are_logged_with_what_follows_from_it(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    await cluster.elect()
    assert not caplog.messages, "the brokers that are there at its election are no news"
    await cluster.lose(1, 2, 3)
    await eventually(lambda: cluster.orders.leader == NO_LEADER)
    cluster.tree.register(3, 33)
    cluster.show()
    await eventually(lambda: len(caplog.messages) == 2)
    assert caplog.messages == [
        "broker 1 is gone, broker 2 is gone, broker 3 is gone: 1 partitions were decided anew, 1 of them have no leader",
        "broker 3 is there: 1 partitions were decided anew, 1 of them have no leader",  # it was killed, and did not lead last
    ]
    cluster.tree.register(3, 34)
    cluster.show()
    await eventually(lambda: "broker 3 is registered anew: " in caplog.text)


async def test_a_broker_that_is_not_elected_decides_nothing(cluster: Cluster) -> None:
    await cluster.lose(1)
    with pytest.raises(NotController):
        await cluster.controller.relieve(2, 12)
    assert cluster.tree.writes == []


async def test_an_elected_controller_catches_up_and_decides_about_who_is_there(cluster: Cluster) -> None:
    await cluster.lose(1)
    await cluster.elect()
    await eventually(lambda: cluster.orders.leader == 2)
    assert (cluster.tree.caught_up, cluster.tree.finished) == (1, 1)
    assert (cluster.orders.leader_epoch, cluster.orders.in_sync_replicas) == (1, (2, 3))


async def test_lives_are_written_with_the_last_partitions() -> None:
    count = 2 * CHUNK + 1
    many = Cluster(count)
    many.tree.register(1, 21)  # back without its marker
    running = asyncio.create_task(many.controller.run())
    many.show()
    await many.elect()
    await eventually(lambda: many.tree.lives[1] == 21)
    assert [(len(states), lives) for states, lives in many.tree.writes] == [(CHUNK, {}), (CHUNK, {}), (1, {1: 21})]
    assert {state.leader for state in many.tree.states.values()} == {2}
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_what_another_hand_changed_is_read_and_decided_again(cluster: Cluster) -> None:
    await cluster.elect()
    cluster.tree.states[ORDERS] = cluster.orders._replace(in_sync_replicas=(1, 3), partition_epoch=7)
    await cluster.lose(1)
    await eventually(lambda: cluster.orders.leader == 3)
    assert (cluster.orders.in_sync_replicas, cluster.orders.partition_epoch) == ((3,), 8)


async def test_a_leader_learns_that_another_hand_has_changed_what_it_knows(cluster: Cluster) -> None:
    await cluster.elect()
    change = InSyncChange(cluster.orders, {1: 11, 2: 12})
    cluster.tree.states[ORDERS] = cluster.orders.read_at(7)
    answers = await cluster.controller.alter_partitions(1, 11, {ORDERS: change})
    assert isinstance(answers[ORDERS], InvalidUpdateVersion)
    assert cluster.tree.announced == [ORDERS]


async def test_a_partition_that_is_changed_again_and_again_is_not_given_up(cluster: Cluster) -> None:
    await cluster.elect()
    cluster.tree.failures = [BadVersion("again")] * 12
    await cluster.lose(1)
    await eventually(lambda: cluster.orders.leader == 2)


async def test_a_deleted_topic_does_not_hold_up_the_others(cluster: Cluster) -> None:
    payments = TopicPartition("payments", 0)
    cluster.tree.states[payments] = cluster.orders
    cluster.show()
    await cluster.elect()
    await cluster.lose(1)
    del cluster.tree.states[ORDERS]  # the controller's view still has it
    await eventually(lambda: cluster.tree.states[payments].leader == 2)


async def test_a_decision_is_not_lost_when_the_connection_is(cluster: Cluster) -> None:
    await cluster.elect()
    cluster.tree.failures = [ConnectionLost("away")] * 3
    await cluster.lose(1)
    await eventually(lambda: cluster.orders.leader == 2)
    assert cluster.tree.caught_up == 4


async def test_what_an_interruption_left_half_done_is_finished_by_the_same_controller(cluster: Cluster) -> None:
    await cluster.elect()
    assert cluster.tree.finished == 1
    cluster.controller.connection_is_back()
    await eventually(lambda: cluster.tree.finished == 2)
    assert cluster.tree.caught_up == 2
    await cluster.lose(1)
    await eventually(lambda: cluster.orders.leader == 2)
    assert cluster.tree.finished == 2


async def test_a_partition_whose_znode_was_removed_is_brought_back_and_decided_about(cluster: Cluster) -> None:
    await cluster.elect()
    del cluster.tree.states[ORDERS]
    del cluster.tree.brokers[1]
    cluster.controller.view_changed(replace(cluster.view_of_all, brokers=dict(cluster.tree.brokers)))
    await eventually(lambda: ORDERS in cluster.tree.states and cluster.orders.leader == 2)
    assert cluster.tree.restored == [ORDERS]


async def test_a_partition_that_cannot_be_brought_back_is_given_up_until_its_topic_changes(cluster: Cluster) -> None:
    await cluster.elect()
    cluster.tree.is_restoring = False
    del cluster.tree.states[ORDERS]
    del cluster.tree.brokers[1]
    cluster.controller.view_changed(replace(cluster.view_of_all, brokers=dict(cluster.tree.brokers)))
    await eventually(lambda: cluster.controller._term is not None and not cluster.controller._term.machine.partitions)
    assert cluster.tree.writes == []


async def test_a_write_whose_answer_was_lost_is_not_written_twice(cluster: Cluster) -> None:
    await cluster.elect()
    really = cluster.tree.write_states

    async def write(*arguments: object) -> None:
        await really(*arguments)  # type: ignore[arg-type]
        cluster.tree.write_states = really  # type: ignore[method-assign]
        cluster.show()
        raise ConnectionLost("after it was done")

    cluster.tree.write_states = write  # type: ignore[method-assign, assignment]
    await cluster.lose(1)
    await eventually(lambda: cluster.tree.caught_up == 2)
    assert len(cluster.tree.writes) == 1
    assert cluster.orders.leader_epoch == 1


async def test_a_controller_that_is_fenced_off_asks_whether_it_still_is_one(cluster: Cluster) -> None:
    await cluster.elect()
    cluster.tree.is_fenced = True
    await cluster.lose(1)
    await eventually(lambda: cluster.doubts > 0)
    cluster.controller.resigned()
    with pytest.raises(NotController):
        await cluster.controller.relieve(2, 12)


async def test_who_waits_hears_that_the_controller_resigned(cluster: Cluster) -> None:
    cluster.controller.elected(CLAIM)
    waiting = asyncio.create_task(cluster.controller.relieve(2, 12))
    await asyncio.sleep(0)
    cluster.controller.resigned()
    with pytest.raises(NotController):
        await waiting


async def test_a_mistake_of_ours_does_not_end_the_controller(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    await cluster.elect()
    cluster.tree.failures = [ZeroDivisionError("a mistake")]
    await cluster.lose(1)
    await eventually(lambda: cluster.orders.leader == 2)
    assert "a mistake in the controller" in caplog.text


async def test_a_topic_that_was_planned_before_its_leader_died_gets_another(cluster: Cluster) -> None:
    await cluster.elect()
    await cluster.lose(1)
    await eventually(lambda: cluster.orders.leader == 2)
    payments = TopicPartition("payments", 0)
    cluster.tree.states[payments] = PartitionState.first((1, 2, 3))
    cluster.show()
    await eventually(lambda: cluster.tree.states[payments].leader == 2)


async def test_a_topic_that_was_made_again_is_another(cluster: Cluster) -> None:
    await cluster.elect()
    await cluster.lose(1)
    await eventually(lambda: cluster.orders.leader == 2)
    cluster.show()
    del cluster.tree.states[ORDERS]
    cluster.show()
    await eventually(lambda: cluster.controller._term is not None and not cluster.controller._term.machine.partitions)
    cluster.tree.states[ORDERS] = PartitionState.first((3, 2))
    await cluster.lose(3)
    await eventually(lambda: cluster.orders.leader == 2 and cluster.orders.leader_epoch == 1)


async def test_switching_unclean_elections_on_elects(cluster: Cluster) -> None:
    cluster.tree.states[ORDERS] = cluster.orders._replace(in_sync_replicas=(1,))
    cluster.show()
    await cluster.elect()
    await cluster.lose(1)
    await eventually(lambda: cluster.orders.leader == NO_LEADER)
    cluster.tree.configs["orders"] = {"unclean": "yes"}
    cluster.show()
    await eventually(lambda: cluster.orders.leader == 2)


async def test_a_lower_minimum_ends_the_eligibility_of_others(cluster: Cluster) -> None:
    cluster.tree.configs["orders"] = {"min": "2"}
    cluster.tree.states[ORDERS] = cluster.orders._replace(in_sync_replicas=(1,), eligible_leaders=(2,))
    cluster.show()
    await cluster.elect()
    assert cluster.orders.eligible_leaders == (2,)
    cluster.tree.configs["orders"] = {"min": "1"}
    cluster.show()
    await eventually(lambda: cluster.orders.eligible_leaders == ())


async def test_a_leader_changes_its_in_sync_set(cluster: Cluster) -> None:
    await cluster.elect()
    change = InSyncChange(cluster.orders, {1: -1, 2: 12})
    answers = await cluster.controller.alter_partitions(1, 11, {ORDERS: change, TopicPartition("missing", 0): change})
    state = answers[ORDERS]
    assert isinstance(state, PartitionState)
    assert (state.in_sync_replicas, state.partition_epoch) == ((1, 2), 1)
    assert getattr(answers[TopicPartition("missing", 0)], "code", 0) == 3
    again = await cluster.controller.alter_partitions(1, 11, {ORDERS: change})
    assert isinstance(again[ORDERS], InvalidUpdateVersion)
    with pytest.raises(StaleBrokerEpoch):
        await cluster.controller.alter_partitions(1, 10, {ORDERS: change})
    with pytest.raises(StaleBrokerEpoch):
        await cluster.controller.alter_partitions(9, 11, {ORDERS: change})


async def test_an_in_sync_set_that_is_as_asked_for_is_not_written(cluster: Cluster) -> None:
    await cluster.elect()
    answers = await cluster.controller.alter_partitions(1, 11, {ORDERS: InSyncChange(cluster.orders, {1: -1, 2: 12, 3: 13})})
    assert answers[ORDERS] == cluster.orders
    assert cluster.tree.writes == []


async def test_who_asked_hears_of_the_failure_and_the_controller_goes_on(cluster: Cluster) -> None:
    await cluster.elect()
    cluster.tree.failures = [ConnectionLost("away")]
    change = {ORDERS: InSyncChange(cluster.orders, {1: -1, 2: 12})}
    with pytest.raises(ConnectionLost):
        await cluster.controller.alter_partitions(1, 11, change)
    answers = await cluster.controller.alter_partitions(1, 11, change)
    assert isinstance(answers[ORDERS], PartitionState)


async def test_a_broker_that_stops_leads_nothing_that_others_can_lead(cluster: Cluster) -> None:
    alone = TopicPartition("payments", 0)
    cluster.tree.states[alone] = PartitionState.first((1,))
    cluster.show()
    await cluster.elect()
    await cluster.controller.relieve(1, 11)
    assert (cluster.orders.leader, cluster.orders.in_sync_replicas) == (2, (2, 3))
    assert cluster.tree.states[alone].leader == 1
    cluster.tree.states[TopicPartition("payments", 1)] = PartitionState.first((1, 3))
    cluster.show()  # a topic that was planned before
    await cluster.lose(1)
    await eventually(lambda: cluster.tree.states[alone].leader == NO_LEADER)
    with pytest.raises(StaleBrokerEpoch):
        await cluster.controller.relieve(2, 99)


async def test_operators_elect_leaders_and_hear_why_not(cluster: Cluster) -> None:
    await cluster.elect()
    await cluster.lose(1)
    await eventually(lambda: cluster.orders.leader == 2)
    cluster.tree.register(1, 21, previous_epoch=11)
    cluster.show()
    await eventually(lambda: cluster.tree.lives[1] == 21)
    refused = await cluster.controller.elect_leaders([ORDERS], is_unclean=False)
    assert getattr(refused[ORDERS], "code", 0) == 80
    change = InSyncChange(cluster.orders, {2: -1, 3: 13, 1: 21})
    await cluster.controller.alter_partitions(2, 12, {ORDERS: change})
    elected = await cluster.controller.elect_leaders([ORDERS], is_unclean=False)
    assert isinstance(elected[ORDERS], PartitionState)
    assert (cluster.orders.leader, cluster.orders.leader_epoch) == (1, 2)


async def test_preferred_leaders_lead_again_by_themselves(cluster: Cluster) -> None:
    cluster.tree.states[ORDERS] = cluster.orders._replace(leader=2)
    cluster.show()
    await cluster.elect()
    balancing = asyncio.create_task(cluster.controller.balance_leaders(interval_s=0.001))
    await eventually(lambda: cluster.orders.leader == 1)
    balancing.cancel()
    await asyncio.gather(balancing, return_exceptions=True)


async def test_the_clusters_own_topics_grow_when_brokers_join(cluster: Cluster) -> None:
    cluster.own_topics = {"__consumer_offsets": 3}
    for number in range(6):
        cluster.tree.states[TopicPartition("__consumer_offsets", number)] = PartitionState.first((1,))
    await cluster.lose(2, 3)
    await cluster.elect()
    cluster.tree.register(2, 22)
    cluster.show()
    offsets = [TopicPartition("__consumer_offsets", number) for number in range(6)]
    await eventually(lambda: all(len(cluster.tree.states[name].replicas) == 2 for name in offsets))
    cluster.tree.register(3, 23)
    cluster.show()
    await eventually(lambda: all(len(cluster.tree.states[name].replicas) == 3 for name in offsets))
    assert {cluster.tree.states[name].in_sync_replicas for name in offsets} == {(1,)}
    preferred = [cluster.tree.states[name].preferred_leader for name in offsets]
    assert {node_id: preferred.count(node_id) for node_id in (1, 2, 3)} == {1: 2, 2: 2, 3: 2}


async def test_ten_thousand_partitions_are_decided_in_many_turns_of_the_loop() -> None:
    many = Cluster(10_000)
    running = asyncio.create_task(many.controller.run())
    await many.elect()
    await many.lose(1)
    turns = 0
    while not many.tree.writes:
        await asyncio.sleep(0)
        turns += 1
    assert turns >= 10_000 / SLICE, "a slice takes about 5 ms"
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_successor_finishes_what_a_controller_left_half_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRY_S", 60.0)
    first = Cluster(2 * CHUNK + 1)
    first.tree.register(1, 21)  # back without its marker: all has to be written before its new life is
    first.tree.failures = [None, ConnectionLost("killed after the first chunk")]
    running = [asyncio.create_task(first.controller.run())]
    first.show()
    first.controller.elected(CLAIM)
    await eventually(lambda: not first.tree.failures)
    first.controller.resigned()
    assert (len(first.tree.writes), first.tree.lives[1]) == (1, 11)
    second = ActiveController(first.tree, rules=rules_of, own_topics=dict, doubt=lambda: None)
    second.view_changed(first.tree.view())
    running.append(asyncio.create_task(second.run()))
    second.elected(CLAIM)
    await eventually(lambda: first.tree.lives[1] == 21)
    assert {(state.leader, state.leader_epoch, state.partition_epoch) for state in first.tree.states.values()} == {(2, 1, 1)}
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


async def test_brokers_that_stop_together_leave_the_last_one_leading(cluster: Cluster) -> None:
    await cluster.elect()
    await asyncio.gather(*(cluster.controller.relieve(node_id, 10 + node_id) for node_id in (1, 2, 3)))
    assert (cluster.orders.leader, cluster.orders.in_sync_replicas) == (3, (3,))


@pytest.mark.parametrize("version", [0, 3])
async def test_what_was_decided_about_a_topic_is_not_written_to_a_later_one_of_its_name(
    monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    many = Cluster(CHUNK + 1)
    many.tree.states = {name: state.read_at(version) for name, state in many.tree.states.items()}
    many.show()
    running = asyncio.create_task(many.controller.run())
    await many.elect()
    later = PartitionState.first((2, 3))
    write = many.tree.write_states

    async def write_states(states: Mapping[TopicPartition, PartitionState], lives: Mapping[int, int] | None = None) -> None:
        """The topic is deleted and created again while the first chunk is being written."""
        if not many.tree.topic_ids:
            many.tree.recreate("orders", later)
            many.show()
            if version == later.partition_epoch:
                return  # it was written before
        await write(states, lives)

    monkeypatch.setattr(many.tree, "write_states", write_states)
    await many.lose(1)
    await eventually(lambda: bool(many.tree.topic_ids))
    await many.controller.elect_leaders([], is_unclean=False)  # after all that was to be done
    assert set(many.tree.states.values()) == {later}
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_leader_cannot_change_a_later_topic_of_the_same_name(cluster: Cluster) -> None:
    await cluster.elect()
    change = InSyncChange(cluster.orders, {1: 11, 2: 12}, UUID(int=7))
    answers = await cluster.controller.alter_partitions(1, 11, {ORDERS: change})
    assert isinstance(answers[ORDERS], UnknownTopicId)
    assert cluster.tree.writes == []


async def test_lives_that_another_hand_changed_are_written_again(cluster: Cluster) -> None:
    await cluster.elect()
    cluster.tree.lives[2] = 999
    del cluster.tree.lives[3]
    cluster.show()
    await eventually(lambda: cluster.tree.lives == {1: 11, 2: 12, 3: 13})
    assert cluster.orders.in_sync_replicas == (1, 2, 3)
    assert cluster.tree.writes == [({}, {2: 12, 3: 13})]
