import json
from pathlib import Path

import pytest

from millstream.cli.cluster.planning.layout import Targets
from millstream.cli.cluster.planning.plan import DiskMove, Plan
from millstream.cli.cluster.planning.plan_file import MOST_NAMED, WrittenPlan, check_targets, parse_plan, read_plan
from millstream.client.admin.disk_admin import Disk, Disks, Replica, Stored
from millstream.errors import CommandFailed, UsageError
from millstream.topic_partition import TopicPartition
from tests.unit.cli.cluster.planning.layouts import layout_of

DISKS = Disks(
    {
        1: (Disk("/a", free_bytes=100), Disk("/b", free_bytes=4)),
        2: (Disk("/a"), Disk("/b", is_online=False)),
        3: (Disk("/data/process.3"),),
    },
    {Replica(broker, TopicPartition("t", 0)): Stored("/a", 5) for broker in (1, 2)},
)
ENTRY = {"topic": "t", "partition": 0, "replicas": [1, 2]}


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ([], "expected"),
        ({"version": 1}, "expected"),
        ({"version": 2, "partitions": [ENTRY]}, "its version is 2"),
        ({"partitions": []}, "it has no partitions"),
        ({"partitions": [ENTRY, "t-1"]}, "entry 2: expected"),
        ({"partitions": [ENTRY, ENTRY]}, "entry 2: t-0 was named before"),
        ({"partitions": [ENTRY | {"topic": ""}]}, "entry 1: topic: expected a name"),
        ({"partitions": [ENTRY | {"partition": "0"}]}, "entry 1: partition: expected a number, found '0'"),
        ({"partitions": [ENTRY | {"partition": -1}]}, "entry 1: partition: expected a number"),
        ({"partitions": [ENTRY | {"partition": True}]}, "entry 1: partition: expected a number"),
        ({"partitions": [ENTRY | {"replicas": []}]}, "entry 1: replicas: expected a list of broker ids"),
        ({"partitions": [ENTRY | {"replicas": [1, "2"]}]}, "entry 1: replicas: expected a list of broker ids"),
        ({"partitions": [ENTRY | {"log_dirs": "/disk1"}]}, "entry 1: log_dirs: expected a list of directories"),
        ({"partitions": [ENTRY | {"log_dirs": [1, 2]}]}, "entry 1: log_dirs: expected a list of directories"),
        ({"partitions": [ENTRY | {"log_dirs": ["any"]}]}, "entry 1: log_dirs: there are 1 of them, and 2 replicas"),
        ({"partitions": [ENTRY | {"log_dirs": ["disk1", "any"]}]}, "entry 1: log_dirs: 'disk1' is neither 'any' nor a path from the root"),
    ],
)
def test_a_document_that_is_no_plan_is_refused_by_its_entry(document: object, words: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_plan(document)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"{", "is not JSON"), (b"\xff", "not text"), (b"[" * 100_000, "is not JSON"), (b"9" * 5000, "is not JSON"), (None, "cannot be read")],
)
def test_a_file_that_is_no_plan_is_named(tmp_path: Path, content: bytes | None, words: str) -> None:
    path = tmp_path / "plan.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError) as refused:
        read_plan(path)
    assert words in str(refused.value)
    assert str(path) in str(refused.value)


def test_a_plan_that_was_written_is_read_again(tmp_path: Path) -> None:
    layout = layout_of([1, 2, 3], {"t-0": ((1, 2), 5), "t-1": ((1, 2), 5), "t-2": ((3, 1), 5)})
    wanted: Targets = {TopicPartition("t", 0): (3, 2), TopicPartition("t", 1): (1, 2), TopicPartition("t", 2): (1, 3)}
    disk_moves = [
        DiskMove(Replica(1, TopicPartition("t", 1)), "/a", "/b", 5),
        DiskMove(Replica(2, TopicPartition("t", 1)), "/a", "/a", 5),
        DiskMove(Replica(3, TopicPartition("t", 0)), None, "/b", 5),
    ]
    plan = Plan.of(layout, wanted, disk_moves)
    (tmp_path / "plan.json").write_text(json.dumps(plan.document()))
    assert read_plan(tmp_path / "plan.json") == WrittenPlan(
        wanted, {Replica(1, TopicPartition("t", 1)): "/b", Replica(3, TopicPartition("t", 0)): "/b"}
    )
    assert [(move.adding, move.removing) for move in plan.moves] == [((3,), (1,)), ((), ())]
    assert plan.bytes_to_copy == 5 * 1024 * 1024


