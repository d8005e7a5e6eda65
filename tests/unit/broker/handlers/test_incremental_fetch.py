"""Sessions read what moved, and nothing that moved is missed."""

import asyncio
from dataclasses import replace
from random import Random

import pytest

from millstream.cluster.partition import Partition
from millstream.cluster.replicas import Replicas
from millstream.coordination.partition_state import PartitionState
from millstream.errors import NotLeaderOrFollower, OffsetOutOfRange, UnknownLeaderEpoch, UnknownTopicId
from millstream.log.directories.manager import LogManager
from millstream.wire.api import ApiKey
from tests.batches import decode_records
from tests.manual_clock import ManualClock
from tests.unit.broker.handlers.conftest import config_of
from tests.unit.broker.handlers.session_reader import (
    BROKERS,
    CONSUMER,
    COUNT,
    FOLLOWER,
    LAG_MS,
    LONG_MS,
    STATE,
    CountingFamily,
    Reader,
    commit,
    indexes,
    reader_at_the_end,
    view,
    watchers,
)
from tests.unit.cluster.hosting import append, local_broker, replicas_on, view_of


@pytest.fixture
def wanted_changes() -> list[Partition]:
    return []


@pytest.fixture
def replicas(logs: LogManager, clock: ManualClock, wanted_changes: list[Partition]) -> Replicas:
    return replicas_on(logs, log_config=config_of, broker=local_broker(clock=clock, in_sync_change_wanted=wanted_changes.append))


@pytest.mark.parametrize("replica", [CONSUMER, FOLLOWER])
async def test_idle_partitions_are_not_looked_at(family: CountingFamily, partitions: list[Partition], replica: tuple[int, int]) -> None:
    reader = await reader_at_the_end(family, replica)
    family.looks = 0
    assert await reader.mentioned() == []
    assert family.looks == 0
    append(partitions[7], b"a")
    if replica == CONSUMER:
        commit(partitions[7], 1)
    assert await reader.mentioned() == [7]
    assert await reader.mentioned({7: 1}) in ([], [7])
    assert family.looks == 2
    assert await reader.mentioned() == []
    assert family.looks == 2


@pytest.mark.parametrize("replica", [CONSUMER, FOLLOWER])
async def test_one_append_wakes_a_session_that_looks_at_one_partition(
    family: CountingFamily, partitions: list[Partition], replica: tuple[int, int]
) -> None:
    reader = await reader_at_the_end(family, replica)
    family.looks = 0
    assert await reader.ask(max_wait_ms=LONG_MS) is None
    assert (family.looks, watchers(partitions)) == (0, COUNT)
    append(partitions[3], b"a")
    commit(partitions[3], 1)
    assert indexes(await reader.desk.later(ApiKey.FETCH, 17)) == [3]
    assert (family.looks, watchers(partitions)) == (1, COUNT - 1)


async def test_bytes_of_several_idle_partitions_add_up(family: CountingFamily, partitions: list[Partition]) -> None:
    reader = await reader_at_the_end(family, FOLLOWER)
    assert await reader.ask(max_wait_ms=LONG_MS, min_bytes=400) is None
    for partition in partitions[:2]:
        append(partition, b"a" * 100)
        await asyncio.sleep(0)
    assert reader.desk.pending[0].chunks is None
    append(partitions[2], b"a" * 100)
    assert indexes(await reader.desk.later(ApiKey.FETCH, 17)) == [0, 1, 2]


async def test_what_did_not_fit_comes_with_the_next_answers_and_each_has_its_turn(
    family: CountingFamily, partitions: list[Partition]
) -> None:
    reader = await reader_at_the_end(family, FOLLOWER)
    for partition in partitions[:3]:
        append(partition, b"a" * 100)
        append(partition, b"b" * 100)
    order = []
    for _ in range(6):
        answer = await reader.ask(max_bytes=200)
        given = [found.partition_index for found in answer.responses[0].partitions if decode_records(found.records)]
        order += given
        assert len(given) == 1
    assert order == [0, 1, 2, 0, 1, 2], "it asks for the same again, as if nothing had come"
    assert await reader.mentioned({0: 2, 1: 2}) == [0, 1, 2], "the high watermarks of two are news"


