"""The fast way of dividing partitions among members that read different topics, against the plain one that it has to agree with."""

import heapq
from collections.abc import Mapping
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.groups.consumer import uneven_assignment
from millstream.groups.consumer.uneven_assignment import UnevenAssignment

Divided = dict[str, dict[UUID, set[int]]]
TOPICS = [UUID(int=number) for number in range(1, 6)]


def plainly(subscriptions: Mapping[str, frozenset[UUID]], kept: Divided, free: dict[UUID, list[int]]) -> Divided:
    """The rules word for word: look through all members for every partition."""
    loads = {member_id: sum(map(len, topics.values())) for member_id, topics in kept.items()}
    readers = {topic_id: [name for name in sorted(kept) if topic_id in subscriptions[name]] for topic_id in TOPICS}
    counts = {one: len(free.get(one, [])) + sum(len(topics.get(one, ())) for topics in kept.values()) for one in TOPICS}
    order = sorted(filter(readers.get, TOPICS), key=lambda one: (-counts[one] / len(readers[one]), len(readers[one]), one.int))

    def move(topic_id: UUID, partition: int, giver: str | None, taker: str) -> None:
        if giver is not None:
            kept[giver][topic_id].remove(partition)
            loads[giver] -= 1
        kept[taker].setdefault(topic_id, set()).add(partition)
        loads[taker] += 1

    for topic_id in order:
        for partition in free.get(topic_id, []):
            move(topic_id, partition, None, min(readers[topic_id], key=loads.__getitem__))
    for _ in range(16):
        has_moved = False
        for topic_id in order:
            while givers := [name for name in readers[topic_id] if kept[name].get(topic_id)]:
                fullest, emptiest = max(givers, key=loads.__getitem__), min(readers[topic_id], key=loads.__getitem__)
                if loads[fullest] - loads[emptiest] < 2:
                    break
                move(topic_id, max(kept[fullest][topic_id]), fullest, emptiest)
                has_moved = True
        if not has_moved:
            break
    return kept


@given(
    subscriptions=st.dictionaries(
        st.sampled_from([f"m{number}" for number in range(7)]), st.frozensets(st.sampled_from(TOPICS)), min_size=1, max_size=7
    ),
    counts=st.lists(st.integers(0, 12), min_size=len(TOPICS), max_size=len(TOPICS)),
    owners=st.lists(st.integers(0, 9), min_size=12 * len(TOPICS), max_size=12 * len(TOPICS)),
)
def test_result_is_the_one_of_the_plain_rules(subscriptions: dict[str, frozenset[UUID]], counts: list[int], owners: list[int]) -> None:
    kept: Divided = {member_id: {} for member_id in subscriptions}
    free: dict[UUID, list[int]] = {}
    for position, topic_id in enumerate(TOPICS):
        readers = sorted(member_id for member_id, topics in subscriptions.items() if topic_id in topics)
        for partition in range(counts[position] if readers else 0):
            owner = owners[12 * position + partition]
            if owner < len(readers):
                kept[readers[owner]].setdefault(topic_id, set()).add(partition)
            else:
                free.setdefault(topic_id, []).append(partition)
    divided = UnevenAssignment(subscriptions, kept, free).divide()
    expected = plainly(subscriptions, kept, free)
    assert {name: {topic: got for topic, got in topics.items() if got} for name, topics in divided.items()} == {
        name: {topic: got for topic, got in topics.items() if got} for name, topics in expected.items()
    }


def work(partitions: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many entries of heaps are touched when one member has everything and a hundred others want their share."""
    touched = 0

    def heapify(heap: list[int]) -> None:
        nonlocal touched
        touched += len(heap)
        heapq.heapify(heap)

    def heapreplace(heap: list[int], item: int) -> int:
        nonlocal touched
        touched += 1
        return heapq.heapreplace(heap, item)

    monkeypatch.setattr(uneven_assignment, "heapify", heapify)
    monkeypatch.setattr(uneven_assignment, "heapreplace", heapreplace)
    one, other = TOPICS[:2]
    subscriptions = {"m0": frozenset({one}), **{f"m{number}": frozenset({one, other}) for number in range(1, 101)}}
    kept: Divided = {member_id: {} for member_id in subscriptions}
    kept["m0"] = {one: set(range(partitions))}
    UnevenAssignment(subscriptions, kept, {other: list(range(partitions))}).divide()
    return touched


def test_work_grows_with_the_partitions_and_not_with_their_square(monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = work(1_000, monkeypatch), work(10_000, monkeypatch)
    assert many < 12 * few
    assert many < 10 * 10_000
