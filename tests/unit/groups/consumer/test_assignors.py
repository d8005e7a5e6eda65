from itertools import pairwise
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.groups.consumer.assignors import ASSIGNORS, Candidate, assign_ranges, assign_uniformly, canonical
from millstream.groups.consumer.records import Assignment

A, B, C = (UUID(int=number) for number in (1, 2, 3))


def member(*topics: UUID, had: Assignment = (), instance_id: str | None = None) -> Candidate:
    return Candidate(instance_id, frozenset(topics), had)


def sizes(assignment: dict[str, Assignment]) -> dict[str, int]:
    return {name: sum(len(numbers) for _, numbers in topics) for name, topics in assignment.items()}


def flat(assignment: Assignment) -> set[tuple[UUID, int]]:
    return {(topic_id, number) for topic_id, numbers in assignment for number in numbers}


# --- range --------------------------------------------------------------------------------------------------------------------------------


def test_range_gives_neighbours_and_the_same_numbers_of_every_topic() -> None:
    assert assign_ranges({"m1": member(A, B), "m2": member(A, B)}, {A: 3, B: 3}) == {
        "m1": ((A, (0, 1)), (B, (0, 1))),
        "m2": ((A, (2,)), (B, (2,))),
    }


def test_range_gives_topics_to_their_subscribers_only() -> None:
    assert assign_ranges({"m1": member(A), "m2": member(A, B), "m3": member(B)}, {A: 3, B: 2}) == {
        "m1": ((A, (0, 1)),),
        "m2": ((A, (2,)), (B, (0,))),
        "m3": ((B, (1,)),),
    }


def test_range_puts_static_members_first_in_the_order_of_their_instance_ids() -> None:
    members = {"a": member(A), "z": member(A, instance_id="i1"), "y": member(A, instance_id="i2")}
    assert assign_ranges(members, {A: 3}) == {"z": ((A, (0,)),), "y": ((A, (1,)),), "a": ((A, (2,)),)}


def test_members_beyond_the_partitions_get_nothing() -> None:
    for assign in ASSIGNORS.values():
        assert sorted(sizes(assign({f"m{n}": member(A) for n in range(5)}, {A: 2})).values()) == [0, 0, 0, 1, 1]


# --- uniform ------------------------------------------------------------------------------------------------------------------------------


def test_uniform_spreads_every_topic() -> None:
    assignment = assign_uniformly({"m1": member(A, B), "m2": member(A, B)}, {A: 4, B: 4})
    assert assignment == {"m1": ((A, (0, 2)), (B, (0, 2))), "m2": ((A, (1, 3)), (B, (1, 3)))}


def test_uniform_moves_only_what_a_new_member_needs() -> None:
    before: Assignment = ((A, tuple(range(6))),)
    assignment = assign_uniformly({"m1": member(A, had=before), "m2": member(A)}, {A: 6})
    assert assignment["m1"] == ((A, (0, 1, 2)),)


def test_uniform_gives_the_extra_partitions_to_those_that_have_them() -> None:
    members = {"m1": member(A, had=((A, (0,)),)), "m2": member(A, had=((A, (1, 2)),))}
    assert assign_uniformly(members, {A: 3}) == {"m1": ((A, (0,)),), "m2": ((A, (1, 2)),)}


def test_uniform_forgets_topics_that_are_gone_and_partitions_that_two_believe_to_have() -> None:
    members = {"m1": member(A, had=((A, (0, 1)), (B, (0,)))), "m2": member(A, had=((A, (1, 5)),))}
    assert assign_uniformly(members, {A: 2}) == {"m1": ((A, (0,)),), "m2": ((A, (1,)),)}


def test_uniform_with_different_subscriptions_leaves_no_helpful_move() -> None:
    members = {"m1": member(A, had=((A, (0, 1, 2, 3)),)), "m2": member(A, B), "m3": member(B)}
    assert assign_uniformly(members, {A: 4, B: 4}) == {"m1": ((A, (0, 1, 2)),), "m2": ((A, (3,)), (B, (0, 2))), "m3": ((B, (1, 3)),)}


@pytest.mark.parametrize("name", ["uniform", "range"])
def test_no_members_and_no_partitions_give_an_empty_assignment(name: str) -> None:
    assert ASSIGNORS[name]({}, {A: 1}) == {}
    assert ASSIGNORS[name]({"m1": member()}, {}) == {"m1": ()}


