"""What has to be done so that other brokers of a machine have its partitions: decided once, written down, then done step by step. Pure.

It is written as `layout-change.json` beside the tree of znodes before anything is touched, and removed when all is done. Everything in it
is final (new names, offsets, states of partitions), so that a start after a crash does all of it again and changes nothing that was done.
"""

import json
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from millstream.cluster.controller.reassignment import completed, reverted, with_epoch_of_removal
from millstream.coordination.partition_state import PartitionState
from millstream.errors import InvalidReplicaAssignment
from millstream.files import path_text
from millstream.log.directories import checkpoints
from millstream.log.directories.checkpoints import id_to_text
from millstream.log.directories.directory import (
    STRAY_SUFFIX,
    deleted_directory_name,
    is_deleted_directory_name,
    parse_directory_name,
    parse_future_name,
    unique_name,
)
from millstream.processes.layout import Layout
from millstream.processes.spread import Place, States, moved, spread
from millstream.topic_partition import TopicPartition

VERSION: Final = 1
NO_EPOCH: Final = -1

Offsets = Mapping[TopicPartition, int]


class Rename(NamedTuple):
    """A directory that another broker gets, or that is put out of the way; by brokers and names."""

    source: int
    name: str
    target: int
    new_name: str


@dataclass(frozen=True, slots=True)
class Home:
    """What a broker has in one data directory."""

    names: Sequence[str] = ()
    """Of the directories in it."""
    offsets: Mapping[str, Offsets] = field(default_factory=dict)
    """The checkpoints, by the names of their files."""
    clean_epoch: int | None = None
    """The broker epoch in the marker of a clean stop; None without one."""


@dataclass(frozen=True, slots=True)
class DiskChange:
    """What happens in one data directory."""

    renames: Sequence[Rename]
    offsets: Mapping[int, Mapping[str, Offsets]]
    """The checkpoints as they are to be, by broker and file."""
    clean_epochs: Mapping[int, int]
    """The markers of a clean stop; brokers that are not named have logs to recover."""


@dataclass(frozen=True, slots=True)
class LayoutChange:
    """All of it."""

    before: Layout
    after: Layout
    disks: Mapping[str, DiskChange]
    """By the paths of the data directories."""
    states: States
    """The partitions that other brokers have from now on."""
    lives: Mapping[int, int]
    """Epochs of brokers that are new and yet have lost nothing."""
    directory_ids: Mapping[int, Mapping[str, str]]
    """What the data directories of brokers with new homes are called, by broker and path of the disk: so that none goes missing unnoticed
    before these brokers have been there."""

    @property
    def retired(self) -> list[int]:
        """The brokers whose homes are given up."""
        return [number for number, home in self.before.homes.items() if self.after.homes.get(number) != home]

    def encode(self, disk: str) -> bytes:
        """The content of the file in one of the data directories: all of it in each, and which of them it is."""
        return json.dumps(
            {
                "version": VERSION,
                "disk": disk,
                "before": _texts(self.before.homes),
                "after": _texts(self.after.homes),
                "disks": {path: _disk_fields(disk) for path, disk in self.disks.items()},
                "states": [[*name, state.encode().decode()] for name, state in self.states.items()],
                "lives": _texts(self.lives),
                "directory_ids": _texts(self.directory_ids),
            }
        ).encode()

    @classmethod
    def decode(cls, data: bytes) -> tuple[Self, str]:
        """What the file says, and of which data directory; ValueError if that makes no sense, or was written by a later release."""
        try:
            fields = json.loads(data)
            if fields["version"] != VERSION:
                raise ValueError(f"version {fields['version']} is not known to this release")
            change = cls(
                Layout(_numbers(fields["before"])),
                Layout(_numbers(fields["after"])),
                {path: _disk(disk) for path, disk in fields["disks"].items()},
                {
                    TopicPartition(topic, number): PartitionState.decode(text.encode(), partition_epoch=0)
                    for topic, number, text in fields["states"]
                },
                _numbers(fields["lives"]),
                _numbers(fields.get("directory_ids", {})),  # the first ones that were written had none
            )
            return change, str(fields["disk"])
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"it lacks {error}") from None


