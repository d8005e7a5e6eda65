"""Reads a plan in the format of kafka-reassign-partitions, and says everything that is wrong with it before anything is begun."""

import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from millstream.cli.cluster.planning.disks import Directories, problem_of, short_of_room
from millstream.cli.cluster.planning.layout import Layout, Replicas, Targets
from millstream.cli.cluster.planning.plan import ANY_DIRECTORY, VERSION
from millstream.client.admin.disk_admin import Disks, Replica
from millstream.errors import CommandFailed, UsageError
from millstream.topic_partition import TopicPartition

MOST_NAMED = 10


class WrittenPlan(NamedTuple):
    """What a file says: the replicas of partitions, and the directories of those replicas that have to be in a certain one."""

    targets: Targets
    directories: Directories


def read_plan(path: Path) -> WrittenPlan:
    """The plan in a file; `UsageError` says what is wrong where."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"The plan {path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise UsageError(f"The plan {path} is not text in UTF-8.") from None
    except (ValueError, RecursionError) as error:  # also a number of thousands of digits
        raise UsageError(f"The plan {path} is not JSON: {error}.") from None
    try:
        return parse_plan(document)
    except UsageError as error:
        raise UsageError(f"The plan {path} cannot be used: {error}") from None


def parse_plan(document: object) -> WrittenPlan:
    """What a document says; `UsageError` names the entry that makes no sense."""
    entries = document.get("partitions") if isinstance(document, dict) else None
    if not isinstance(document, dict) or not isinstance(entries, list):
        raise UsageError('expected {"version": 1, "partitions": [{"topic": "clicks", "partition": 0, "replicas": [1, 2]}]}.')
    if document.get("version", VERSION) != VERSION:
        raise UsageError(f"its version is {document['version']!r}, and only {VERSION} is known.")
    if not entries:
        raise UsageError("it has no partitions.")
    plan = WrittenPlan({}, {})
    for number, entry in enumerate(entries, 1):
        try:
            place, replicas = _entry(entry)
            directories = _directories(entry, replicas)
        except UsageError as error:
            raise UsageError(f"entry {number}: {error}") from None
        if place in plan.targets:
            raise UsageError(f"entry {number}: {place} was named before.")
        plan.targets[place] = replicas
        plan.directories.update({Replica(broker, place): path for broker, path in directories.items()})
    return plan


def _entry(entry: Any) -> tuple[TopicPartition, Replicas]:
    if not isinstance(entry, dict):
        raise UsageError('expected {"topic": ..., "partition": ..., "replicas": [...]}.')
    topic, partition, replicas = (entry.get(name) for name in ("topic", "partition", "replicas"))
    if not isinstance(topic, str) or not topic:
        raise UsageError("topic: expected a name.")
    if partition is None or not _is_number(partition):
        raise UsageError(f"partition: expected a number, found {partition!r}.")
    if not isinstance(replicas, list) or not replicas or not all(map(_is_number, replicas)):
        raise UsageError(f"replicas: expected a list of broker ids, found {replicas!r}.")
    return TopicPartition(topic, int(partition)), tuple(replicas)


def _directories(entry: Any, replicas: Replicas) -> dict[int, str]:
    """The directories that were named, by broker."""
    named = entry.get("log_dirs")
    if named is None:
        return {}
    if not isinstance(named, list) or not all(isinstance(name, str) for name in named):
        raise UsageError(f"log_dirs: expected a list of directories, found {named!r}.")
    if len(named) != len(replicas):
        raise UsageError(f"log_dirs: there are {len(named)} of them, and {len(replicas)} replicas: each has one, or {ANY_DIRECTORY!r}.")
    for name in named:
        if name != ANY_DIRECTORY and not name.startswith("/"):
            raise UsageError(f"log_dirs: {name!r} is neither {ANY_DIRECTORY!r} nor a path from the root, as /data/a.")
    return {broker: name for broker, name in zip(replicas, named, strict=True) if name != ANY_DIRECTORY}


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 31


def check_targets(layout: Layout, disks: Disks, plan: WrittenPlan, *, where: str) -> None:
    """Raise `CommandFailed`, with everything that is wrong, unless this cluster can carry out all of it."""
    problems = [*_problems(layout, plan.targets), *_directory_problems(disks, plan.directories)]
    if not problems:
        return
    shown = "\n  ".join(problems[:MOST_NAMED])
    more = f"\n  and {len(problems) - MOST_NAMED} more" if len(problems) > MOST_NAMED else ""
    raise CommandFailed(f"At {where} this plan cannot be carried out, and nothing of it was begun:\n  {shown}{more}")


def _problems(layout: Layout, targets: Mapping[TopicPartition, Replicas]) -> Iterator[str]:
    topics = {place.topic for place in layout.partitions}
    for place, replicas in targets.items():
        known = layout.partitions.get(place)
        if known is None:
            yield f"{place}: there is no topic {place.topic!r}" if place.topic not in topics else f"{place}: there is no such partition"
            continue
        yield from _replica_problems(place, replicas, known.replicas, layout.racks)


def _replica_problems(place: TopicPartition, replicas: Replicas, before: Replicas, there: Collection[int]) -> Iterator[str]:
    if len(set(replicas)) < len(replicas):
        yield f"{place}: a broker is named twice in {list(replicas)}"
    # A replica that stays where it is may be on a broker that is not there just now.
    missing = sorted(set(replicas) - set(there) - set(before))
    if missing:
        noun = "broker" if len(missing) == 1 else "brokers"
        yield f"{place}: {noun} {', '.join(map(str, missing))} not there; there are {', '.join(map(str, sorted(there)))}"
    elif not set(replicas) & set(there):
        yield f"{place}: none of the brokers {', '.join(map(str, replicas))} is there"


def _directory_problems(disks: Disks, directories: Mapping[Replica, str]) -> Iterator[str]:
    for replica, path in directories.items():
        stored = disks.current.get(replica)
        problem = problem_of(disks, replica.broker, path, moves=stored is not None and stored.path != path)
        if problem is not None:
            yield f"{replica.place}: {problem}"
    for _, problem in short_of_room(disks, directories):
        yield problem
