"""Reads what the controller has written: the list of changes, the lives of brokers, topics and their partitions. Many reads at a time.

Other programs can write to the tree. A znode that makes no sense, or cannot be what became of what was known, is logged, once, and what is
known stays; it does not end the broker. A topic of which nothing is known is then `unreadable`, which is not the same as missing: its logs
are left alone. All that was in doubt is read again whenever something else has changed.

A topic is several znodes, which are not read at one moment; where only partitions changed, the topic's own znode is not read at all. It is
written last (see `metadata_writer`), so a partition that was created after it may belong to a later topic of the same name: then the
topic's znode is looked at again, and if it was written meanwhile, all of it is read again.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from millstream.coordination import paths
from millstream.coordination.change_log import ChangeLog, Touched
from millstream.coordination.cluster_view import ClusterView, TopicState, decode_broker_id, decode_life
from millstream.coordination.complaints import Complaints
from millstream.coordination.interface import Coordination, WatchCallback, ZnodeStat
from millstream.coordination.many_reads import AT_ONCE, Found, children_of, get_all
from millstream.coordination.old_layout import is_in_old_layout
from millstream.coordination.partition_state import PartitionState
from millstream.coordination.sound_options import sound_options
from millstream.coordination.topic_header import COMPLETE, CREATING, TopicHeader
from millstream.coordination.topic_identities import borrowed_ids
from millstream.errors import InvalidConfig
from millstream.options.validation import validate_topic_overrides
from millstream.zookeeper.errors import NoNode

MOST_TRIES: Final = 5
"""How often something that is written to while it is read is read again; later changes are noticed anyway."""

Wanted = Touched | None
"""What of a topic has changed; None: everything may have."""


class ListedChanges(NamedTuple):
    """The list of changes, as it was read."""

    changes: ChangeLog | None
    """None if it is not there or makes no sense."""
    created: int
    """The transaction that created the list, or emptied it: numbers begin anew then."""


class _Heading(NamedTuple):
    """A topic whose partitions are to be read."""

    header: TopicHeader
    version: int
    created: int
    modified: int
    last: TopicState | None
    """The same topic, as it was known."""
    kept: TopicState | None
    """What is known under this name."""
    numbers: Sequence[int]
    """The partitions to be read."""


class _ReadState(NamedTuple):
    """What was found in the znode of a partition."""

    state: PartitionState | None
    error: ValueError | None
    stat: ZnodeStat | None
    """None if there is no such znode."""


class MetadataReader:
    """Reads; what is known is given to it, and it gives back what is new."""

    def __init__(self, coordination: Coordination, complaints: Complaints) -> None:
        self.unreadable: set[str] = set()
        """Topics that are there, and of which nothing is known."""
        self.doubtful: set[str] = set()
        """Topics to be read again: `unreadable` ones, and those with a znode that made no sense."""
        self.unfinished: set[str] = set()
        """Topics that are being created or deleted, or were left so."""
        self._coordination = coordination
        self._complaints = complaints

    async def read_changes(self, *, watch: WatchCallback | None = None) -> ListedChanges:
        """The list of changes."""
        try:
            data, stat = await self._coordination.get(paths.CHANGES, watch=watch)
        except NoNode:
            # Reading what is not there sets no watch; asking whether it exists does.
            if watch is not None:
                await self._coordination.exists(paths.CHANGES, watch=watch)
            return ListedChanges(None, -1)
        try:
            changes = ChangeLog.decode(data)
        except ValueError as error:
            self._complaints.report(paths.CHANGES, stat.mzxid, error)
            return ListedChanges(None, stat.czxid)
        self._complaints.forget(paths.CHANGES)
        return ListedChanges(changes, stat.czxid if data else stat.mzxid)

    async def read_lives(self, known: Mapping[int, int]) -> dict[int, int]:
        """Which life of each broker the controller has dealt with."""
        children = await children_of(self._coordination, paths.BROKER_EPOCHS)
        lives = {}
        read = await get_all(self._coordination, [f"{paths.BROKER_EPOCHS}/{child}" for child in children])
        for child, found in zip(children, read, strict=True):
            if found is None:
                continue
            path = f"{paths.BROKER_EPOCHS}/{child}"
            try:
                lives[decode_broker_id(child)] = decode_life(found.data)
            except ValueError as error:
                self._complaints.report(path, found.stat.mzxid, error)
                lives |= {broker: life for broker, life in known.items() if str(broker) == child}
            else:
                self._complaints.forget(path)
        return lives

    # --- topics -------------------------------------------------------------------------------------------------------------------------

    async def read_topics(self, wanted: Mapping[str, Wanted], known: ClusterView) -> dict[str, TopicState | None]:
        """The topics of these names that are others than known; None for those that are not there (or not complete)."""
        before = set(self.unreadable), set(self.doubtful), set(self.unfinished)
        try:
            return await self._read_topics(wanted, known)
        except BaseException:
            self.unreadable, self.doubtful, self.unfinished = before
            raise

    async def _read_topics(self, wanted: Mapping[str, Wanted], known: ClusterView) -> dict[str, TopicState | None]:
        read: dict[str, TopicState | None] = {}
        headings = {name: heading for name, one in wanted.items() if (heading := _known_heading(known.topics.get(name), one)) is not None}
        pending = sorted(wanted.keys() - headings.keys())
        for _ in range(MOST_TRIES):
            for start in range(0, len(pending), AT_ONCE):
                headings |= await self._read_headings(pending[start : start + AT_ONCE], wanted, known, read)
            pending = await self._read_partitions(headings, read)
            if not pending:
                break
            headings = {}
        for name in pending:
            read[name] = self._keep(name, known.topics.get(name))
        for name, (last, error) in borrowed_ids(read, known).items():
            read[name] = self._refuse(name, -1, error, last)
        return {name: topic for name, topic in read.items() if topic is not known.topics.get(name)}

    async def _read_headings(
        self, names: Sequence[str], wanted: Mapping[str, Wanted], known: ClusterView, read: dict[str, TopicState | None]
    ) -> dict[str, _Heading]:
        """The topics among these whose partitions are to be read; the others are `read` by that."""
        headings = {}
        for name, found in zip(names, await get_all(self._coordination, map(paths.topic, names)), strict=True):
            for names_in_question in (self.unreadable, self.doubtful, self.unfinished):
                names_in_question.discard(name)
            last = known.topics.get(name)
            if found is None:
                self._complaints.forget(paths.topic(name))
                read[name] = None
                continue
            last_here = last if last is not None and last.created == found.stat.czxid else None
            try:
                header = TopicHeader.decode(name, found.data)
                _check_header(header, last_here)
            except ValueError as error:
                if last is None and is_in_old_layout(found.data):
                    # Unreadable until the controller has converted it, which it says in the list of changes.
                    self._complaints.report(
                        paths.topic(name), found.stat.mzxid, ValueError("an older release wrote it; a controller of this one converts it")
                    )
                    self.unreadable.add(name)
                    read[name] = None
                else:
                    read[name] = self._refuse(name, found.stat.mzxid, error, last)
                continue
            if header.phase == COMPLETE:
                numbers = _numbers(header, last_here, wanted[name])
                stat = found.stat
                headings[name] = _Heading(header, stat.version, stat.czxid, stat.mzxid, last_here, last, numbers)
                continue
            self.unfinished.add(name)
            if header.phase == CREATING:
                self.unreadable.add(name)
            read[name] = None
        return headings | await self._probe({name: heading for name, heading in headings.items() if len(heading.numbers) > AT_ONCE})

    async def _probe(self, headings: Mapping[str, _Heading]) -> dict[str, _Heading]:
        """Large topics, to be read as far as their last partitions are there: any number may stand in a znode."""
        found = await get_all(self._coordination, [paths.partition(name, heading.numbers[-1]) for name, heading in headings.items()])
        return {
            name: heading if last is not None else heading._replace(numbers=heading.numbers[-1:])
            for (name, heading), last in zip(headings.items(), found, strict=True)
        }

    async def _read_partitions(self, headings: Mapping[str, _Heading], read: dict[str, TopicState | None]) -> list[str]:
        """Add the topics to what is `read`, and return those that were written to meanwhile."""
        flat = [(name, number) for name, heading in headings.items() for number in heading.numbers]
        states: dict[str, dict[int, _ReadState]] = {name: {} for name in headings}
        for start in range(0, len(flat), AT_ONCE):
            some = flat[start : start + AT_ONCE]
            znodes = await get_all(self._coordination, [paths.partition(*one) for one in some])
            for (name, number), found in zip(some, znodes, strict=True):
                states[name][number] = _decoded(found)
        odd = [name for name, heading in headings.items() if _is_odd(heading, states[name].values())]
        later = await get_all(self._coordination, map(paths.topic, odd))
        moved = {name for name, found in zip(odd, later, strict=True) if found is None or found.stat.mzxid != headings[name].modified}
        for name, heading in headings.items():
            if name not in moved:
                read[name] = await self._topic(name, heading, states[name])
        return sorted(moved)

    async def _topic(self, name: str, heading: _Heading, states: Mapping[int, _ReadState]) -> TopicState | None:
        header, last = heading.header, heading.last
        partitions: list[PartitionState] = list(last.partitions) if last is not None else []
        for count, number in enumerate(sorted(states), 1):
            if count % AT_ONCE == 0:
                await asyncio.sleep(0)
            known = partitions[number] if number < len(partitions) else None
            state = self._partition(name, number, states[number], known)
            if state is None:
                return self._keep(name, heading.kept)
            partitions[number : number + 1] = [state]
        configs = self._configs(name, header, heading.modified, last)
        topic = TopicState(name, header.topic_id, tuple(partitions), configs, heading.version, heading.created, heading.modified)
        return last if topic == last else topic

    def _partition(self, name: str, number: int, found: _ReadState, known: PartitionState | None) -> PartitionState | None:
        """The state. If it makes no sense: the known one, as if it stood there, so that the controller's next decision replaces it."""
        path = paths.partition(name, number)
        error = found.error
        if found.state is not None and known is not None:
            try:
                found.state.check_follows(known)
            except ValueError as wrong:
                error = wrong
        if error is None:
            self._complaints.forget(path)
            return found.state
        self._complaints.report(path, -1 if found.stat is None else found.stat.mzxid, error)
        self.doubtful.add(name)
        return known if known is None or found.stat is None else known.read_at(found.stat.version)

    def _configs(self, name: str, header: TopicHeader, revision: int, last: TopicState | None) -> Mapping[str, str]:
        try:
            validate_topic_overrides(header.configs)
        except InvalidConfig as error:
            self._complaints.report(paths.topic(name), revision, error)
            return last.configs if last is not None else sound_options(header.configs, validate_topic_overrides)
        self._complaints.forget(paths.topic(name))
        return header.configs

    def _refuse(self, name: str, revision: int, error: Exception, last: TopicState | None) -> TopicState | None:
        self._complaints.report(paths.topic(name), revision, error)
        return self._keep(name, last)

    def _keep(self, name: str, last: TopicState | None) -> TopicState | None:
        """The topic as it was; one of which nothing is known is unreadable."""
        self.doubtful.add(name)
        if last is None:
            self.unreadable.add(name)
        return last