async def test_follower_hears_of_high_watermarks_without_being_woken_for_them(
    replicas: Replicas, family: CountingFamily, partitions: list[Partition]
) -> None:
    await replicas.apply(view(STATE._replace(replicas=(1, 2, 3), in_sync_replicas=(1, 2, 3), partition_epoch=1), *[STATE] * (COUNT - 1)))
    reader = await reader_at_the_end(family, FOLLOWER)
    append(partitions[0], b"a")
    assert await reader.mentioned() == [0]
    assert await reader.mentioned({0: 1}) == []
    assert await reader.ask(max_wait_ms=LONG_MS) is None
    partitions[0].as_leader().replica_fetched(3, 30, 1, 0)
    await asyncio.sleep(0)
    assert (partitions[0].high_watermark.value, reader.desk.pending[0].chunks) == (1, None)
    append(partitions[1], b"a")
    answer = await reader.desk.later(ApiKey.FETCH, 17)
    assert [(found.partition_index, found.high_watermark) for found in answer.responses[0].partitions] == [(1, 0), (0, 1)]


async def test_log_start_that_moves_is_mentioned(replicas: Replicas, family: CountingFamily, partitions: list[Partition]) -> None:
    append(partitions[4], b"a", b"b")
    commit(partitions[4], 2)
    reader = await reader_at_the_end(family)
    assert await reader.mentioned({4: 2}) == []
    partitions[4].as_leader().delete_records_before(1)
    assert (await reader.ask()).responses[0].partitions[0].log_start_offset == 1
    assert await reader.mentioned() == []
    partitions[4].log.delete_records_before(2)
    replicas.log_shortened(partitions[4].log)
    assert (await reader.ask()).responses[0].partitions[0].log_start_offset == 2


@pytest.mark.parametrize("is_waiting", [True, False])
@pytest.mark.parametrize(
    ("states", "code"),
    [
        ([], UnknownTopicId.code),
        ([STATE._replace(replicas=(2,), leader=2, in_sync_replicas=(2,))] * COUNT, NotLeaderOrFollower.code),
        ([STATE._replace(leader_epoch=4)] * COUNT, 74),
    ],
    ids=["gone", "elsewhere", "another epoch"],
)
async def test_idle_partition_that_goes_or_changes_hands_is_answered(
    replicas: Replicas, family: CountingFamily, partitions: list[Partition], states: list[PartitionState], code: int, is_waiting: bool
) -> None:
    reader = await reader_at_the_end(family)
    if is_waiting:
        assert await reader.ask(max_wait_ms=LONG_MS) is None
    changed = [state._replace(partition_epoch=9) for state in states]
    await replicas.apply(view(*changed) if changed else replace(view_of(), brokers=BROKERS))
    answer = await (reader.desk.later(ApiKey.FETCH, 17) if is_waiting else reader.ask())
    assert {found.error_code for found in answer.responses[0].partitions} == {code}
    assert len(await reader.mentioned()) == COUNT, "an error comes every time"
    assert watchers(partitions) == 0


async def test_what_another_reader_may_see_is_read_again(family: CountingFamily, partitions: list[Partition]) -> None:
    append(partitions[0], b"a")
    commit(partitions[0], 1)
    reader = await reader_at_the_end(family)
    assert await reader.mentioned({0: 1}) == []
    family.looks = 0
    await reader.ask(isolation_level=1)
    assert family.looks == COUNT
    append(partitions[0], b"b")
    reader.replica = FOLLOWER
    assert await reader.mentioned() == [0]
    assert family.looks == 2 * COUNT


async def test_follower_of_a_former_life_is_refused_for_everything(
    replicas: Replicas, family: CountingFamily, partitions: list[Partition]
) -> None:
    reader = await reader_at_the_end(family, FOLLOWER)
    await replicas.apply(view(*[STATE] * COUNT, brokers={1: BROKERS[1]}))
    answer = await reader.ask()
    assert [found.error_code for found in answer.responses[0].partitions] == [NotLeaderOrFollower.code] * COUNT
    await replicas.apply(view(*[STATE] * COUNT))
    assert len(await reader.mentioned()) == COUNT, "that the error is over is news"
    assert await reader.mentioned() == []


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("replica", [CONSUMER, FOLLOWER])
async def test_sessions_are_answered_as_if_everything_were_read(
    replicas: Replicas, family: CountingFamily, partitions: list[Partition], replica: tuple[int, int], seed: int
) -> None:
    random = Random(seed)
    reader, whole = await reader_at_the_end(family, replica, leader_epoch=-1), Reader(family, replica)
    whole.epoch = -1
    offsets = dict.fromkeys(range(COUNT), 0)
    known = dict.fromkeys(range(COUNT), (0, 0, 0))
    states, elsewhere = [STATE] * COUNT, set[int]()
    for _ in range(150):
        index = random.randrange(4)
        partition = partitions[index]
        leader, end = partition.leading, partition.log.log_end_offset
        step = random.choice(["append", "append", "commit", "delete", "position", "move", "fetch", "fetch", "fetch"])
        if step == "move":
            leads = 3 - states[index].leader
            states[index] = states[index]._replace(leader=leads, partition_epoch=states[index].partition_epoch + 1)
            states[index] = states[index]._replace(leader_epoch=states[index].leader_epoch + 1)
            await replicas.apply(view(*states))
        elif step == "fetch":
            whole.epoch = -1
            # The same question without a session first: it is answered with everything, and counts for a follower in the same way.
            expected = {}
            for found in (await whole.ask(offsets, leader_epoch=-1)).responses[0].partitions:
                facts = found.error_code, found.high_watermark, found.log_start_offset
                if facts != known[found.partition_index] or facts[0] or found.records:
                    expected[found.partition_index] = facts
                known[found.partition_index] = facts
            named = {one: offsets[one] for one in range(4) if one in elsewhere or random.random() < 0.1}
            elsewhere.clear()
            answer = await reader.ask(named, leader_epoch=-1)
            got = {found.partition_index: found for topic in answer.responses for found in topic.partitions}
            assert {one: (found.error_code, found.high_watermark, found.log_start_offset) for one, found in got.items()} == expected
        elif leader is not None and step == "append":
            append(partition, b"a" * random.randrange(100))
        elif leader is not None and step == "commit":
            leader.replica_fetched(2, 20, random.randint(partition.high_watermark.value, end), 0)
        elif leader is not None and step == "delete":
            leader.delete_records_before(random.randint(partition.log.log_start_offset, partition.high_watermark.value))
        else:
            offsets[index] = end
            elsewhere.add(index)


