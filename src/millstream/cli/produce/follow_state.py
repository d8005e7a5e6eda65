"""The state file of `produce --follow`: how far each file has been delivered. One process has it at a time.

    {"topic": "clicks", "files": {"/var/log/clicks.log": [{"device": 1, "inode": 2, "position": 300, "head": "..."}]}}

It is replaced whole, and on the disk before it has its name, so that a crash leaves the one before or this one.
"""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from millstream.cli.produce.followed_file import FilePlace
from millstream.errors import CommandFailed


def default_state_file(environment: Mapping[str, str], *, cluster_id: str, topic: str) -> Path:
    """Where the state is unless it is said."""
    home = environment.get("XDG_STATE_HOME")
    return (Path(home) if home else Path.home() / ".local" / "state") / "millstream" / f"follow-{topic}-{cluster_id}.json"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep the state file to oneself."""
    with _lock(path):
        yield


def _lock(path: Path) -> IO[str]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = path.with_name(path.name + ".lock").open("w")
    except OSError as error:
        raise CommandFailed(f"The state file {path} cannot be used: {error.strerror}; choose another with --state.") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise CommandFailed(f"Another `produce --follow` uses {path}: give this one a file of its own with --state.") from None
    return lock


def read_state(path: Path, topic: str) -> dict[str, list[FilePlace]]:
    """How far each file was delivered; nothing if there is no state yet."""
    try:
        document = json.loads(path.read_bytes())
        if document["topic"] != topic:
            raise CommandFailed(f"{path} is about the topic {document['topic']!r}, not {topic!r}: choose another with --state.")
        return {name: [FilePlace.of(place) for place in places] for name, places in document["files"].items()}
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise CommandFailed(f"The state file {path} cannot be read: {error.strerror}; choose another with --state.") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CommandFailed(
            f"The state file {path} is damaged ({error}): delete it to begin anew, or choose another with --state."
        ) from None


def write_state(path: Path, topic: str, places: Mapping[str, list[FilePlace]]) -> None:
    """Remember how far each file was delivered."""
    document = {"topic": topic, "files": {name: [place.document() for place in found] for name, found in places.items()}}
    new = path.with_name(path.name + ".new")
    try:
        with new.open("w") as file:
            json.dump(document, file)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except OSError as error:
        raise CommandFailed(f"The state file {path} cannot be written: {error.strerror}; choose another with --state.") from error
