"""Partitions that move between brokers while an idempotent producer writes to them, and what can be seen of it from outside."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tests.cluster.brokers_on_tree import BrokersOnTree
from tests.cluster.failover.confluent_work import ConfluentProducer
from tests.cluster.faults.groups import read_back
from tests.waiting import wait_until

ALTER_REASSIGNMENTS, LIST_REASSIGNMENTS = 45, 46
PARTITIONS = range(3)
DEADLINE_S = 60.0


class Load(ConfluentProducer):
    """An idempotent producer, acks=all, that hardly rests."""

    def pause(self) -> None:
        self._asked_to_end.wait(0.003)


@contextmanager
def under_load(cluster: BrokersOnTree, topic: str) -> Iterator[Load]:
    """While it writes; afterwards all that was acknowledged is read again."""
    load = Load("load", topic, cluster.bootstrap_servers, enable_idempotence=True)
    load.start()
    try:
        await_progress(load)
        yield load
        await_progress(load)
    finally:
        load.end()
    assert load.errors == []
    servers = ",".join(node.bootstrap_servers for node in cluster.nodes.values() if node.is_running)
    found = read_back(servers, topic, PARTITIONS, deadline_s=DEADLINE_S)
    for partition in PARTITIONS:
        values = [int(record.value or b"") for record in found[partition]]
        assert values == sorted(set(values)), f"{topic}-{partition} has records twice or out of order"
        by_offset = {record.offset: int(record.value or b"") for record in found[partition]}
        acknowledged = {step.offset: step.value for step in load.steps if step.partition == partition}
        assert acknowledged.items() <= by_offset.items(), f"{topic}-{partition} has lost what was acknowledged"


def await_progress(load: Load) -> None:
    before = load.progress()
    wait_until(
        lambda: load.errors or all(load.progress()[partition] >= before[partition] + 10 for partition in PARTITIONS),
        "the producer gets on",
        deadline_s=DEADLINE_S,
    )


def reassign(cluster: BrokersOnTree, topic: str, replicas: Sequence[int] | None, *, numbers: Iterable[int] = PARTITIONS) -> list[int]:
    """All partitions to these brokers, or (None) back; the error codes. Asked of any broker, as tools do, until there is a controller."""
    partitions = [{"partition_index": number, "replicas": replicas} for number in numbers]
    fields = {"timeout_ms": 10_000, "topics": [{"name": topic, "partitions": partitions}]}

    def answer() -> Any:
        answer = cluster.ask(ALTER_REASSIGNMENTS, 0, fields)
        return answer if answer.error_code == 0 else None

    return [one.error_code for one in wait_until(answer, "a controller answers", deadline_s=DEADLINE_S).responses[0].partitions]


def under_way(cluster: BrokersOnTree, topic: str) -> dict[int, Any] | None:
    """What is listed of the topic; None while there is no controller."""
    answer = cluster.ask(LIST_REASSIGNMENTS, 0, {"timeout_ms": 10_000, "topics": None})
    if answer.error_code != 0:
        return None
    return {one.partition_index: one for found in answer.topics if found.name == topic for one in found.partitions}


def await_moved(cluster: BrokersOnTree, topic: str, *replicas: int, numbers: Iterable[int] = PARTITIONS) -> None:
    """Until these keep all of it in sync, nothing is listed, and the others have no files of it."""

    def is_moved() -> bool:
        states = [cluster.state(topic, number) for number in numbers]
        return all(tuple(state["replicas"]) == replicas and set(state["in_sync_replicas"]) == set(replicas) for state in states)

    wait_until(is_moved, f"{topic} is on {replicas}", deadline_s=DEADLINE_S)
    wait_until(lambda: under_way(cluster, topic) == {}, "nothing is listed")
    others = [node_id for node_id in cluster.running_ids if node_id not in replicas]
    wait_until(lambda: not any(has_files(cluster, node_id, topic) for node_id in others), f"only {replicas} have files")
    assert all(has_files(cluster, node_id, topic) for node_id in replicas)


def has_files(cluster: BrokersOnTree, node_id: int, topic: str) -> bool:
    return any(cluster.nodes[node_id].partition_directory(topic, number).exists() for number in PARTITIONS)


@contextmanager
def away(cluster: BrokersOnTree, node_id: int) -> Iterator[None]:
    """A broker is dead for a while: what waits for it stays as it is."""
    cluster.kill(node_id)
    try:
        yield
    finally:
        cluster.start(node_id)


def others(cluster: BrokersOnTree, *node_ids: int) -> list[int]:
    return [node_id for node_id in cluster.nodes if node_id not in node_ids]


def listed(cluster: BrokersOnTree, topic: str) -> list[Any]:
    """What is under way of the topic, once there is a controller."""
    found: list[dict[int, Any]] = []

    def is_answered() -> bool:
        answer = under_way(cluster, topic)
        found[:] = [] if answer is None else [answer]
        return bool(found)

    wait_until(is_answered, "a controller answers", deadline_s=DEADLINE_S)
    return list(found[0].values())


def strays(cluster: BrokersOnTree, node_id: int, topic: str) -> int:
    """Directories of the topic that its broker has set aside."""
    return len(list(cluster.nodes[node_id].data.glob(f"{topic}-*-stray")))