# --- nothing is left behind


async def test_forgotten_ended_and_replaced_sessions_leave_no_watchers(family: CountingFamily, partitions: list[Partition]) -> None:
    reader = await reader_at_the_end(family)
    await reader.ask(forgotten=(0, 1))
    assert watchers(partitions) == COUNT - 2
    reader.epoch = 0
    await reader.ask({5: 0})
    assert watchers(partitions) == 1
    reader.epoch = -1
    await reader.ask({5: 0})
    assert watchers(partitions) == 0


async def test_evicted_session_leaves_no_watchers(family: CountingFamily, partitions: list[Partition], clock: ManualClock) -> None:
    for _ in range(2):
        await reader_at_the_end(family)
    assert watchers(partitions) == 2 * COUNT
    clock.advance(2_000)
    await Reader(family, CONSUMER).ask({0: 0})
    assert watchers(partitions) == COUNT + 1


async def test_session_that_ends_while_it_waits_is_answered_and_leaves_nothing(family: CountingFamily, partitions: list[Partition]) -> None:
    reader = await reader_at_the_end(family, FOLLOWER)
    assert await reader.ask(max_wait_ms=LONG_MS) is None
    other = Reader(family, FOLLOWER)
    other.session_id, other.epoch = reader.session_id, -1
    await other.ask()
    append(partitions[2], b"a")
    assert indexes(await reader.desk.later(ApiKey.FETCH, 17)) == [2]
    assert watchers(partitions) == 0


async def test_session_whose_client_is_gone_is_called_once_per_partition(family: CountingFamily, partitions: list[Partition]) -> None:
    reader = await reader_at_the_end(family, FOLLOWER)
    assert await reader.ask(max_wait_ms=LONG_MS) is None
    reader.desk.abandon()
    assert watchers(partitions) == COUNT
    append(partitions[0], b"a")
    assert len(partitions[0].watchers) == 0


# --- followers that have everything are in sync


def out_of_sync(partition: Partition, clock: ManualClock) -> bool:
    leader = partition.as_leader()
    wanted = leader.replica_set.wanted_change(leader.log.log_end_offset, able=(1, 2), now_ms=clock.monotonic_ms())
    return wanted is not None and 2 not in wanted