def _check_header(header: TopicHeader, last: TopicState | None) -> None:
    """Raise ValueError unless it can be what became of `last`: a topic keeps its id, and loses no partition."""
    if last is None:
        return
    if last.topic_id != header.topic_id:
        raise ValueError(f"topic_id must stay {last.topic_id}, and is {header.topic_id}")
    if header.partitions < len(last.partitions):
        raise ValueError(f"partitions are never taken away: there were {len(last.partitions)}, and are {header.partitions}")
    if header.phase == CREATING:
        raise ValueError(f"phase must not become {CREATING!r} again")


def _numbers(header: TopicHeader, last: TopicState | None, wanted: Wanted) -> Sequence[int]:
    """Which partitions have to be read: all of an unknown topic; of a known one those that changed, and those that came."""
    count = len(last.partitions) if last is not None else 0
    if wanted is None or header.partitions - count > AT_ONCE or not count:
        return range(header.partitions)
    return [*sorted(number for number in wanted.partitions if number < count), *range(count, header.partitions)]


def _known_heading(last: TopicState | None, wanted: Wanted) -> _Heading | None:
    """What a known topic goes by of which only partitions have changed."""
    if last is None or wanted is None or wanted.is_topic:
        return None
    numbers = _numbers(last.header, last, wanted)
    return _Heading(last.header, last.version, last.created, last.modified, last, last, numbers)


def _decoded(found: Found | None) -> _ReadState:
    if found is None:
        return _ReadState(None, ValueError("it is not there"), None)
    try:
        return _ReadState(PartitionState.decode(found.data, partition_epoch=found.stat.version), None, found.stat)
    except ValueError as error:
        return _ReadState(None, error, found.stat)


def _is_odd(heading: _Heading, states: Iterable[_ReadState]) -> bool:
    """Whether partitions may belong to a later topic of the same name, or are not there."""
    return any(found.stat is None or found.stat.czxid > heading.modified for found in states)
