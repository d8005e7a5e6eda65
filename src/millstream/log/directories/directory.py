"""One log directory: a disk, or a part of one, that holds logs and fails as a whole.

    .lock                                held by the broker that runs here
    meta.properties                      version=1, node.id, cluster.id, directory.id
    data-directories.json                all directories of the broker, see known_directories
    .kafka_cleanshutdown                 {"version":0,"brokerEpoch":N}: written at a clean stop, gone while running
    recovery-point-offset-checkpoint     see checkpoints
    log-start-offset-checkpoint
    replication-offset-checkpoint
    cleaner-offset-checkpoint
    <topic>-<partition>/                 one log each
    <topic>-<partition>.<uuid>-delete/   a deleted one, until its files are gone
    <topic>-<partition>.<uuid>-future/   a copy of a log that moves here from another directory, until it takes its place, see moving

Checkpoints may be written in a thread, from values taken on the loop; a truncation in between wins (`lower_recovery_point`).

A disk error takes the whole directory offline, once: from then on every operation on its logs raises `StorageError`, the recovery points
stay where they are, and no marker of a clean stop is written. It comes back by a restart, through recovery.
"""

import errno
import json
import logging
import re
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import RLock

from millstream.errors import StartupError, StorageError
from millstream.files import OUT_OF_DESCRIPTORS, FileHandle, Files
from millstream.log.directories import checkpoints
from millstream.log.directories.checkpoints import id_from_text, id_to_text, read_checkpoint, write_checkpoint
from millstream.log.directories.known_directories import FILE_NAME as DATA_DIRECTORIES
from millstream.log.directories.known_directories import KnownDirectories
from millstream.topic_partition import TopicPartition

LOCK = ".lock"
META_PROPERTIES = "meta.properties"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
DELETE_SUFFIX = "-delete"
_DELETED_NAME = re.compile(r".+\.[0-9a-f]{32}" + DELETE_SUFFIX)
FUTURE_SUFFIX = "-future"
_FUTURE_NAME = re.compile(r"(.+)\.[0-9a-f]{32}" + FUTURE_SUFFIX)
STRAY_SUFFIX = "-stray"
_MAX_NAME = 255
MOST_NOTED = 10_000
_logger = logging.getLogger(__name__)


