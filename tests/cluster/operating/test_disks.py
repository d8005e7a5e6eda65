"""`millstream cluster disks`, and plans that name directories, with two real brokers of two data directories each."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from millstream.client.admin.config_admin import BROKER, ConfigAdmin, Resource
from millstream.client.admin.reassignment_admin import ReassignmentAdmin
from millstream.client.cluster import Cluster
from millstream.topic_partition import TopicPartition
from tests.brokers import IS_KAFKA
from tests.cluster.operating.conftest import Operator
from tests.cluster.operating.disks import directories_of, disks_of
from tests.cluster.operating.test_cluster_commands import contents, fill
from tests.several_directories import directory_id
from tests.topics import fresh_name
from tests.waiting import wait_until

DISK_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"


@pytest.fixture
def operator(disk_operator: Operator) -> Operator:
    return disk_operator


@pytest.fixture
def topic() -> str:
    return fresh_name("disks")


@pytest.fixture(autouse=True)
def _leave_nothing_behind(operator: Operator, topic: str) -> object:
    """Each test finds a cluster in which nothing moves, and that is empty but for the topics that every Kafka has."""
    yield
    operator("cluster", "reassign", "--cancel", "--yes")
    operator("cluster", "reassign", "--follow")
    operator("topic", "delete", topic)
    wait_until(lambda: topic not in operator.do("topic", "list"), "the topic is gone")


def paths_of(operator: Operator, broker: int) -> list[Path]:
    node = operator.brokers.nodes[broker]
    return [node.data, *node.more_data]


def write_plan(path: Path, topic: str, entries: Sequence[tuple[list[int], Sequence[object]]]) -> str:
    """A plan for the partitions of a topic: replicas and directories of each."""
    partitions = [
        {"topic": topic, "partition": number, "replicas": replicas, "log_dirs": [str(directory) for directory in directories]}
        for number, (replicas, directories) in enumerate(entries)
    ]
    path.write_text(json.dumps({"version": 1, "partitions": partitions}))
    return str(path)


def test_a_directory_is_emptied_and_gets_its_share_again(operator: Operator, topic: str) -> None:
    operator.make_topic(topic, [[1, 2]] * 6)
    lines = fill(operator, topic)
    kept, emptied = paths_of(operator, 2)
    before = {place: path for place, path in directories_of(operator, topic).items() if place[1] == 1}
    shown = operator.do("cluster", "disks", "--empty", str(emptied), "--broker", "2", "--dry-run")
    assert "Nothing was changed: this was a dry run." in shown
    printed = operator.do("cluster", "disks", "--empty", f"{emptied}/", "--yes")
    assert "moved to other disks of the same broker" in printed
    assert f"{emptied}/ of broker 2 keeps no partition now." in printed
    after = directories_of(operator, topic)
    assert {path for (_, broker), path in after.items() if broker == 2} == {kept}
    assert {place: path for place, path in after.items() if place[1] == 1} == before
    assert f"{emptied} of broker 2 keeps no partition." in operator.do("cluster", "disks", "--empty", str(emptied), "--yes")
    (described,) = operator("cluster", "disks", "--broker", "2", "--json").documents
    own = {Path(one["directory"]): one for one in described["brokers"][0]["directories"]}
    assert (own[emptied]["partitions"], own[emptied]["bytes"]) == (0, 0)
    assert own[kept]["partitions"] >= 6
    assert 0 < own[kept]["free_bytes"] <= own[kept]["total_bytes"]
    operator.do("cluster", "disks", "--even", "--yes")
    rows = [line.split() for line in operator.do("cluster", "disks", "--broker", "2").splitlines()[1:]]
    assert {row[1] for row in rows} == {str(kept), str(emptied)}
    assert abs(int(rows[0][2]) - int(rows[1][2])) <= 1
    assert operator.do("cluster", "disks", "--even", "--yes").startswith("Nothing to do: ")
    assert sorted(contents(operator, topic)) == sorted(lines)


def test_a_plan_puts_new_replicas_and_old_ones_into_the_directories_it_names(operator: Operator, topic: str, tmp_path: Path) -> None:
    operator.make_topic(topic, [[1]] * 4)
    lines = fill(operator, topic)
    ones, twos = paths_of(operator, 1), paths_of(operator, 2)
    wanted = [(one, two) for one in ones for two in twos]
    plan = write_plan(tmp_path / "plan.json", topic, [([2, 1], [two, one]) for one, two in wanted])
    printed = operator.do("cluster", "reassign", "--plan", plan, "--yes", "--throttle", "100MB")
    assert "4 partitions copied to other brokers" in printed
    assert "done: 4 partitions" in printed
    assert operator.replicas(topic) == [[2, 1]] * 4
    found = directories_of(operator, topic)
    assert [(found[number, 1], found[number, 2]) for number in range(4)] == wanted
    assert "Plan: nothing to do." in operator.do("cluster", "reassign", "--plan", plan, "--yes")
    (listed,) = operator("cluster", "reassign", "--list", "--json").documents
    assert listed == {"reassignments": [], "disk_moves": [], "throttles": {}}
    assert sorted(contents(operator, topic)) == sorted(lines)


def begin_slowly(operator: Operator, topic: str, replicas: list[int]) -> tuple[Path, Path]:
    """The replica of broker 2 has so much in it, and is so slow, that its move does not end by itself; where it is, and where it goes."""
    operator.make_topic(topic, [replicas])
    operator.do("produce", topic, stdin=b"\n".join([b"x" * 10_000] * 1000))
    here = directories_of(operator, topic)[0, 2]
    there = next(path for path in paths_of(operator, 2) if path != here)
    directories = [there if broker == 2 else "any" for broker in replicas]
    plan = write_plan(operator.brokers.nodes[1].directory / "slow.json", topic, [(replicas, directories)])
    begun = operator.do("cluster", "reassign", "--plan", plan, "--throttle", "1k", "--no-wait", "--yes")
    assert "`millstream cluster reassign --follow` waits for the end and then removes the throttle" in begun
    return here, there


def test_a_move_between_disks_is_listed_and_taken_back(operator: Operator, topic: str) -> None:
    here, there = begin_slowly(operator, topic, [2])
    (listed,) = operator("cluster", "reassign", "--list", "--json").documents
    [move] = listed["disk_moves"]
    assert (move["topic"], move["broker"], move["from"], move["to"]) == (topic, 2, str(here), str(there))
    assert move["copied_bytes"] < move["bytes"]
    assert listed["throttles"] == {"broker 2": {DISK_RATE: "1000"}}
    (described,) = operator("cluster", "disks", "--json").documents
    assert {one["directory"]: one["moving_in"] for broker in described["brokers"] for one in broker["directories"]}[str(there)] == 1
    assert f"throttled: broker 2: {DISK_RATE}=1000" in operator.do("cluster", "reassign", "--list")
    refused = operator("cluster", "disks", "--even", "--yes")
    assert (refused.code, "1 partition is being moved already" in refused.err) == (1, True)
    assert str(there) in operator.do("cluster", "reassign", "--cancel", "--dry-run")
    assert operator.do("cluster", "reassign", "--cancel", "--yes").splitlines()[-1] == "taken back: 1 partition"
    assert directories_of(operator, topic) == {(0, 2): here}
    assert disks_of(operator, topic).future == {}
    assert operator.do("cluster", "reassign", "--list") == "Nothing is being moved.\n"
    if not IS_KAFKA:
        wait_until(lambda: not list(there.glob(f"{topic}*")), "the copy is removed")


@pytest.mark.skipif(IS_KAFKA, reason="its session is over only after a minute")
def test_a_move_goes_on_when_its_broker_is_back_and_is_followed_to_its_end(operator: Operator, topic: str) -> None:
    _, there = begin_slowly(operator, topic, [2])
    restart(operator)
    assert [stored.path for stored in disks_of(operator, topic).future.values()] == [str(there)]
    operator.do("cluster", "reassign", "--list")
    configure(operator, 2, {DISK_RATE: "100000000"})
    followed = operator.do("cluster", "reassign", "--follow")
    assert "done: 1 partition" in followed
    assert "removed the throttles of broker 2" in followed
    assert directories_of(operator, topic) == {(0, 2): there}
    assert len(contents(operator, topic)) == 1000


@pytest.mark.skipif(IS_KAFKA, reason="what is left on the disks is Millstream's business")
@pytest.mark.parametrize("is_killed", [False, True])
def test_a_replica_that_is_reassigned_while_it_moves_leaves_no_copy_and_may_come_back(
    operator: Operator, topic: str, *, is_killed: bool
) -> None:
    here, there = begin_slowly(operator, topic, [1, 2])
    with Cluster(operator.brokers.bootstrap_servers) as cluster:
        assert ReassignmentAdmin(cluster, timeout_s=30).alter({TopicPartition(topic, 0): (1,)}) == {}
    if is_killed:
        restart(operator)
    wait_until(lambda: operator.replicas(topic) == [[1]] and not list(here.glob(f"{topic}-0")), "broker 2 has it no more")
    wait_until(lambda: not list(there.glob(f"{topic}-0*")), "nothing is left of the copy")
    assert operator.do("cluster", "reassign", "--follow").splitlines()[0] == "Nothing is being moved."
    plan = write_plan(operator.brokers.nodes[1].directory / "back.json", topic, [([1, 2], ["any", there])])
    operator.do("cluster", "reassign", "--plan", plan, "--yes")
    assert directories_of(operator, topic)[0, 2] == there
    assert len(contents(operator, topic)) == 1000


@pytest.mark.skipif(IS_KAFKA, reason="what is left on the disks is Millstream's business")
@pytest.mark.parametrize("is_killed", [False, True])
def test_a_topic_that_is_deleted_while_it_moves_leaves_no_copy_and_may_be_created_anew(
    operator: Operator, topic: str, *, is_killed: bool
) -> None:
    begin_slowly(operator, topic, [2])
    operator.do("topic", "delete", topic)
    if is_killed:
        restart(operator)
    wait_until(lambda: not [path for disk in paths_of(operator, 2) for path in disk.glob(f"{topic}-0*-future")], "the copy is gone")
    operator.do("cluster", "reassign", "--follow")
    operator.make_topic(topic, [[2]])
    assert contents(operator, topic) == []


def test_what_is_deleted_while_its_move_is_followed_does_not_count_as_moved(operator: Operator, topic: str) -> None:
    begin_slowly(operator, topic, [2])
    with operator.reassigning("--follow") as following:
        assert following.stdout is not None
        assert any("0 of 1 partitions" in line for line in following.stdout)
        operator.do("topic", "delete", topic)
        printed, _ = following.communicate(timeout=120)
    assert following.returncode == 0
    assert "done: 0 partitions, 0 B copied" in printed
    assert "deleted meanwhile, with its topic: 1 partition" in printed
    assert "removed the throttles of broker 2" in printed


def test_the_rate_of_disks_is_removed_though_a_topic_is_throttled_for_good(operator: Operator, topic: str) -> None:
    mine, rate = fresh_name("mine"), "leader.replication.throttled.rate"
    operator.do("topic", "create", mine, "-c", "leader.replication.throttled.replicas=*")
    configure(operator, 2, {DISK_RATE: "1000000", rate: "1000000"})
    followed = operator.do("cluster", "reassign", "--follow")
    assert f"removed the throttles of broker 2 ({DISK_RATE})" in followed
    assert f"left the throttles of topic {mine}, broker 2" in followed
    (listed,) = operator("cluster", "reassign", "--list", "--json").documents
    assert listed["throttles"]["broker 2"] == {rate: "1000000"}
    operator.do("topic", "delete", mine)
    wait_until(lambda: mine not in operator.do("topic", "list"), "the topic is gone")
    assert "removed the throttles of broker 2\n" in operator.do("cluster", "reassign", "--follow")


def restart(operator: Operator) -> None:
    """Broker 2 is killed and started again."""
    operator.brokers.kill(2)
    operator.brokers.start(2)
    operator.brokers.await_members()


def configure(operator: Operator, broker: int, options: Mapping[str, str]) -> None:
    with Cluster(operator.brokers.bootstrap_servers) as cluster:
        cluster.refresh([])
        ConfigAdmin(cluster).alter({Resource(BROKER, str(broker)): options})


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--empty", "MORE", "--even"], 2, "Say one thing to do"),
        (["--yes"], 2, "name it with --empty DIR or --even"),
        (["--even", "--json"], 2, "--json belongs to --dry-run"),
        (["--even", "--throttle", "fast", "--yes"], 2, "expected bytes a second"),
        (["--broker", "9"], 1, "there is no broker 9"),
        (["--even", "--broker", "9"], 1, "Broker 9 is not there, or does not answer; those that do: 1, 2"),
        (["--empty", "/nowhere"], 1, "No broker has a data directory /nowhere"),
        (["--empty", "/nowhere", "--broker", "1"], 1, "broker 1 has no data directory /nowhere; it has "),
        (["--empty", "MORE", "--broker", "1"], 1, "(it is one of broker 2)"),
    ],
)
def test_what_cannot_be_done_is_said(operator: Operator, arguments: list[str], code: int, words: str) -> None:
    more = str(operator.brokers.nodes[2].more_data[0])
    refused = operator("cluster", "disks", *(more if word == "MORE" else word for word in arguments))
    assert refused.code == code, refused
    assert words in refused.err


@pytest.mark.skipif(IS_KAFKA, reason="the flag is Millstream's")
def test_a_directory_that_was_emptied_may_be_taken_away(operator: Operator, topic: str) -> None:
    operator.make_topic(topic, [[2]] * 4)
    lines = fill(operator, topic)
    node = operator.brokers.nodes[2]
    [more] = node.more_data
    operator.do("cluster", "disks", "--empty", str(more), "--yes")
    operator.brokers.stop(2)
    node.more_data, flags = [], node.flags
    node.flags = [*flags, f"--forget-directory={directory_id(more)}"]
    operator.brokers.start(2)
    operator.brokers.await_members()
    wait_until(lambda: -1 not in operator.leaders(topic), "all are led")
    assert sorted(contents(operator, topic)) == sorted(lines)
    refused = operator("cluster", "disks", "--empty", str(node.data), "--yes")
    assert (refused.code, "is the only data directory of broker 2" in refused.err) == (1, True)
    operator.brokers.stop(2)
    node.more_data, node.flags = [node.directory / "another"], flags
    operator.brokers.start(2)
    operator.brokers.await_members()