def plan_change(
    before: Layout, after: Layout, *, disks: Mapping[Path, Mapping[int, Home]], states: States, lives: Mapping[int, int]
) -> LayoutChange:
    """The change from one layout to another, for what each broker has in each data directory; `lives` as in `/brokers/epochs`."""
    settled = {name: _without_reassignment(name, state) for name, state in states.items()}
    targets = spread(settled, after.homes)
    renames = _all_renames(disks, before, after, targets=targets, states=states)
    changed = {name: with_epoch_of_removal(state, _moved(name, settled[name], targets)) for name, state in states.items()}
    lived_well = {
        number
        for number in after.homes
        if all(
            homes[source].clean_epoch == lives.get(source)
            for path, homes in disks.items()
            for source in _sources(number, renames[path], before, after)
        )
    }
    """Of whose logs nothing is lost, by the lives of those who had them that were last decided about."""
    epochs = {number: lives.get(number, 0) if number in lived_well else NO_EPOCH for number in after.homes}
    return LayoutChange(
        before,
        after,
        {path_text(path): _disk_change(homes, renames[path], before, after, epochs=epochs) for path, homes in disks.items()},
        {name: state for name, state in changed.items() if state != states[name]},
        {number: 0 for number in sorted(lived_well) if number not in lives},
        {
            number: {path_text(path): id_to_text(uuid.uuid4()) for path in disks}
            for number, home in after.homes.items()
            if before.homes.get(number) != home
        },
    )


def _without_reassignment(name: TopicPartition, state: PartitionState) -> PartitionState:
    """The partition when its reassignment is over, done or given up; with all replicas, if only those that were added have everything."""
    if not state.is_reassigning:
        return state
    done = completed(state, state.in_sync_replicas)
    if done is not None:
        return done
    try:
        return reverted(name, state, allows_unclean=False)
    except InvalidReplicaAssignment:
        return state._replace(adding_replicas=(), removing_replicas=())


def _moved(name: TopicPartition, state: PartitionState, targets: Mapping[Place, int]) -> PartitionState:
    return moved(state, {replica: targets[place] for replica in state.replicas if (place := Place(name, replica)) in targets})


def _all_renames(
    disks: Mapping[Path, Mapping[int, Home]], before: Layout, after: Layout, *, targets: Mapping[Place, int], states: States
) -> dict[Path, list[Rename]]:
    """For each data directory first what is put out of the way, then what moves."""
    logs = {(number, name) for homes in disks.values() for number, home in homes.items() for name in home.names}
    wanted = {path: _renames(homes, before, after, targets=targets, states=states, logs=logs) for path, homes in disks.items()}
    arriving = {(move.target, move.name) for _, moves in wanted.values() for move in moves}
    return {
        path: [*aside, *_in_the_way(disks[path], [*aside, *moves], arriving, before, after), *moves]
        for path, (aside, moves) in wanted.items()
    }


def _renames(
    homes: Mapping[int, Home],
    before: Layout,
    after: Layout,
    *,
    targets: Mapping[Place, int],
    states: States,
    logs: Collection[tuple[int, str]],
) -> tuple[list[Rename], list[Rename]]:
    """What goes aside, and what moves."""
    aside: list[Rename] = []
    moves: list[Rename] = []
    first = min(after.homes)
    for source, home in homes.items():
        has_to_go = before.homes.get(source) != after.homes.get(source)
        for name in home.names:
            partition = parse_directory_name(name)
            is_known = partition in states and source in states[partition].replicas if partition is not None else False
            target = targets.get(Place(partition, source)) if partition is not None and is_known else None
            if target is not None and (target != source or has_to_go):
                moves.append(Rename(source, name, target, name))
            elif is_known and target is None and partition is not None:
                place = first if has_to_go else source
                aside.append(Rename(source, name, place, deleted_directory_name(partition)))
            elif has_to_go and partition is not None and not is_known:
                aside.append(Rename(source, name, first, unique_name(name, STRAY_SUFFIX)))
            elif (moving := parse_future_name(name)) is not None:
                # A copy of a log that was moving between the disks of its broker: it stays where it is. If it is not there any more, or
                # its disk is not, the copy may be all that is left of it: a person decides.
                is_all_that_is_left = moving in states and source in states[moving].replicas and (source, str(moving)) not in logs
                aside_name = unique_name(name, STRAY_SUFFIX) if is_all_that_is_left else deleted_directory_name(moving)
                aside.append(Rename(source, name, first if has_to_go else source, aside_name))
            elif has_to_go and (is_deleted_directory_name(name) or name.endswith(STRAY_SUFFIX)):
                aside.append(Rename(source, name, first, name))
    return aside, moves


