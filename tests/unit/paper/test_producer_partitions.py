"""Where messages go: what librdkafka would do, as far as it is known which partitions there are."""

import pytest

from millstream.audit.reports.report import ANY_PARTITION
from millstream.client.key_partition import key_partition
from millstream.paper import producer_partitions
from millstream.paper.librdkafka import key_hasher
from millstream.paper.producer_partitions import KeyPartitions, ProducerPartitions

KEYS = [b"", b"a", b"key-17", b"\0\xff" * 30, *(b"%d" % number for number in range(200))]


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_partitions, "_ASK_S", 0.01)


def with_leaders(leaders: dict[int, int]) -> ProducerPartitions:
    return ProducerPartitions({}, leaders_of=lambda _topic: leaders)


def test_keys_are_hashed_as_every_client_does() -> None:
    hasher = key_hasher()
    assert [hasher(key, 7) for key in KEYS] == [key_partition(key, 7) for key in KEYS]
    partitions = with_leaders(dict.fromkeys(range(7), 1))
    assert [partitions.for_message("orders", key) for key in KEYS] == [key_partition(key, 7) for key in KEYS]


def test_only_the_latest_keys_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_partitions, "_CACHED_KEYS", 10)
    keys = KeyPartitions(3)
    for number in range(100):
        assert keys[b"%d" % number] == key_partition(b"%d" % number, 3)
        assert len(keys) <= 10


def test_messages_without_a_key_stay_together_for_a_moment_and_avoid_partitions_without_a_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(producer_partitions, "monotonic", lambda: now[0])
    partitions = with_leaders({0: 1, 1: -1, 2: 1})
    assert partitions.is_known("orders")
    chosen = set()
    for _ in range(100):
        now[0] += 0.02
        assert partitions.for_message("orders", None) == partitions.for_message("orders", None)
        chosen.add(partitions.for_message("orders", None))
    assert chosen == {0, 2}


def test_new_partitions_are_seen_in_the_statistics() -> None:
    partitions = with_leaders({0: 1})
    assert partitions.for_message("orders", b"17") == 0
    about = {str(number): {"leader": 1, "unknown": number > 4} for number in range(-1, 6)}
    partitions.feed({"topics": {"orders": {"partitions": about}, "others": {"partitions": about}}})
    assert [partitions.for_message("orders", key) for key in KEYS] == [key_partition(key, 5) for key in KEYS]
    partitions.feed({"topics": {"orders": {"partitions": {}}}})
    assert partitions.for_message("orders", b"17") == key_partition(b"17", 5)


def test_a_topic_that_was_created_anew_is_asked_for_again() -> None:
    leaders = dict.fromkeys(range(5), 1)
    partitions = with_leaders(leaders)
    assert {partitions.for_message("orders", key) for key in KEYS} == set(range(5))
    for number in range(1, 5):
        del leaders[number]
    partitions.forget("orders")
    partitions._ask_at.clear()
    assert {partitions.for_message("orders", key) for key in (None, *KEYS)} == {0}


def test_a_topic_that_is_not_there_is_asked_for_once_in_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]

    def monotonic() -> float:
        now[0] += 0.001
        return now[0]

    monkeypatch.setattr(producer_partitions, "monotonic", monotonic)
    leaders: dict[int, int] = {}
    partitions = with_leaders(leaders)
    assert partitions.for_message("orders", b"key") == ANY_PARTITION
    leaders[0] = 1
    assert partitions.for_message("orders", b"key") == ANY_PARTITION
    now[0] += 10
    assert partitions.for_message("orders", b"key") == 0


@pytest.mark.parametrize("partitioner", ["consistent_random", "fnv1a"])
def test_with_another_partitioner_librdkafka_decides(partitioner: str) -> None:
    partitions = ProducerPartitions({"partitioner": partitioner}, leaders_of=lambda _topic: {0: 1})
    assert partitions.is_known("orders")
    assert {partitions.for_message("orders", key) for key in (None, *KEYS)} == {ANY_PARTITION}