class LogDirectory:
    """A directory with logs; `on_offline` is called once, when it fails."""

    def __init__(self, files: Files, path: Path, *, on_offline: Callable[["LogDirectory", OSError], None]) -> None:
        self.files = files
        self.path = path
        self.offline: str | None = None
        """Why the directory is offline; None while it works."""
        self.log_count = 0
        self.was_clean = False
        self.previous_broker_epoch = -1
        self.directory_id = uuid.uuid4()
        self.is_identified = False
        """Whether `look` found an id on the disk."""
        self.known = KnownDirectories()
        """The directories of the broker that this one remembers."""
        self.cluster_id: str | None = None
        self.node_id: int | None = None
        """The broker that `look` found named on the disk."""
        self.recovery_points: dict[TopicPartition, int] = {}
        """What the recovery point checkpoint on disk says."""
        self.cleaned_offsets: dict[TopicPartition, int] = {}
        """How far compaction came, per log; changed on the loop, written by `write_cleaned_offsets`."""
        self.to_flush: set[TopicPartition] = set()
        """Logs that may have to be flushed, though nobody waits for that: they are new, rolled, or have other options (`Log`)."""
        self._written: dict[str, Mapping[TopicPartition, int]] = {}
        """What each checkpoint on disk says."""
        self._is_synced: set[str] = set()
        """The checkpoints that were written since the start."""
        self._begun_anew: set[TopicPartition] = set()
        """Logs that began after the capture of the offsets to be written next did: what those say of them is of an older log."""
        self._lowered: dict[TopicPartition, int] = {}
        """Recovery points that truncations lowered after the capture of the points to be written next had begun."""
        self._expected: dict[TopicPartition, Mapping[str, int]] = {}
        """Logs that are about to move in, or have since the last capture began: what each checkpoint says of them until then."""
        self._arrived: set[TopicPartition] = set()
        """Those of them that have moved in."""
        self._writing = RLock()
        self._on_offline = on_offline
        self._lock: FileHandle | None = None

    @property
    def id_text(self) -> str:
        """The id as Kafka writes it."""
        return id_to_text(self.directory_id)

    def look(self) -> None:
        """Before anything is touched: who is this, and what does it remember? OSError if its disk does not answer."""
        meta = self._read_meta()
        self.node_id = int(meta["node.id"]) if meta.get("node.id", "").isdigit() else None
        if "directory.id" in meta:
            self.is_identified = True
            try:
                self.known = KnownDirectories.decode(self.files.read_bytes(self.path / DATA_DIRECTORIES))
            except FileNotFoundError:
                return
            except ValueError as error:
                _logger.error("%s makes no sense and is passed over: %s", self.path / DATA_DIRECTORIES, error)

    def remember(self, known: KnownDirectories) -> None:
        """Write down which directories the broker has."""
        if known != self.known:
            self.files.write_atomically(self.path / DATA_DIRECTORIES, known.encode())
            self.known = known

    def acquire(self) -> None:
        """Make this directory ours; StartupError if another process holds it, OSError if its disk does not work."""
        self.files.make_directory(self.path)
        self._lock = self.files.open(self.path / LOCK, create=True)
        if not self.files.lock(self._lock):
            self._lock = None
            raise StartupError(f"the data directory {self.path} is in use by another broker; stop it or choose another directory")

    def identify(self, *, node_id: int, cluster_id: str | None) -> None:
        """Compare meta.properties with who we are; once the cluster is known, write it in a new directory."""
        found = self._read_meta()
        if found.get("node.id", str(node_id)) != str(node_id):
            owner = found["node.id"]
            raise StartupError(
                f"the data directory {self.path} belongs to node {owner}, this is node {node_id}: give --node-id {owner}, or another --data"
            )
        self.cluster_id = found.get("cluster.id", cluster_id)
        if cluster_id is not None and self.cluster_id != cluster_id:
            raise StartupError(
                f"the data directory {self.path} belongs to cluster {self.cluster_id}, this is cluster {cluster_id}: "
                "give the --zookeeper of that one, or another --data"
            )
        if self.cluster_id is None:
            return
        wanted = {"version": "1", "node.id": str(node_id), "directory.id": self.id_text, "cluster.id": self.cluster_id}
        if wanted != found:
            content = "".join(f"{name}={value}\n" for name, value in sorted(wanted.items()))
            self.files.write_atomically(self.path / META_PROPERTIES, f"#\n{content}".encode())

    def _read_meta(self) -> dict[str, str]:
        """meta.properties, from which the id is taken; nothing in a new directory."""
        path = self.path / META_PROPERTIES
        try:
            found = _parse_properties(self.files.read_bytes(path))
        except FileNotFoundError:
            return {}
        if "directory.id" in found:
            try:
                self.directory_id = id_from_text(found["directory.id"])
            except ValueError as error:
                raise StartupError(f"{path} is damaged: directory.id={found['directory.id']} is not an id") from error
        return found

    def begin(self) -> None:
        """Look for the marker of a clean stop and take it away; read the recovery points."""
        path = self.path / CLEAN_SHUTDOWN
        self.recovery_points = self.read_offsets(checkpoints.RECOVERY_POINT)
        self.cleaned_offsets = self.read_offsets(checkpoints.CLEANER_OFFSET)
        self._written = {name: self.read_offsets(name) for name in checkpoints.ALL}
        try:
            content = self.files.read_bytes(path)
        except FileNotFoundError:
            return
        self.was_clean = True
        self.previous_broker_epoch = broker_epoch_of(content)
        self.files.unlink(path)
        self.files.fsync_directory(self.path)

    def mark_clean(self, *, broker_epoch: int) -> None:
        """Leave the marker of a clean stop; only after every log is closed and every checkpoint written."""
        self.files.write_atomically(self.path / CLEAN_SHUTDOWN, clean_marker(broker_epoch))

    def release(self) -> None:
        """Give the lock back."""
        self._lock = None

    def read_offsets(self, name: str) -> dict[TopicPartition, int]:
        """One of the four checkpoints."""
        return read_checkpoint(self.files, self.path / name)

    def write_offsets(self, name: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Replace one of the four checkpoints, if it says something else."""
        self.check_online()
        with self._writing:
            if name != checkpoints.CLEANER_OFFSET:
                begun_anew = set(self._begun_anew)
                expected = {key: values[name] for key, values in self._expected.copy().items() if name in values}
                offsets = expected | {key: offset for key, offset in offsets.items() if key not in begun_anew}
                if name == checkpoints.RECOVERY_POINT:
                    lowered = dict(self._lowered)
                    offsets = {key: min(offset, lowered.get(key, offset)) for key, offset in offsets.items()}
            else:
                # Taken down here, not by the caller: of two writers the later one writes the later state.
                offsets = dict(self.cleaned_offsets)
            if name in self._is_synced and offsets == self._written[name]:
                return
            try:
                write_checkpoint(self.files, self.path / name, offsets)
            except OSError as error:
                raise self.fail(f"writing {name}", error) from error
            self._written[name] = offsets
            self._is_synced.add(name)
            if name == checkpoints.RECOVERY_POINT:
                self.recovery_points = dict(offsets)

    def begin_capture(self) -> None:
        """Offsets are taken down from now on: what was lowered or begun before will be in them, what is from now on may not be."""
        self._lowered.clear()
        self._begun_anew.clear()
        for topic_partition in self._arrived:
            self._expected.pop(topic_partition, None)
        self._arrived.clear()

    def expect(self, topic_partition: TopicPartition, offsets: Mapping[str, int], *, cleaned_offset: int | None) -> None:
        """A log is about to move in: the checkpoints, by their names, say this of it from now on. For a thread."""
        self._expected[topic_partition] = offsets
        for name in (checkpoints.RECOVERY_POINT, checkpoints.LOG_START_OFFSET, checkpoints.HIGH_WATERMARK):
            with self._writing:
                self.write_offsets(name, {key: offset for key, offset in self._written.get(name, {}).items() if key != topic_partition})
        if cleaned_offset is not None:
            self.cleaned_offsets[topic_partition] = cleaned_offset
        self.write_cleaned_offsets()

    def arrived(self, topic_partition: TopicPartition) -> None:
        """The log that was expected is here: the next capture speaks of it itself."""
        self._arrived.add(topic_partition)

    def expect_no_more(self, topic_partition: TopicPartition) -> None:
        """The log does not move in after all."""
        self._expected.pop(topic_partition, None)
        self.forget_cleaned_offset(topic_partition)

    def lower_recovery_point(self, topic_partition: TopicPartition, offset: int) -> None:
        """Make sure that recovery after a crash would start at or before `offset`; called before a log is truncated."""
        self._lowered[topic_partition] = min(offset, self._lowered.get(topic_partition, offset))
        if self.recovery_points.get(topic_partition, 0) > offset:
            with self._writing:
                if self.recovery_points.get(topic_partition, 0) > offset:  # another thread may have written it with its own
                    # Said once more: a capture that began while the other one wrote has cleared what was lowered.
                    self.write_offsets(checkpoints.RECOVERY_POINT, self.recovery_points | {topic_partition: offset})

    def write_cleaned_offsets(self) -> None:
        """Write down how far compaction came; only after what it did is on the disk. May be called in a thread."""
        self.write_offsets(checkpoints.CLEANER_OFFSET, self.cleaned_offsets)

    def lower_cleaned_offset(self, topic_partition: TopicPartition, offset: int) -> None:
        """Make sure that compaction looks again at what will be written from `offset` on; called before a log is truncated."""
        if self.cleaned_offsets.get(topic_partition, 0) > offset:
            self.cleaned_offsets[topic_partition] = offset
            self.write_cleaned_offsets()

    def forget_cleaned_offset(self, topic_partition: TopicPartition) -> None:
        """The log is gone, or is about to begin anew: then the file must not speak of it either."""
        self.cleaned_offsets.pop(topic_partition, None)

    def begin_anew(self, topic_partition: TopicPartition) -> None:
        """Before a new log is used: no checkpoint may speak of an older one, or recovery would cut the new one by it. For a thread."""
        self._begun_anew.add(topic_partition)
        self._expected.pop(topic_partition, None)
        self.forget_cleaned_offset(topic_partition)
        with self._writing:
            for name, speaks_of in list(self._written.items()):
                if topic_partition in speaks_of:
                    # Left out here, too: a capture that began while another thread wrote has cleared what was begun anew.
                    self.write_offsets(name, {key: offset for key, offset in self.read_offsets(name).items() if key != topic_partition})

    def check_online(self) -> None:
        """Raise if the directory is offline."""
        if self.offline is not None:
            raise StorageError(self.offline)

    @contextmanager
    def guarded(self, action: str) -> Iterator[None]:
        """Go offline if a disk error comes up inside."""
        try:
            yield
        except OSError as error:
            raise self.fail(action, error) from error

    @contextmanager
    def changing(self, action: str, *, is_undone: bool = False) -> Iterator[None]:
        """Like `guarded`, where files and what memory says of them change together: whatever comes up inside leaves them apart.

        `is_undone`: what lacks a descriptor has changed nothing yet, and may be tried again.
        """
        try:
            yield
        except BaseException as error:
            if is_undone and isinstance(error, OSError):
                raise self.fail(action, error) from error
            raise self.fail_for_good(action, error) from error

    def fail_for_good(self, action: str, error: BaseException) -> StorageError:
        """Go offline whatever the error is; the exception to raise. What ends the process, like an interrupt, goes on itself."""
        if not isinstance(error, OSError) or error.errno in OUT_OF_DESCRIPTORS:
            failure = self.fail(action, OSError(errno.EIO, f"{type(error).__name__}: {error}"))
        else:
            failure = self.fail(action, error)
        if not isinstance(error, Exception):
            raise error
        return failure

    def fail(self, action: str, error: OSError) -> StorageError:
        """Go offline because of a disk error; the exception to raise. Too many open files is no disk error."""
        message = f"{action} in {self.path} failed: {error.strerror or error}"
        if error.errno in OUT_OF_DESCRIPTORS:
            return StorageError(message)
        if self.offline is None:
            self.offline = message
            _logger.error("log directory %s is offline: %s", self.path, message)
            self._on_offline(self, error)
        return StorageError(message)


class NotedDirectories:
    """A directory for each of some logs; where there are too many the oldest are forgotten. Noted on the loop, taken in any thread."""

    def __init__(self) -> None:
        self._directories = OrderedDict[TopicPartition, LogDirectory]()
        """Ordered: the first entry of a plain one is found the more slowly, the more were taken out before it."""

    def note(self, topic_partition: TopicPartition, directory: LogDirectory) -> None:
        """Remember the directory of a log, instead of what was noted before."""
        self._directories.pop(topic_partition, None)
        if len(self._directories) >= MOST_NOTED:
            self._directories.popitem(last=False)
        self._directories[topic_partition] = directory

    def take(self, topic_partition: TopicPartition) -> LogDirectory | None:
        """What was noted of a log, and is not from now on."""
        return self._directories.pop(topic_partition, None)


def clean_marker(broker_epoch: int) -> bytes:
    """The content of the marker of a clean stop."""
    return json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":")).encode()


def broker_epoch_of(clean_marker: bytes) -> int:
    """The broker epoch that the marker names; -1 if it names none."""
    try:
        return int(json.loads(clean_marker)["brokerEpoch"])
    except (ValueError, KeyError, TypeError):
        return -1


def deleted_directory_name(topic_partition: TopicPartition) -> str:
    """A name for the directory of a deleted log."""
    return unique_name(str(topic_partition), DELETE_SUFFIX)


def is_deleted_directory_name(name: str) -> bool:
    """Whether a directory of that name is what a deleted log left, in Millstream or Kafka; what only ends alike is not ours."""
    return _DELETED_NAME.fullmatch(name) is not None


def future_directory_name(topic_partition: TopicPartition) -> str | None:
    """A name for the directory of a log that moves in; None if the topic's name leaves no room for it (as in Kafka)."""
    name = unique_name(str(topic_partition), FUTURE_SUFFIX)
    return name if name.startswith(f"{topic_partition}.") else None


def parse_future_name(name: str) -> TopicPartition | None:
    """Topic and partition of a log that was moving in; None if the name is not one of such a directory."""
    found = _FUTURE_NAME.fullmatch(name)
    return None if found is None else parse_directory_name(found[1])


def unique_name(name: str, ending: str) -> str:
    """The name, made never given before, with an ending; no longer than a file name may be."""
    suffix = f".{uuid.uuid4().hex}{ending}"
    return name[: _MAX_NAME - len(suffix)] + suffix


def parse_directory_name(name: str) -> TopicPartition | None:
    """Topic and partition of a log's directory; None if the name is not one of a log."""
    topic, dash, partition = name.rpartition("-")
    return TopicPartition(topic, int(partition)) if topic and dash and partition.isascii() and partition.isdigit() else None


def _parse_properties(content: bytes) -> dict[str, str]:
    lines = (line.strip() for line in content.decode(errors="replace").splitlines())
    pairs = (line.partition("=") for line in lines if line and not line.startswith(("#", "!")))
    return {name.strip(): value.strip() for name, _, value in pairs}
