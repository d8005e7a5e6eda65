"""Which data directories a broker has: remembered in each of them and in the coordination, so that none goes missing unnoticed.

    data-directories.json   {"version": 0, "generation": 3, "tree": "<id>", "directories": {"<id>": "/where/it/was", ...}}

A directory is known by its `directory.id` (KIP-858), not by its path: it may be moved, given in another order, or joined by a new one. One
that is known and not found was left out, is not mounted, or was emptied; to go on without it would begin its partitions anew, empty, in
another directory. So the start is refused until it is back, or given up by its id. A disk that answers with errors is another case: the
broker starts, and what is not found stays offline (`cluster.replicas`).

The record with the highest generation is the true one: a directory that was away remembers what was true before. `tree` is the directory
that holds the embedded tree of znodes, or `zookeeper`.

Not done here: reading and writing (`log.directories.directory`, `broker.cluster.registration`).
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from millstream.errors import StartupError
from millstream.files import path_text
from millstream.json_object import JsonObject

FILE_NAME = "data-directories.json"
ZOOKEEPER = "zookeeper"
_FLAG = "--forget-directory"


@dataclass(frozen=True, slots=True)
class KnownDirectories:
    """What is remembered: where each directory was last, by its id."""

    generation: int = 0
    paths: Mapping[str, str] = field(default_factory=dict)
    tree: str = ""
    """The id of the directory that holds the embedded tree; `zookeeper` where the znodes are there; empty where nothing is known."""

    def encode(self) -> bytes:
        """The content of the file, and of the znode."""
        record = {"version": 0, "generation": self.generation, "tree": self.tree, "directories": dict(self.paths)}
        return json.dumps(record, sort_keys=True).encode()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """What the file or znode remembers; ValueError if it makes no sense."""
        record = JsonObject.parse(data)
        return cls(record.integer("generation"), record.texts("directories"), record.text("tree"))

    def without(self, forgotten: Collection[str]) -> "KnownDirectories":
        """What is left when these are given up."""
        paths = {identifier: path for identifier, path in self.paths.items() if identifier not in forgotten}
        return replace(self, paths=paths, tree="" if self.tree in forgotten else self.tree)


@dataclass(frozen=True, slots=True)
class FoundDirectories:
    """What a start finds at the paths that it was given."""

    present: Mapping[str, Path]
    """By id, the new ones too; their disks may fail later."""
    dead: Sequence[Path] = ()
    """They answer with errors, so it is not known which they are."""
    empty: Sequence[Path] = ()
    absent: Sequence[Path] = ()


def newest(records: Iterable[KnownDirectories]) -> KnownDirectories:
    """What is true of what several places remember; what two places wrote apart from each other is taken together."""
    found = KnownDirectories()
    for record in records:
        if record.generation > found.generation:
            found = record
        elif record.generation == found.generation:
            found = replace(found, paths={**record.paths, **found.paths}, tree=found.tree or record.tree)
    return found


def check(known: KnownDirectories, found: FoundDirectories, *, forgotten: Collection[str]) -> None:
    """Raise StartupError if a directory is missing, or is given up and given at once."""
    for identifier in forgotten:
        path = path_text(found.present[identifier]) if identifier in found.present else known.paths.get(identifier, "")
        if identifier in found.present or path in _texts(found.dead):
            raise StartupError(f"{_FLAG}={identifier} gives up {path}, which --data gives: leave it out of --data, or take the flag away")
    missing = _unexplained(known.without(forgotten), found)
    if not missing:
        return
    facts = [f"{path} (directory.id {identifier}) {_state(path, found)}" for identifier, path in missing.items()]
    if known.tree in missing:
        facts.append("without the coordination tree in it no topic is known")
    if set(found.present.values()) <= {*found.empty, *found.absent}:
        facts.append("if this is another broker, give it another --node-id")
    facts.append("mount or restore what is missing and give it with --data, or give it up with all its records")
    # With the sign between them: an id may begin with a dash, and would be taken for another flag.
    flags = " ".join(f"{_FLAG}={identifier}" for identifier in missing)
    raise StartupError(f"data directories of this broker are missing: {'; '.join(facts)}: {flags}")


def unreadable(known: KnownDirectories, found: FoundDirectories) -> dict[str, str]:
    """The known directories, by id, that must be those whose disks do not answer."""
    missing = {identifier: path for identifier, path in known.paths.items() if identifier not in found.present}
    return missing if len(missing) <= len(found.dead) else {}


def renewed(known: KnownDirectories, found: FoundDirectories, *, tree: str, is_changed: bool) -> KnownDirectories:
    """What is to be remembered from this start on."""
    paths = {**unreadable(known, found), **{identifier: path_text(path) for identifier, path in found.present.items()}}
    if (dict(known.paths), known.tree) == (paths, tree) and not is_changed:
        return known
    return KnownDirectories(known.generation + 1, paths, tree)


def _unexplained(known: KnownDirectories, found: FoundDirectories) -> dict[str, str]:
    """Missing directories, by id, less those that dead disks stand for: the one at its path, or else any, under a new path."""
    missing = {identifier: path for identifier, path in known.paths.items() if identifier not in found.present}
    dead = _texts(found.dead)
    strangers = len(dead - set(missing.values()))
    others = [(identifier, path) for identifier, path in missing.items() if path not in dead]
    return dict(others[strangers:])


def _state(path: str, found: FoundDirectories) -> str:
    if path in _texts(found.absent):
        return "does not exist (is its disk mounted?)"
    if path in _texts(found.empty):
        return "is empty, or has lost its meta.properties (is its disk mounted?)"
    return "is another directory now" if path in _texts(found.present.values()) else "was left out"


def _texts(paths: Iterable[Path]) -> set[str]:
    return {path_text(path) for path in paths}
