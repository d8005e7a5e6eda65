"""A power cut after every single file operation while the partitions of a machine are given to another number of brokers.

The next start finishes what was begun, whatever number it asks for itself: every replica is in one place, with its records and its
checkpoints, and the znodes say so.
"""

from collections import Counter
from pathlib import Path
from uuid import UUID

import pytest

from millstream.clock import SystemClock
from millstream.coordination import paths
from millstream.coordination.cluster_view import TopicState
from millstream.coordination.embedded import EmbeddedCoordination
from millstream.coordination.interface import Coordination, Create
from millstream.coordination.partition_state import PartitionState
from millstream.files import Files
from millstream.log.directories import checkpoints
from millstream.log.directories.directory import CLEAN_SHUTDOWN, clean_marker
from millstream.processes.layout import CHANGE_FILE, Layout, has_processes
from millstream.processes.machine_data import MachineData
from millstream.topic_partition import TopicPartition
from tests.crash.forgetful_files import Fate, ForgetfulFiles, disk_after, materialise
from tests.crash.test_log_power_cut import QuickFiles
from tests.topic_znodes import topic_creations

DISKS = ("d0", "d1")
TOPICS: dict[str, list[tuple[int, ...]]] = {"a": [(1,), (2,), (1,)], "b": [(1, 2)], "c": [(2,)]}
ALONE, TWO, THREE = Layout.alone(1), Layout.of_processes(2), Layout.of_processes(3)


def data_of(root: Path) -> list[Path]:
    return [root / disk for disk in DISKS]


def copies() -> list[tuple[TopicPartition, int]]:
    return [
        (TopicPartition(topic, number), node) for topic, all_of in TOPICS.items() for number, nodes in enumerate(all_of) for node in nodes
    ]


def offset_of(partition: TopicPartition) -> int:
    return 100 * (1 + ord(partition.topic)) + partition.partition


async def fill(root: Path, before: Layout) -> None:
    """The data of these brokers, on two disks, cleanly stopped."""
    files = QuickFiles()
    machine = MachineData(data_of(root), clock=SystemClock(), files=files)
    async with machine.opened() as tree:
        await machine.arrange(before)
        for topic, all_of in TOPICS.items():
            kept_by = [tuple(node if before.processes else 1 for node in nodes)[: len(before.homes)] for nodes in all_of]
            states = tuple(PartitionState.first(replicas) for replicas in kept_by)
            await tree.multi(topic_creations(TopicState(topic, UUID(int=ord(topic)), states)))
        for node in before.homes:
            await tree.multi([Create(paths.broker_epoch(node), b"70"), Create(paths.broker_directories(node), b"{}")])
    for number, (partition, node) in enumerate(copies()):
        if not before.processes and node != TOPICS[partition.topic][partition.partition][0]:
            continue
        home = before.paths(data_of(root), node if before.processes else 1)[number % len(DISKS)]
        (home / str(partition)).mkdir(parents=True)
        (home / str(partition) / "0.log").write_text(str(partition))
        for name in checkpoints.ALL:
            offsets = checkpoints.read_checkpoint(files, home / name)
            checkpoints.write_checkpoint(files, home / name, {**offsets, partition: offset_of(partition)})
    for node in before.homes:
        for home in before.paths(data_of(root), node):
            home.mkdir(exist_ok=True)
            (home / CLEAN_SHUTDOWN).write_bytes(clean_marker(70))
            (home / "meta.properties").write_text(f"node.id={node}\n")


async def arrange(root: Path, after: Layout, files: Files) -> None:
    machine = MachineData(data_of(root), clock=SystemClock(), files=files)
    async with machine.opened():
        await machine.arrange(after)


async def states_in(tree: Coordination) -> dict[TopicPartition, PartitionState]:
    found = {}
    for topic, all_of in TOPICS.items():
        for number in range(len(all_of)):
            data, stat = await tree.get(paths.partition(topic, number))
            found[TopicPartition(topic, number)] = PartitionState.decode(data, partition_epoch=stat.version)
    return found


async def check(root: Path, after: Layout) -> None:
    """Every replica is in one place, with all that belongs to it, and in no other; and they are spread."""
    files = QuickFiles()
    [holder] = [path for path in data_of(root) if (path / "coordination").exists()]
    tree = await EmbeddedCoordination.open(holder / "coordination", files=files, clock=SystemClock(), broker_session_name="check")
    states = await states_in(tree)
    await tree.close()
    expected = {(partition, node) for partition, state in states.items() for node in state.replicas}
    found = Counter[tuple[TopicPartition, int]]()
    for node in after.homes:
        for home in after.paths(data_of(root), node):
            here = {partition for partition in states if (home / str(partition)).exists()}
            found.update((partition, node) for partition in here)
            assert {(home / str(partition) / "0.log").read_text() for partition in here} == set(map(str, here))
            for name in checkpoints.ALL:
                assert checkpoints.read_checkpoint(files, home / name) == {partition: offset_of(partition) for partition in here}
            assert not here or (home / CLEAN_SHUTDOWN).exists()
    assert found == Counter(expected)
    loads = Counter(dict.fromkeys(after.homes, 0))
    loads.update(node for _, node in found)
    assert max(loads.values()) - min(loads.values()) <= 1
    assert not any((path / CHANGE_FILE).exists() for path in data_of(root))
    assert has_processes(data_of(root)) == bool(after.processes)
    assert {name for path in data_of(root) for name in (found.name for found in path.glob("process.*"))} == set(after.homes.values()) - {""}


@pytest.mark.parametrize(("before", "after", "next_wish"), [(TWO, THREE, ALONE), (TWO, ALONE, THREE), (ALONE, TWO, TWO)])
async def test_a_change_that_was_cut_off_anywhere_is_finished_by_the_next_start(
    tmp_path: Path, before: Layout, after: Layout, next_wish: Layout
) -> None:
    root = tmp_path / "root"
    await fill(root, before)
    files = ForgetfulFiles(root)
    await arrange(root, after, files)
    await check(root, after)
    for moment, operation in enumerate(files.recording.operations, 1):
        # A sync changes nothing that is kept anyhow, all else nothing that is lost.
        fate = Fate.ALL_LOST if operation.kind.startswith("sync") else Fate.ALL_KEPT
        rest = tmp_path / str(moment)
        materialise(disk_after(files.recording, moment, fate), root=root, target=rest)
        await arrange(rest, next_wish, QuickFiles())
        await check(rest, next_wish)