def test_everything_that_cannot_be_carried_out_is_listed() -> None:
    layout = layout_of([1, 2], {"t-0": ((1, 3), 5), "t-1": ((1,), 5)})
    check_targets(layout, DISKS, WrittenPlan({TopicPartition("t", 0): (2, 3)}, {}), where="here")
    wanted = {
        TopicPartition("t", 0): (3,),
        TopicPartition("t", 1): (4, 5),
        TopicPartition("t", 2): (1,),
        TopicPartition("u", 0): (1,),
    }
    with pytest.raises(CommandFailed) as refused:
        check_targets(layout, DISKS, WrittenPlan(wanted, {}), where="here")
    said = str(refused.value)
    assert "nothing of it was begun" in said
    assert "t-0: none of the brokers 3 is there" in said
    assert "t-1: brokers 4, 5 not there; there are 1, 2" in said
    assert "t-2: there is no such partition" in said
    assert "u-0: there is no topic 'u'" in said
    with pytest.raises(CommandFailed, match=f"and {50 - MOST_NAMED} more"):
        check_targets(layout, DISKS, WrittenPlan({TopicPartition("t", number): (1,) for number in range(2, 52)}, {}), where="here")


@pytest.mark.parametrize(
    ("broker", "path", "words"),
    [
        (1, "/a", None),
        (2, "/a", None),
        (3, "/data/process.3", None),
        (1, "/c", "t-0: broker 1 has no data directory /c; it has /a, /b"),
        (1, "/data/process.3", "broker 1 has no data directory /data/process.3 (it is one of broker 3)"),
        (3, "/data", "(several processes share it, each broker has its own: /data/process.3)"),
        (1, "/b", "/b of broker 1 has room for 4 B, and 5 B would be moved there"),
        (2, "/b", "the data directory /b of broker 2 is offline"),
        (4, "/a", "broker 4 does not answer, so its data directories are not known"),
    ],
)
def test_a_directory_has_to_be_one_of_the_broker_and_to_work(broker: int, path: str, words: str | None) -> None:
    layout = layout_of([1, 2, 3, 4], {"t-0": ((1, 2, 3, 4), 5)})
    plan = WrittenPlan({TopicPartition("t", 0): (1, 2, 3, 4)}, {Replica(broker, TopicPartition("t", 0)): path})
    if words is None:
        check_targets(layout, DISKS, plan, where="here")
    else:
        with pytest.raises(CommandFailed) as refused:
            check_targets(layout, DISKS, plan, where="here")
        assert words in str(refused.value)


def test_nothing_moves_beside_a_directory_that_is_offline() -> None:
    disks = Disks({1: (Disk("/a"), Disk("/b"), Disk("/c", is_online=False))}, {Replica(1, TopicPartition("t", 0)): Stored("/a", 5)})
    layout = layout_of([1], {"t-0": ((1,), 5), "t-1": ((1,), 5)})
    with pytest.raises(CommandFailed, match="broker 1 moves nothing between its data directories while one of them is offline: /c"):
        check_targets(layout, disks, WrittenPlan({}, {Replica(1, TopicPartition("t", 0)): "/b"}), where="here")
    # A replica that is yet to come may be made in any that works.
    check_targets(layout, disks, WrittenPlan({}, {Replica(1, TopicPartition("t", 1)): "/b"}), where="here")
