"""A mirrored topic on three brokers: what a mirror was answered for survives its leader, at the same offsets, on every replica alike."""

from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from millstream.errors import NotLeaderOrFollower
from tests.batches import split_batches
from tests.brokers import IS_KAFKA, Broker, MillstreamBroker
from tests.cluster.brokers_on_tree import BrokersOnTree, brokers_on_tree
from tests.connection import METADATA
from tests.mirror.appending import SOURCE, mirror_append, mirrored_batch, own_connection
from tests.mirror.mirror_process import MirrorProcess, await_same, batches_of, end_of
from tests.topics import create_assigned_topic, create_topic, produce_to_leader, produce_values, set_option, topic_id
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(IS_KAFKA, reason="starts several brokers of its own")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokersOnTree]:
    with brokers_on_tree(tmp_path_factory.mktemp("cluster")) as made:
        yield made


def append(cluster: BrokersOnTree, topic: str, own_id: UUID, *offsets: int, expected_end: int) -> None:
    batches = [mirrored_batch(b"%d" % offset, at=offset, producer_id=8, producer_epoch=0, base_sequence=offset) for offset in offsets]
    with own_connection(cluster.nodes[cluster.leader(topic)]) as connection:
        wait_until(
            lambda: mirror_append(connection, own_id, expected_end=-1).error_code != NotLeaderOrFollower.code, "it knows that it leads"
        )
        assert mirror_append(connection, own_id, *batches, expected_end=expected_end)[:3] == (0, 0, offsets[-1] + 1)


def replicas(cluster: BrokersOnTree, topic: str) -> list[bytes]:
    """What each broker has of the topic, byte for byte."""
    directories = [broker.partition_directory(topic) for broker in cluster.nodes.values()]
    return [b"".join(path.read_bytes() for path in sorted(directory.glob("*.log"))) for directory in directories]


def test_another_leader_goes_on_where_the_last_one_was_killed(cluster: BrokersOnTree) -> None:
    topic = cluster.create([1, 2, 3], mirror_source=SOURCE, min_insync_replicas="2")
    own_id = topic_id(cluster.nodes[cluster.controller()], topic)
    append(cluster, topic, own_id, 100, 101, 150, expected_end=0)
    first = cluster.leader(topic)
    cluster.kill(first)
    wait_until(lambda: cluster.leader(topic) not in (-1, first), "another one leads")
    append(cluster, topic, own_id, 151, 400, expected_end=151)
    cluster.start(first)
    wait_until(lambda: len(cluster.state(topic)["in_sync_replicas"]) == 3, "all are in sync again")
    append(cluster, topic, own_id, 401, expected_end=401)
    wait_until(lambda: len(set(replicas(cluster, topic))) == 1, "all replicas are alike")
    stored = [header for header, _ in split_batches(replicas(cluster, topic)[0])]
    assert [header.base_offset for header in stored] == [100, 101, 150, 151, 400, 401]
    before, after = {header.leader_epoch for header in stored[:3]}, {header.leader_epoch for header in stored[3:]}
    assert len(before) == len(after) == 1
    assert max(before) < min(after)


def test_a_mirror_goes_on_when_another_broker_leads_its_target(cluster: BrokersOnTree, tmp_path: Path) -> None:
    live = MillstreamBroker(tmp_path, {})
    live.start()
    try:
        topic = create_topic(live)
        with live.connect() as connection:
            cluster_id = connection.ask(METADATA, 12, {"topics": []}).cluster_id
        target = cluster.nodes[cluster.controller()]
        with target.connect() as connection:
            source = f"{cluster_id}/{topic_id(live, topic)}/{topic}"
            create_assigned_topic(connection, [1, 2, 3], name=topic, mirror_source=source, min_insync_replicas="2")
        with MirrorProcess(tmp_path, live.bootstrap_servers, cluster.bootstrap_servers, "--topics", topic):
            copy_some(live, cluster, topic)
            first = cluster.leader(topic)
            cluster.kill(first)
            wait_until(lambda: cluster.leader(topic) not in (-1, first), "another one leads")
            copy_some(live, cluster, topic)
            cluster.start(first)
            copy_some(live, cluster, topic)
        wait_until(lambda: len(set(replicas(cluster, topic))) == 1, "all replicas are alike")
    finally:
        live.kill()


def test_a_running_mirror_stops_where_an_unclean_leader_of_the_source_has_another_history(cluster: BrokersOnTree, tmp_path: Path) -> None:
    offline = MillstreamBroker(tmp_path, {})
    offline.start()
    controller = cluster.controller()
    victim, other = (node_id for node_id in cluster.nodes if node_id != controller)
    topic, safe = cluster.create([victim, other]), cluster.create([controller])
    arguments = ("--topics", f"{topic}|{safe}", "--alone", "--name", topic)
    try:
        with MirrorProcess(tmp_path, cluster.bootstrap_servers, offline.bootstrap_servers, *arguments) as mirror:
            produce_to_leader(cluster.nodes[victim], topic, [b"%d" % number for number in range(10)], batch_size=2)
            wait_until(lambda: end_of(offline, topic) == 10, "it is copied")
            cluster.kill(other)
            wait_until(lambda: cluster.state(topic)["in_sync_replicas"] == [victim], "one is in sync")
            produce_to_leader(cluster.nodes[victim], topic, [b"lost %d" % number for number in range(10)], batch_size=2)
            wait_until(lambda: end_of(offline, topic) == 20, "it is copied, too")
            kept = batches_of(offline, topic)
            cluster.kill(victim)
            cluster.start(other)
            set_option(cluster.nodes[controller], topic, "unclean.leader.election.enable", "true")
            wait_until(lambda: cluster.leader(topic) == other, "the one leads that was not in sync")
            wait_until(lambda: end_of(cluster.nodes[other], topic) == 10, "with less")
            produce_to_leader(cluster.nodes[other], topic, [b"another history"] * 15, batch_size=3)
            wait_until(lambda: f"{topic}-0 is not mirrored" in mirror.output, mirror.output)
            reasons = ("the source has lost offsets from 10 on", "the target ends at 20 and the source at 10")
            assert any(reason in mirror.output for reason in reasons), mirror.output
            produce_to_leader(cluster.nodes[controller], safe, [b"goes on"], batch_size=1)
            wait_until(lambda: end_of(offline, safe) == 1, "others go on")
            assert batches_of(offline, topic) == kept, "nothing is overwritten"
    finally:
        offline.kill()
        cluster.start(*(cluster.nodes.keys() - set(cluster.running_ids)))


def copy_some(live: Broker, cluster: BrokersOnTree, topic: str) -> None:
    """Produce at the source, and wait until the leader at the target has it."""
    produce_values(live, topic, [b"%d" % number for number in range(100)], batch_size=3)
    await_same(live, cluster.nodes[cluster.leader(topic)], topic)