async def test_follower_of_an_idle_partition_stays_in_sync_when_the_log_goes_on(
    family: CountingFamily, partitions: list[Partition], clock: ManualClock
) -> None:
    reader = await reader_at_the_end(family, FOLLOWER)
    for _ in range(10):
        clock.advance(LAG_MS // 2)
        await reader.ask()
    append(partitions[0], b"a")
    assert not out_of_sync(partitions[0], clock)
    clock.advance(LAG_MS)
    assert not out_of_sync(partitions[0], clock)
    await reader.ask()
    clock.advance(1)
    assert out_of_sync(partitions[0], clock), "it asks, and does not get further"
    assert not out_of_sync(partitions[1], clock)


async def test_follower_that_is_silent_leaves_as_soon_as_the_log_goes_on(
    family: CountingFamily, partitions: list[Partition], clock: ManualClock
) -> None:
    reader = await reader_at_the_end(family, FOLLOWER)
    await reader.ask()
    clock.advance(LAG_MS + 1)
    assert not out_of_sync(partitions[0], clock), "it has everything, as in Kafka"
    append(partitions[0], b"a")
    assert out_of_sync(partitions[0], clock)


async def test_session_speaks_only_for_what_it_still_fetches(
    family: CountingFamily, partitions: list[Partition], clock: ManualClock
) -> None:
    reader = await reader_at_the_end(family, FOLLOWER)
    clock.advance(LAG_MS)
    await reader.ask(forgotten=(0,))
    clock.advance(LAG_MS)
    await reader.ask()
    for partition in partitions[:2]:
        append(partition, b"a")
    clock.advance(1)
    assert out_of_sync(partitions[0], clock)
    assert not out_of_sync(partitions[1], clock)


async def test_session_does_not_speak_for_a_partition_with_an_error(
    family: CountingFamily, partitions: list[Partition], clock: ManualClock
) -> None:
    reader = await reader_at_the_end(family, FOLLOWER)
    answer = await reader.ask({0: 9})
    assert answer.responses[0].partitions[0].error_code == OffsetOutOfRange.code
    for _ in range(2):
        clock.advance(LAG_MS)
        answer = await reader.ask()
    append(partitions[0], b"a")
    assert out_of_sync(partitions[0], clock)


async def test_session_of_an_unregistered_broker_says_nothing(
    replicas: Replicas, family: CountingFamily, partitions: list[Partition], clock: ManualClock
) -> None:
    reader = await reader_at_the_end(family, FOLLOWER)
    await replicas.apply(view(*[STATE] * COUNT, brokers={1: BROKERS[1]}))
    for _ in range(2):
        clock.advance(LAG_MS)
        await reader.ask()
    append(partitions[0], b"a")
    assert out_of_sync(partitions[0], clock)


async def test_follower_that_belongs_into_the_in_sync_set_asks_with_each_request(
    replicas: Replicas, family: CountingFamily, partitions: list[Partition], wanted_changes: list[Partition]
) -> None:
    await replicas.apply(view(STATE._replace(in_sync_replicas=(1,), partition_epoch=1), *[STATE] * (COUNT - 1)))
    reader = await reader_at_the_end(family, FOLLOWER)
    await reader.ask()
    assert wanted_changes == [partitions[0]] * 2
    leader = partitions[0].as_leader()
    leader.replica_set.asked({1, 2})
    await reader.ask()
    await reader.ask()
    assert len(wanted_changes) == 2, "it was asked for"
    leader.refused()
    await reader.ask()
    assert len(wanted_changes) == 3
    leader.decided(STATE._replace(partition_epoch=2))
    family.looks = 0
    for _ in range(3):
        await reader.ask()
    assert (len(wanted_changes), family.looks) == (3, 1)


async def test_replica_that_is_taken_off_is_refused(replicas: Replicas, family: CountingFamily, partitions: list[Partition]) -> None:
    reader = await reader_at_the_end(family, FOLLOWER)
    without = STATE._replace(replicas=(1,), in_sync_replicas=(1,), partition_epoch=1)
    await replicas.apply(view(without, *[STATE] * (COUNT - 1)))
    answer = await reader.ask()
    assert [found.error_code for found in answer.responses[0].partitions] == [UnknownLeaderEpoch.code]


async def test_high_watermark_does_not_wait_for_a_broker_that_is_gone_because_the_others_have_everything(
    replicas: Replicas, family: CountingFamily, partitions: list[Partition], clock: ManualClock
) -> None:
    three = STATE._replace(replicas=(1, 2, 3), partition_epoch=1)
    await replicas.apply(view(three, *[STATE] * (COUNT - 1)))
    reader, leader = await reader_at_the_end(family, FOLLOWER), partitions[0].as_leader()
    leader.replica_fetched(3, 30, 0, 0)
    leader.replica_set.asked({1, 2})
    append(partitions[0], b"a")
    await reader.ask({0: 1})
    assert partitions[0].high_watermark.value == 0, "broker 3 was about to join"
    clock.advance(LAG_MS + 1)
    assert await reader.mentioned() == [0]
    assert partitions[0].high_watermark.value == 1
    family.looks = 0
    assert await reader.mentioned() == []
    assert family.looks == 0


async def test_deletion_of_records_is_looked_at_with_each_request(family: CountingFamily, partitions: list[Partition]) -> None:
    append(partitions[0], b"a")
    reader, leader = await reader_at_the_end(family, FOLLOWER), partitions[0].as_leader()
    await reader.ask({0: 1})
    outcome: list[object] = []
    leader.delete_records_before(1)
    leader.low_watermark.wait_for(1, outcome.append, token=outcome.append)
    assert await reader.mentioned() == [0]
    family.looks = 0
    await reader.ask()
    assert (family.looks, outcome) == (1, [])
    leader.low_watermark.cancel(outcome.append)
    await reader.ask()
    await reader.ask()
    assert family.looks == 2
