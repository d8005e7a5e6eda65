"""Arbitrary bytes, arbitrary JSON and slightly damaged JSON in every znode that a broker reads: it is refused, or it is sound."""

import asyncio
import copy
import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.broker.cluster.live_settings import LiveSettings
from millstream.broker.cluster.registration import prepare_tree, recall_directories
from millstream.coordination import paths
from millstream.coordination.change_log import ChangeLog
from millstream.coordination.cluster_view import DEFAULT_BROKER, BrokerState, ClusterView, TopicState
from millstream.coordination.cluster_watcher import ClusterWatcher
from millstream.coordination.election import ControllerElection
from millstream.coordination.embedded import EmbeddedCoordination
from millstream.coordination.partition_state import PartitionState
from millstream.coordination.topic_header import TopicHeader
from millstream.errors import CoordinatorLoadInProgress
from millstream.files import Files
from millstream.log.directories.known_directories import KnownDirectories
from millstream.paper.groups.assignment import read_subscription
from millstream.paper.groups.group_registry import read_offset
from millstream.transactions.producer_ids import ProducerIds
from tests.manual_clock import ManualClock

TOPIC = TopicState("orders", UUID(int=7), (PartitionState.first((1,)), PartitionState.first((2, 1))), {"retention.ms": "5"})
SOUND = {
    paths.topic("orders"): json.loads(TOPIC.header.encode()),
    paths.partition("orders", 0): json.loads(TOPIC.partitions[0].encode()),
    paths.partition("orders", 1): json.loads(TOPIC.partitions[1].encode()),
    paths.topic("events"): json.loads(replace(TOPIC, topic_id=UUID(int=8)).header.encode()),
    paths.partition("events", 0): json.loads(TOPIC.partitions[0].encode()),
    paths.partition("events", 1): json.loads(TOPIC.partitions[1].encode()),
    paths.CHANGES: json.loads(ChangeLog().with_changes([("orders", (0,)), ("events", None), ("", None)]).encode()),
    paths.broker_epoch(1): 17,
    paths.broker(1): json.loads(BrokerState(1, "host", 9092, "rack").encode()),
    paths.broker_config(1): {"log.retention.ms": "5"},
    paths.broker_config(None): {"max.connections": "9"},
    paths.CONTROLLER: {"broker_id": 1},
    paths.CONTROLLER_EPOCH: 3,
    paths.PRODUCER_IDS: {"next": 2000},
    paths.broker_directories(1): json.loads(KnownDirectories(2, {"A": "/a"}, "A").encode()),
}
scalars = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(["0", "1", "\ud800", "x" * 40_000])
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3), max_leaves=6
)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every container in a JSON value, with each key or index in it."""
    keys = list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    return [(value, key) for key in keys] + [place for key in keys for place in places(value[key])]


@st.composite
def contents(draw: st.DrawFn, path: str) -> bytes:
    """What may be in the znode: what belongs there, or that with one thing replaced or missing, or anything."""
    kind = draw(st.sampled_from(["sound", "damaged", "json", "bytes"]))
    if kind == "bytes":
        return draw(st.binary(max_size=20) | st.sampled_from([b"[" * 5000, b"9" * 5000]))
    if kind == "json":
        return json.dumps(draw(values)).encode()
    value = copy.deepcopy(SOUND[path])
    found = places(value)
    if kind == "damaged" and found:
        container, key = draw(st.sampled_from(found))
        if draw(st.booleans()):
            container[key] = draw(values)
        else:
            del container[key]
    return json.dumps(value).encode()


trees = st.fixed_dictionaries({path: contents(path) for path in SOUND})


def assert_sound(view: ClusterView) -> None:
    """Whatever is in the view can be written, kept and sent to clients."""
    for topic in view.topics.values():
        assert TopicHeader.decode(topic.name, topic.header.encode()) == topic.header
        for state in topic.partitions:
            assert PartitionState.decode(state.encode(), partition_epoch=state.partition_epoch) == state
        assert "\ud800" not in repr(topic)
    for broker in view.brokers.values():
        assert BrokerState.decode(broker.node_id, broker.encode(), epoch=broker.epoch) == broker
    assert set(view.broker_configs) <= {"1", DEFAULT_BROKER}
    assert -1 <= view.controller_id < 2**31
    assert len(view.topics_by_id) == len(view.topics)
    live = LiveSettings({}, node_id=1)
    live.apply(view)
    for topic in view.topics.values():
        live.log_config(topic)


async def follow(directory: Path, first: dict[str, bytes], second: dict[str, bytes]) -> None:
    """Read one tree, then what it was changed to, and stand for election and take an id in it."""
    coordination = await EmbeddedCoordination.open(directory, files=Files(), clock=ManualClock(), broker_session_name="b", is_synced=False)
    await prepare_tree(coordination, cluster_id="cluster")
    for path, data in sorted(first.items()):
        if path == paths.CHANGES:
            await coordination.set(path, data)
        else:
            await coordination.create(path, data, make_parents=True)

    async def take_up(view: ClusterView) -> None:
        assert_sound(view)

    watcher = ClusterWatcher(coordination, on_change=take_up)
    await watcher.load()
    before = watcher.view
    running = asyncio.create_task(watcher.run())
    for path, data in second.items():
        await coordination.set(path, data)
    assert await watcher.catch_up(timeout_ms=20_000)
    assert await watcher.catch_up(("controller", ""), timeout_ms=20_000)
    assert set(before.topics) <= set(watcher.view.topics), "what made sense before stays"
    assert {*watcher.view.topics, *watcher.view.unreadable_topics} == {"orders", "events"}
    running.cancel()
    await coordination.delete(paths.CONTROLLER)
    election = ControllerElection(coordination, broker_id=1, on_elected=lambda _claim: None, on_resigned=lambda: None)
    await election.start()
    assert election.claim is not None
    await election.stop()
    try:
        assert await ProducerIds(coordination).take() >= 0
    except CoordinatorLoadInProgress as error:
        assert paths.PRODUCER_IDS in str(error)  # noqa: PT017 -- either answer is right
    await recall_directories(coordination, 1)
    await coordination.close()


@pytest.mark.filterwarnings("ignore:Generating overly large repr")
@settings(max_examples=60, deadline=None)
@given(trees, trees)
def test_a_broker_goes_on_whatever_is_in_the_tree(first: dict[str, bytes], second: dict[str, bytes]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(follow(Path(directory), first, second))


@given(st.binary(max_size=40) | values.map(lambda value: json.dumps({"topics": value}).encode()))
def test_what_consumers_write_is_sound_or_none(data: bytes) -> None:
    subscription = read_subscription(data)
    assert subscription is None or all(0 <= count < 2**15 for count in subscription.topics.values())
    offset = read_offset(data)
    assert offset is None or 0 <= offset < 10**19