def _in_the_way(
    homes: Mapping[int, Home], going: Sequence[Rename], arriving: Collection[tuple[int, str]], before: Layout, after: Layout
) -> list[Rename]:
    """What a broker has that gets a log of that name, perhaps in another data directory: it belongs to no replica that is known."""
    leaving = {(rename.source, rename.name) for rename in going}
    return [
        Rename(number, name, number, unique_name(name, STRAY_SUFFIX))
        for number, home in homes.items()
        if before.homes[number] == after.homes.get(number)
        for name in home.names
        if (number, name) in arriving and (number, name) not in leaving
    ]


def _disk_change(
    homes: Mapping[int, Home], renames: list[Rename], before: Layout, after: Layout, *, epochs: Mapping[int, int]
) -> DiskChange:
    offsets = {number: {name: dict[TopicPartition, int]() for name in checkpoints.ALL} for number in after.homes}
    gone = {(rename.source, parse_directory_name(rename.name)) for rename in renames}
    for number, home in homes.items():
        if number in offsets and before.homes.get(number) == after.homes[number]:
            for name, values in home.offsets.items():
                offsets[number][name] |= {key: value for key, value in values.items() if (number, key) not in gone}
    for rename in renames:
        key = parse_directory_name(rename.new_name)
        for name, values in homes[rename.source].offsets.items():
            if key is not None and key in values:
                offsets[rename.target][name][key] = values[key]
    clean = {number: epochs[number] for number in after.homes if _is_clean(number, homes, renames, before, after)}
    return DiskChange(renames, offsets, clean)


def _sources(number: int, renames: Sequence[Rename], before: Layout, after: Layout) -> set[int]:
    """The brokers whose logs this one has from now on."""
    moved_in = {rename.source for rename in renames if rename.target == number}
    return moved_in | ({number} if before.homes.get(number) == after.homes[number] else set())


def _is_clean(number: int, homes: Mapping[int, Home], renames: Sequence[Rename], before: Layout, after: Layout) -> bool:
    return all(homes[source].clean_epoch is not None for source in _sources(number, renames, before, after))


def _disk_fields(disk: DiskChange) -> dict[str, Any]:
    return {
        "renames": disk.renames,
        "offsets": {
            str(number): {name: [[*key, value] for key, value in values.items()] for name, values in files.items()}
            for number, files in disk.offsets.items()
        },
        "clean_epochs": _texts(disk.clean_epochs),
    }


def _disk(fields: Mapping[str, Any]) -> DiskChange:
    return DiskChange(
        [Rename(*rename) for rename in fields["renames"]],
        {
            int(number): {name: {TopicPartition(topic, index): value for topic, index, value in rows} for name, rows in files.items()}
            for number, files in fields["offsets"].items()
        },
        _numbers(fields["clean_epochs"]),
    )


def _texts(values: Mapping[int, Any]) -> dict[str, Any]:
    """Numbers become names of fields."""
    return {str(number): value for number, value in values.items()}


def _numbers(values: Mapping[str, Any]) -> dict[int, Any]:
    return {int(number): value for number, value in values.items()}
