"""The data of all brokers of a machine: whose it is, and that each partition is where the broker looks for it. (`layout`: the drawing.)

    async with MachineData(paths, ...).opened() as tree     locked, nothing is missing, no former process is left; the tree of znodes
    await data.arrange(Layout.of_processes(4))               before any broker starts

Nothing is changed before it is known that all data directories are there. A change (`layout_change`) is written down first and then done by
steps that may be repeated; one that was begun is finished by the next start, whatever that is asked for.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from millstream.broker.cluster.coordination_tree import DIRECTORY
from millstream.broker.cluster.registration import prepare_tree
from millstream.clock import Clock
from millstream.coordination import paths
from millstream.coordination.cluster_view import decode_cluster_id
from millstream.coordination.embedded import EmbeddedCoordination
from millstream.coordination.interface import Create, Delete, Operation, SetData
from millstream.coordination.old_layout import is_in_old_layout
from millstream.coordination.partition_state import PartitionState
from millstream.errors import StartupError
from millstream.files import FileHandle, Files, path_text
from millstream.log.directories import checkpoints
from millstream.log.directories.checkpoints import id_from_text
from millstream.log.directories.directory import CLEAN_SHUTDOWN, LOCK, META_PROPERTIES, LogDirectory, broker_epoch_of, clean_marker
from millstream.log.directories.known_directories import FILE_NAME as DATA_DIRECTORIES
from millstream.log.directories.known_directories import ZOOKEEPER, KnownDirectories
from millstream.log.directories.manager import LogManager
from millstream.processes.layout import ALONE, CHANGE_FILE, FIRST, Layout
from millstream.processes.layout_change import DiskChange, Home, LayoutChange, plan_change
from millstream.topic_partition import TopicPartition

logger = logging.getLogger(__name__)

FORMER_LIFE_S: Final = 30.0
"""How long a broker whose parent was killed may take to stop."""
LOOK_S: Final = 0.05
CHILDREN_LOCK: Final = ".lock-of-processes"
"""Held by the parent and, because they inherit it, by each of its children: when the parent is gone, until the last of them is."""
SESSION: Final = "processes"
_OWN_FILES: Final = (META_PROPERTIES, DATA_DIRECTORIES, CLEAN_SHUTDOWN, *checkpoints.ALL)
"""What a home has besides logs."""


class MachineData:
    """The data directories that `--data` names, and the tree in one of them."""

    def __init__(self, data: Sequence[Path], *, clock: Clock, files: Files, forgotten: Collection[str] = ()) -> None:
        self._data = [path.absolute() for path in data]
        self._clock = clock
        self._files = files
        self._forgotten = forgotten
        self.children_lock = -1
        """The descriptor that children inherit, once it is open."""
        self._locks: list[FileHandle] = []
        self._broken: list[Path] = []

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[EmbeddedCoordination]:
        """The tree; StartupError if the data is in use, or part of it is missing."""
        holder = self._find_holder()
        self._holder = holder
        try:
            self._lock(holder)
            tree = await EmbeddedCoordination.open(holder / DIRECTORY, files=self._files, clock=self._clock, broker_session_name=SESSION)
            try:
                self._tree = tree
                self._before = self._present_layout()
                self._begun = self._read_begun()
                if self._begun is None or self._is_written(self._begun[0]):
                    self._check_whole()
                for path in self._data:
                    if path != holder:
                        self._lock(path)
                await self._until_unused()
                self._end_former_sessions()
                yield tree
            finally:
                await tree.close()
        finally:
            self._locks.clear()

    async def arrange(self, after: Layout) -> None:
        """Let every partition be with one of these brokers."""
        await prepare_tree(self._tree, cluster_id=None)
        if self._begun is not None:
            change, disks = self._begun
            logger.warning("a change from %s to %s was begun and is finished now", _words(change.before), _words(change.after))
            await self._carry_out(change, disks)
            self._before = change.after
        else:
            self._remove_plan()  # of a change that never counted
        if self._before.homes == after.homes:
            return
        if not self._before.homes:
            self._make_homes(after)  # first: by their names a broker that is alone knows that it has to look into the tree
            await self._tree.multi(self._layout_operations(after))
            return
        self._check_number(after)
        change = self._plan_change(after)
        moves = sum(len(disk.renames) for disk in change.disks.values())
        logger.info("the partitions of %s are given to %s: %d directories are renamed", _words(self._before), _words(after), moves)
        self._write_plan(change)
        await self._carry_out(change, {path: path_text(path) for path in self._data})

    # --- what is there

    def _find_holder(self) -> Path:
        """The data directory with the tree; of new ones the first."""
        holders = [path for path in self._data if self._is_there(path / DIRECTORY)]
        if len(holders) > 1:
            raise StartupError(
                f"there are coordination trees in {holders[0]} and {holders[1]}: move the one that is not this one's elsewhere"
            )
        if holders:
            return holders[0]
        # Without the tree no topic is known, and the logs that are here would be set aside.
        used = next((path for path in self._data for home in (ALONE, FIRST) if self._is_there(path / home / META_PROPERTIES)), None)
        if used is not None:
            advice = "mount and give the data directory that has it; the data of a broker that joined a ZooKeeper cannot be used here"
            raise StartupError(f"the coordination tree of the brokers whose data is in {used} is missing: {advice}")
        return self._data[0]

    def _is_there(self, path: Path) -> bool:
        """Whether it can be seen; what is on a disk that does not answer cannot. One of another user is a mistake."""
        try:
            return self._files.exists(path)
        except PermissionError as error:
            raise StartupError.for_directory(path.parent, error) from None
        except OSError:
            return False

    def _present_layout(self) -> Layout:
        """As it was left; of several processes the tree knows, a broker that is alone may have taken another number since."""
        written = self._written_layout()
        if written.processes:
            return written
        for path in self._data:
            directory = LogDirectory(self._files, path, on_offline=lambda _directory, _error: None)
            with suppress(OSError):  # a disk that does not answer: the brokers say so
                directory.look()
            if directory.node_id is not None:
                return Layout.alone(directory.node_id)
        return written

    def _written_layout(self) -> Layout:
        node = self._tree.keeper.tree.nodes.get(paths.PROCESSES)
        if node is None:
            return Layout({})
        try:
            return Layout.decode(node.data or b"")
        except ValueError as error:
            raise StartupError(f"the znode {paths.PROCESSES} makes no sense: {error}; delete it if one broker was alone here") from None

    def _check_whole(self) -> None:
        """StartupError if a data directory of any of the brokers is missing."""
        missing = []
        for number in self._before.homes:
            logs = LogManager(self._before.paths(self._data, number), clock=self._clock, files=Files())
            try:
                logs.examine(forgotten=self._forgotten)
            except StartupError as error:
                missing.append(str(error))
        if missing:
            raise StartupError("; ".join(missing))

    def _lock(self, path: Path) -> None:
        try:
            self._files.make_directory(path)
            handle = self._files.open(path / LOCK, create=True)
        except OSError as error:
            if path == self._holder:
                raise StartupError.for_directory(path, error) from None
            self._broken.append(path)  # the brokers go on without it, and say so
            return
        if not self._files.lock(handle):
            raise StartupError(f"the data directory {path} is in use by another broker; stop it or choose another directory")
        self._locks.append(handle)

    async def _until_unused(self) -> None:
        """Wait for brokers whose parent was killed: they notice, and stop. Each was given this lock before it began."""
        handle = self._files.open(self._holder / CHILDREN_LOCK, create=True)
        if not self._files.lock(handle):
            logger.info("waiting until the brokers of an earlier start have stopped, at most %g s", FORMER_LIFE_S)
            try:
                async with asyncio.timeout(FORMER_LIFE_S):
                    while not self._files.lock(handle):  # noqa: ASYNC110 -- other processes let go of it, and nothing says when
                        await asyncio.sleep(LOOK_S)
            except TimeoutError:
                raise StartupError(
                    f"the data in {self._holder} is still in use by a broker of an earlier start: end that process"
                ) from None
        self.children_lock = handle.fd
        self._locks.append(handle)

    def _end_former_sessions(self) -> None:
        """The brokers of the last life are gone, and so are their registrations; clients of the tree keep their sessions."""
        keeper = self._tree.keeper
        nodes, sessions = keeper.tree.nodes, keeper.tree.sessions
        ids = nodes.get(paths.BROKER_IDS)
        registered = [paths.CONTROLLER, *(paths.broker(int(name)) for name in (ids.children if ids is not None else ()) if name.isdigit())]
        owners = {nodes[path].owner for path in registered if path in nodes}
        named = {session.session_id for session in sessions.values() if session.name}
        for session_id in (owners | named) - {0, self._tree.session_id}:
            keeper.close_session(session_id)

    # --- the change

    def _check_number(self, after: Layout) -> None:
        """StartupError if one broker that is alone is to take the place of another: a broker keeps its number."""
        if not self._before.processes and not after.processes:
            found, wanted = min(self._before.homes), min(after.homes)
            advice = f"give --node-id {found}, or another --data"
            raise StartupError(f"the data in {self._holder} belongs to node {found}, this is node {wanted}: {advice}")

    def _plan_change(self, after: Layout) -> LayoutChange:
        if self._broken:
            advice = "the partitions in it can be given to other brokers only when it works"
            raise StartupError(
                f"the data directory {self._broken[0]} cannot be used; start with {_words(self._before)} as before: {advice}"
            )
        states, lives = self._partition_states(), self._lives()
        kept_by = {replica for state in states.values() for replica in state.replicas}
        if strangers := sorted(kept_by - self._before.homes.keys()):
            numbers = ", ".join(map(str, strangers))
            advice = "only the data of one machine's own brokers can be given to others of its brokers"
            raise StartupError(f"there are partitions on brokers ({numbers}) that are not kept in {self._data[0]}: {advice}")
        disks = {path: {number: self._home(path / home) for number, home in self._before.homes.items()} for path in self._data}
        return plan_change(self._before, after, disks=disks, states=states, lives=lives)

    def _home(self, path: Path) -> Home:
        if not self._files.exists(path):
            return Home()
        names = [name for name in self._files.list_directory(path) if (path / name).is_dir()]
        offsets = {name: checkpoints.read_checkpoint(self._files, path / name) for name in checkpoints.ALL}
        try:
            return Home(names, offsets, broker_epoch_of(self._files.read_bytes(path / CLEAN_SHUTDOWN)))
        except FileNotFoundError:
            return Home(names, offsets)

    def _partition_states(self) -> dict[TopicPartition, PartitionState]:
        nodes = self._tree.keeper.tree.nodes
        states: dict[TopicPartition, PartitionState] = {}
        topics = nodes.get(paths.TOPICS)
        for topic in topics.children if topics is not None else ():
            if is_in_old_layout(nodes[paths.topic(topic)].data or b""):
                raise StartupError(f"the topic {topic} was written by an older release: start its broker once without --processes")
            partitions = nodes.get(paths.partitions(topic))
            for name in partitions.children if partitions is not None else ():
                path = f"{paths.partitions(topic)}/{name}"
                try:
                    states[TopicPartition(topic, int(name))] = PartitionState.decode(nodes[path].data or b"", partition_epoch=0)
                except ValueError as error:
                    raise StartupError(f"the znode {path} makes no sense: {error}; mend it, or delete the topic") from None
        return states

    def _lives(self) -> dict[int, int]:
        nodes = self._tree.keeper.tree.nodes
        epochs = nodes.get(paths.BROKER_EPOCHS)
        found = {name: nodes[f"{paths.BROKER_EPOCHS}/{name}"].data or b"" for name in (epochs.children if epochs is not None else ())}
        return {int(name): int(data) for name, data in found.items() if name.isdigit() and data.isdigit()}

    def _holder_last(self) -> list[Path]:
        """The data directories; what is written into all of them counts when it is beside the tree."""
        return [*(path for path in self._data if path != self._holder), self._holder]

    def _read_begun(self) -> tuple[LayoutChange, dict[Path, str]] | None:
        """The change that was begun, and which of the data directories that it speaks of each one is; None if there is none."""
        plan = self._holder / CHANGE_FILE
        if not self._files.exists(plan):
            return None
        try:
            change, _ = LayoutChange.decode(self._files.read_bytes(plan))
            if self._is_written(change):
                return change, {}
            present = [path for path in self._data if self._is_there(path / CHANGE_FILE)]
            disks = {path: LayoutChange.decode(self._files.read_bytes(path / CHANGE_FILE))[1] for path in present}
        except ValueError as error:
            raise StartupError(f"{plan} makes no sense: {error}; use the release that wrote it, or restore a copy of the data") from None
        if sorted(disks.values()) != sorted(change.disks):
            raise StartupError(
                "a change of the number of processes was begun and is not finished: mount and give the data directories that it was begun "
                f"with, {' and '.join(change.disks)}"
            )
        return change, disks

    def _is_written(self, change: LayoutChange) -> bool:
        return self._written_layout() == change.after

    def _write_plan(self, change: LayoutChange) -> None:
        """In all data directories, so that none is missing unnoticed when this is finished after a crash; it counts with the last one."""
        try:
            for path in self._holder_last():
                self._files.write_atomically(path / CHANGE_FILE, change.encode(path_text(path)))
        except OSError as error:
            with suppress(OSError):
                self._remove_plan()
            advice = f"make room or mend that, or start with {_words(change.before)} as before"
            raise StartupError(
                f"the partitions cannot be given to {_words(change.after)}, and none was touched: {_fault(error, path)}; {advice}"
            ) from None

    def _remove_plan(self) -> None:
        for path in (path for path in reversed(self._holder_last()) if path not in self._broken):
            if any(self._files.exists(path / name) for name in (CHANGE_FILE, f"{CHANGE_FILE}.tmp")):
                self._files.unlink(path / CHANGE_FILE)
                self._files.unlink(path / f"{CHANGE_FILE}.tmp")
                self._files.fsync_directory(path)

    async def _carry_out(self, change: LayoutChange, disks: Mapping[Path, str]) -> None:
        try:
            if not self._is_written(change):
                self._make_homes(change.after)
                for path, disk in disks.items():
                    self._change_disk(path, change.disks[disk], change)
                    self._name_directories(path, change, disks)
                    self._retire_homes(path, change)
                await self._tree.multi(self._change_operations(change))
            self._remove_plan()
        except OSError as error:
            begun = f"the change from {_words(change.before)} to {_words(change.after)} is not finished"
            advice = "make room or mend that, and start again: the change goes on where it was"
            raise StartupError(f"{begun}: {_fault(error, self._holder)}; {advice}") from None

    def _make_homes(self, layout: Layout) -> None:
        for path in (path for path in self._data if path not in self._broken):
            for home in layout.homes.values():
                self._files.make_directory(path / home)
            self._files.fsync_directory(path)

    def _change_disk(self, path: Path, disk: DiskChange, change: LayoutChange) -> None:
        files = self._files
        for rename in disk.renames:
            source = path / change.before.homes[rename.source] / rename.name
            target = path / change.after.homes[rename.target] / rename.new_name
            if files.exists(source) and not files.exists(target):
                files.rename(source, target)
        for home in {*change.before.homes.values(), *change.after.homes.values()}:
            if files.exists(path / home):
                files.fsync_directory(path / home)
        for number, home in change.after.homes.items():
            for name, offsets in disk.offsets[number].items():
                if checkpoints.read_checkpoint(files, path / home / name) != offsets:
                    checkpoints.write_checkpoint(files, path / home / name, offsets)
            if number in disk.clean_epochs:
                files.write_atomically(path / home / CLEAN_SHUTDOWN, clean_marker(disk.clean_epochs[number]))
            else:
                files.unlink(path / home / CLEAN_SHUTDOWN)

    def _name_directories(self, path: Path, change: LayoutChange, disks: Mapping[Path, str]) -> None:
        """Let new homes know which others their brokers have: before these were there nobody else does, and a disk may be away by then."""
        cluster_id = decode_cluster_id(self._tree.keeper.tree.nodes[paths.CLUSTER_ID].data or b"")
        for number, ids in change.directory_ids.items():
            home = change.after.homes[number]
            directory = LogDirectory(self._files, path / home, on_offline=lambda _directory, _error: None)
            directory.directory_id = id_from_text(ids[disks[path]])
            directory.identify(node_id=number, cluster_id=cluster_id)
            tree = ids[disks[self._holder]] if home == ALONE else ZOOKEEPER
            directory.remember(KnownDirectories(1, {ids[disk]: path_text(place / home) for place, disk in disks.items()}, tree))

    def _retire_homes(self, path: Path, change: LayoutChange) -> None:
        for number in change.retired:
            self._retire(path / change.before.homes[number], is_shared=change.before.homes[number] == ALONE)
        self._files.fsync_directory(path)

    def _retire(self, home: Path, *, is_shared: bool) -> None:
        """Remove what a broker had besides logs; its directory too, if nothing else is in it."""
        if not self._files.exists(home):
            return
        for name in (*_OWN_FILES, *(() if is_shared else (LOCK,))):
            self._files.unlink(home / name)
        if not is_shared and not self._files.list_directory(home):
            self._files.remove_directory(home)

    def _change_operations(self, change: LayoutChange) -> list[Operation]:
        nodes = self._tree.keeper.tree.nodes
        operations: list[Operation] = [SetData(paths.partition(*name), state.encode()) for name, state in change.states.items()]
        operations += [Create(paths.broker_epoch(number), str(epoch).encode()) for number, epoch in change.lives.items()]
        forgotten = [paths.broker_directories(number) for number in change.retired]
        operations += [Delete(path) for path in forgotten if path in nodes]
        return operations + self._layout_operations(change.after)

    def _layout_operations(self, after: Layout) -> list[Operation]:
        is_there = paths.PROCESSES in self._tree.keeper.tree.nodes
        return [SetData(paths.PROCESSES, after.encode()) if is_there else Create(paths.PROCESSES, after.encode())]


def _fault(error: OSError, place: Path) -> str:
    return f"{error.filename or place}: {error.strerror or error}"


def _words(layout: Layout) -> str:
    return f"{layout.processes} processes" if layout.processes else "one broker"
