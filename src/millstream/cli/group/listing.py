"""`millstream group list`: every group with its lag in messages and in seconds, and how it is in one word (`verdict`)."""

import time
from collections.abc import Callable, Collection, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from millstream.cli.group.consumer_groups import offset_ranges
from millstream.cli.group.known_group import Groups, GroupType, KnownGroup
from millstream.cli.group.lag import all_lags, total
from millstream.cli.group.paper_groups import Zookeeper
from millstream.cli.group.verdict import OBSERVE_SECONDS, Progress, Word, has_moved, word, word_at_once
from millstream.cli.kafka_client import Cluster
from millstream.cli.output import format_seconds, make_table, print_json, print_table
from millstream.cli.parameters import DEFAULT_BROKERS, Brokers, ClientOptions, Every, Output, OutputFormat, Watch
from millstream.errors import UsageError

if TYPE_CHECKING:
    from rich.table import Table

    from millstream.cli.partition_reader import PartitionReader

COLUMNS = ("group", "state", "type", "members", "lag", "behind", "is")
RIGHT = ("members", "lag", "behind")
STYLES = {Word.OK: "green", Word.SLOW: "yellow", Word.STUCK: "red", Word.DEAD: "red", Word.UNKNOWN: "dim"}
LOOK_EVERY_S = 0.5

Key = tuple[str, bool]
"""The name of a group, and whether it is one of the paper's."""


class GroupState(StrEnum):
    """What a group can be doing."""

    STABLE = "stable"
    EMPTY = "empty"
    DEAD = "dead"
    PREPARING = "preparing-rebalance"
    COMPLETING = "completing-rebalance"
    ASSIGNING = "assigning"
    RECONCILING = "reconciling"


def list_groups(
    *,
    state: Annotated[list[GroupState] | None, typer.Option("--state", help="Only groups in this state; repeatable.")] = None,
    protocol: Annotated[
        list[GroupType] | None, typer.Option("--type", help="Only groups of this type (paper: in ZooKeeper); repeatable.")
    ] = None,
    observe: Annotated[
        float,
        typer.Option("--observe", metavar="SECONDS", min=0, help="How long to watch groups that lag, to know slow from stuck and dead."),
    ] = OBSERVE_SECONDS,
    watch: Watch = False,
    every: Every = 2.0,
    zookeeper: Zookeeper = None,
    brokers: Brokers = DEFAULT_BROKERS,
    output: OutputFormat = Output.TABLE,
    client_options: ClientOptions = None,
) -> None:
    """List the groups: state, type, members, lag in messages, how long the oldest message waits, and a word.

    ok: at most 10 seconds behind, or its lag falls. slow: its lag does not fall. stuck: it has members, and commits nothing. dead: it has
    lag, no members, and commits nothing.
    """
    if watch and output is Output.JSON:
        raise UsageError("--watch draws a table: leave out --output json, or ask for JSON once.")
    cluster = Cluster.of(brokers, client_options)
    groups = Groups(cluster, zookeeper)
    with cluster.reader() as reader:
        listing = GroupListing(groups, reader, states=state or [], types=protocol or [])
        if watch:
            from millstream.cli.live import watch as draw

            draw(lambda: _table(listing.again()), every_s=every)
            return
        rows = listing.once(observe_s=observe)
    if output is Output.JSON:
        print_json(rows)
    else:
        print_table(COLUMNS, map(cells, rows), right=RIGHT)


class GroupListing:
    """Reads all groups, once or again and again, and says how each is."""

    def __init__(
        self,
        groups: Groups,
        reader: "PartitionReader",
        *,
        states: Collection[str] = (),
        types: Collection[str] = (),
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._groups = groups
        self._reader = reader
        self._states = states
        self._types = types
        self._clock = clock
        self._sleep = sleep
        self._moved: dict[Key, tuple[float, Progress]] = {}
        """When each group was last seen to move, and how it was then; where it is watched again and again."""

    def once(self, *, observe_s: float) -> list[dict[str, Any]]:
        """Every group; those that lag are watched until they have moved, or for so long."""
        first, groups = self._progress()
        words = {key: word_at_once(progress) for key, progress in first.items()}
        last = first
        until = self._clock() + observe_s
        waiting = {key for key, known in words.items() if known is None}
        while waiting and self._clock() < until:
            self._sleep(min(LOOK_EVERY_S, max(until - self._clock(), 0)))
            last, groups = self._progress()
            waiting = {key for key in waiting & last.keys() if not has_moved(first[key], last[key])}
        for key, known in words.items():
            if known is None and observe_s:
                words[key] = word(first[key], last.get(key, first[key]))
        return [_row(group, last[key], words.get(key) or Word.UNKNOWN) for key, group in groups.items()]

    def again(self) -> list[dict[str, Any]]:
        """Every group, compared with how it was when it last moved."""
        now = self._clock()
        progress, groups = self._progress()
        rows = []
        for key, group in groups.items():
            since, before = self._moved.get(key, (now, progress[key]))
            at_once = word_at_once(progress[key])
            is_unmoved = not has_moved(before, progress[key])
            is_young = is_unmoved and now - since < OBSERVE_SECONDS
            shown = at_once or (Word.UNKNOWN if is_young else word(before, progress[key]))
            self._moved[key] = (since, before) if is_unmoved else (now, progress[key])
            rows.append(_row(group, progress[key], shown))
        return rows

    def _progress(self) -> tuple[dict[Key, Progress], dict[Key, KnownGroup]]:
        chosen = [
            group
            for group in self._groups.all()
            if (not self._states or group.state in self._states) and (not self._types or group.type in self._types)
        ]
        places = [group.places(self._groups.partitions) for group in chosen]
        ranges = offset_ranges(self._groups.cluster, self._groups.admin, places={place for some in places for place in some})
        committed = [{place: group.committed.get(place) for place in some} for group, some in zip(chosen, places, strict=True)]
        behind = all_lags(self._reader, committed, ranges=ranges)
        progress, groups = {}, {}
        for group, lag in zip(chosen, (total(each.values()) for each in behind), strict=True):
            progress[group.name, group.is_paper] = Progress(len(group.members), lag.messages, lag.seconds, group.committed)
            groups[group.name, group.is_paper] = group
        return progress, groups


def _row(group: KnownGroup, progress: Progress, how: Word) -> dict[str, Any]:
    return {
        "group": group.name,
        "state": group.state,
        "type": group.type,
        "members": len(group.members),
        "lag": progress.lag,
        "lag_seconds": progress.lag_seconds,
        "is": how.value,
    }


def _table(rows: list[dict[str, Any]]) -> "Table":
    return make_table(COLUMNS, map(cells, rows), right=RIGHT)


def cells(row: Mapping[str, Any]) -> list[object]:
    """A row of the table."""
    from rich.text import Text

    how = Word(row["is"])
    lag = "-" if row["lag"] is None else row["lag"]
    return [row["group"], row["state"], row["type"], row["members"], lag, format_seconds(row["lag_seconds"]), Text(how.value, STYLES[how])]