# --- always -------------------------------------------------------------------------------------------------------------------------------

topics = st.sampled_from([A, B, C])
counts = st.fixed_dictionaries({topic: st.integers(1, 9) for topic in (A, B, C)})
subscriptions = st.dictionaries(st.sampled_from("pqrstuv"), st.frozensets(topics, min_size=1), min_size=1)


@given(st.lists(st.tuples(subscriptions, counts), min_size=1, max_size=4), st.sampled_from(sorted(ASSIGNORS)))
def test_every_subscribed_partition_has_exactly_one_subscriber(
    history: list[tuple[dict[str, frozenset[UUID]], dict[UUID, int]]], name: str
) -> None:
    assigned: dict[str, Assignment] = {}
    for subscribed, partition_counts in history:
        candidates = {m: Candidate(None, wanted, assigned.get(m, ())) for m, wanted in subscribed.items()}
        assigned = ASSIGNORS[name](candidates, partition_counts)
        assert set(assigned) == set(candidates)
        everything = [partition for topics_of in assigned.values() for partition in flat(topics_of)]
        wanted_topics = frozenset[UUID]().union(*subscribed.values())
        assert sorted(everything) == sorted((topic, n) for topic in wanted_topics for n in range(partition_counts[topic]))
        assert all(topic in subscribed[m] for m, topics_of in assigned.items() for topic, _ in topics_of)
        assert all(canonical({topic: set(numbers) for topic, numbers in topics_of}) == topics_of for topics_of in assigned.values())


@given(st.lists(st.tuples(st.sets(st.sampled_from("pqrstuvwxyz"), min_size=1), counts), min_size=1, max_size=5))
def test_uniform_is_balanced_and_moves_no_more_than_that_takes(history: list[tuple[set[str], dict[UUID, int]]]) -> None:
    assigned: dict[str, Assignment] = {}
    for names, partition_counts in history:
        before = {name: flat(assigned.get(name, ())) for name in names}
        assigned = assign_uniformly({name: member(A, B, C, had=assigned.get(name, ())) for name in names}, partition_counts)
        total = sum(partition_counts.values())
        assert set(sizes(assigned).values()) <= {total // len(names), -(-total // len(names))}
        still_there = {name: {(t, n) for t, n in had if n < partition_counts[t]} for name, had in before.items()}
        quota, extra = divmod(total, len(names))
        by_size = sorted((len(had) for had in still_there.values()), reverse=True)
        keepable = sum(min(size, quota + (index < extra)) for index, size in enumerate(by_size))
        assert sum(len(still_there[name] & flat(assigned[name])) for name in names) == keepable


@given(subscriptions, counts)
def test_uniform_leaves_no_partition_that_should_move_and_is_stable(
    subscribed: dict[str, frozenset[UUID]], partition_counts: dict[UUID, int]
) -> None:
    assigned = assign_uniformly({m: Candidate(None, wanted, ()) for m, wanted in subscribed.items()}, partition_counts)
    size = sizes(assigned)
    for owner, topics_of in assigned.items():
        for topic, _ in topics_of:
            assert all(size[owner] - size[other] <= 1 for other, wanted in subscribed.items() if topic in wanted)
    again = assign_uniformly({m: Candidate(None, wanted, assigned[m]) for m, wanted in subscribed.items()}, partition_counts)
    assert again == assigned


@given(st.integers(1, 9), counts)
def test_ranges_are_ranges(members: int, partition_counts: dict[UUID, int]) -> None:
    assigned = assign_ranges({f"m{n}": member(A, B, C) for n in range(members)}, partition_counts)
    for topics_of in assigned.values():
        assert all(after - before == 1 for _, numbers in topics_of for before, after in pairwise(numbers))


def test_newcomer_among_fifty_members_of_500_partitions_takes_only_its_share() -> None:
    had = assign_uniformly({f"m{n}": member(A) for n in range(49)}, {A: 500})
    members = {f"m{n}": member(A, had=had.get(f"m{n}", ())) for n in range(50)}
    assigned = assign_uniformly(members, {A: 500})
    moved = {name: set(assigned[name][0][1]) - set(had[name][0][1]) for name in had}
    assert not any(moved.values())
    assert [len(partitions) for [(_, partitions)] in assigned.values()] == [10] * 50
