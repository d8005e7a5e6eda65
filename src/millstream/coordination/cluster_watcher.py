"""Keeps a broker's `ClusterView` true: watches the znodes, reads again what changed, swaps the view.

Watched are the list of changes (`/changes`, see `change_log`), the lists of brokers and of their options, each of these options, and the
controller; not topics and partitions, of which there are thousands. Watches fire once and are set again by the next read. A watch only
marks what is stale and wakes `run`, which reads it and makes a new view. Before anything of the new view is shown, `on_change` has been
awaited with it: this broker plays the roles that it says.

The logs of a large new topic take seconds to be opened. No view waits for them: the next one is read meanwhile, so a leader that fails is
replaced at once. `view` is the newest view without the topics and partitions that are still being opened (`unopened`), so a topic that
clients can see here has its logs open. When more of them are, `show` is called.

The watcher knows the number of the last change that is in its view. It reads what the list names behind that number, also after a lost
connection; everything at the start, when the list does not go back so far, and when it is another list or makes no sense. The list is read
first and then what it names, so what is changed meanwhile is named in a later round. The lives of brokers are read before the list: a view
never has a life in it without the partitions that were written before it.

What makes no sense is logged, and what was known stays (`metadata_reader`). Of options that make no sense, those that do are used. Of
another tree than that of the start nothing is taken over: a ZooKeeper that lost its data knows no topics, and that does not mean that they
were all deleted.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple, Self

from millstream.coordination import paths
from millstream.coordination.change_log import Touched
from millstream.coordination.cluster_view import (
    DEFAULT_BROKER,
    BrokerState,
    ClusterView,
    decode_broker_id,
    decode_cluster_id,
    decode_configs,
    decode_controller,
)
from millstream.coordination.complaints import Complaints
from millstream.coordination.interface import Coordination, SessionState, WatchEvent
from millstream.coordination.many_reads import children_of, get_all
from millstream.coordination.metadata_reader import MOST_TRIES, ListedChanges, MetadataReader, Wanted
from millstream.coordination.sound_options import sound_options
from millstream.errors import InvalidConfig
from millstream.options.validation import validate_dynamic_broker_values
from millstream.zookeeper.errors import NoNode, ZooKeeperError

Stale = tuple[str, str]
"""What to read again: the kind of thing, and which one of the kind ('' for the list)."""
CHANGES: Final[Stale] = ("changes", "")
BROKERS: Final[Stale] = ("brokers", "")
CONFIGS: Final[Stale] = ("configs", "")
CONTROLLER: Final[Stale] = ("controller", "")

logger = logging.getLogger(__name__)

_LISTS = frozenset({CHANGES, BROKERS, CONFIGS, CONTROLLER})

ViewListener = Callable[[ClusterView], Awaitable[None]]
ShownListener = Callable[[ClusterView], None]
PartitionCounts = Callable[[], Mapping[str, int]]
ViewPredicate = Callable[[ClusterView], bool]


class _Position(NamedTuple):
    """How far a list of changes was followed."""

    number: int
    created: int
    """The transaction that created the list: another list has other numbers."""

    @classmethod
    def of(cls, listed: ListedChanges) -> Self:
        """The end of a list."""
        return cls(-1, -1) if listed.changes is None else cls(listed.changes.last, listed.created)

    def changes_since(self, listed: ListedChanges) -> Mapping[str, Touched] | None:
        """What a list names behind this; None: everything has to be read."""
        return None if listed.changes is None or listed.created != self.created else listed.changes.since(self.number)


_UNKNOWN = _Position(-1, -1)


class ClusterWatcher:
    """Owns the current view."""

    def __init__(
        self,
        coordination: Coordination,
        *,
        on_change: ViewListener,
        on_shown: ShownListener = lambda _view: None,
        unopened: PartitionCounts = dict,
    ) -> None:
        """`unopened`: the topics with logs that are being opened, and how many of their partitions may be shown meanwhile."""
        self.view = ClusterView()
        """The cluster as clients see it."""
        self.newest = self.view
        """The cluster as it was read last, with what is still being opened: what the controller decides on."""
        self._coordination = coordination
        self._on_change = on_change
        self._on_shown = on_shown
        self._unopened = unopened
        self._has_taken_over = self._is_taking_over = False
        self._stale: set[Stale] = set()
        self._wake = asyncio.Event()
        self._waiting: dict[asyncio.Future[None], ViewPredicate] = {}
        self._rounds_begun = 0
        self._rounds_done = 0
        self._complaints = Complaints()
        self._reader = MetadataReader(coordination, self._complaints)
        self._unreadable_configs: set[str] = set()
        self._tree = -1
        """The transaction that created the cluster id: another tree of znodes has another."""
        self._position = _UNKNOWN
        """How far the list of changes is in the view."""
        coordination.add_session_listener(self._session_changed)

    @property
    def last_change(self) -> int:
        """The number of the last change that is in the view; -1 if that is not known."""
        return self._position.number

    @property
    def unfinished_topics(self) -> frozenset[str]:
        """Topics that are being created or deleted, or were left so; clients do not see them."""
        return frozenset(self._reader.unfinished)

    async def load(self) -> None:
        """Read everything for the first time; may be repeated if ZooKeeper was away."""
        data, stat = await self._coordination.get(paths.CLUSTER_ID)
        self._tree = stat.czxid
        self.newest = replace(self.newest, cluster_id=decode_cluster_id(data))
        self._stale = set(_LISTS)
        await self._refresh()

    async def run(self) -> None:
        """Follow the changes until cancelled."""
        while True:
            await self._wake.wait()
            try:
                await self._refresh()
            except ZooKeeperError as error:
                logger.info("the view of the cluster is read again when ZooKeeper is back: %s", error)

    async def until(self, predicate: ViewPredicate, *, timeout_ms: int) -> bool:
        """Wait until the view satisfies `predicate`; False when the time ran out first."""
        if predicate(self.view):
            return True
        future = asyncio.get_running_loop().create_future()
        self._waiting[future] = predicate
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await future
        except TimeoutError:
            return predicate(self.view)
        finally:
            del self._waiting[future]
        return True

    async def catch_up(self, stale: Stale = CHANGES, *, timeout_ms: int) -> bool:
        """Wait until this broker follows what was written to this before the call; False when the time ran out first.

        A topic that was created is not in the view before its logs are open (`until_opened`).
        """
        begun = self._rounds_begun
        self._stale.add(stale)
        self._wake.set()
        return await self.until(lambda _view: self._rounds_done > begun, timeout_ms=timeout_ms)

    async def until_opened(self, *, timeout_ms: int) -> bool:
        """Wait until the logs are open that are being opened now; False when the time ran out first."""
        names = set(self._unopened())
        return await self.until(lambda _view: names.isdisjoint(self._unopened()), timeout_ms=timeout_ms)

    def _session_changed(self, state: SessionState) -> None:
        # Watches do not outlive a connection: whatever happened meanwhile fired none.
        if state is SessionState.CONNECTED:
            self._mark_everything()

    def _mark_everything(self) -> None:
        self._stale |= _LISTS | {("config", name) for name in self._watched_configs}
        self._wake.set()

    def _mark(self, stale: Stale) -> Callable[[WatchEvent], None]:
        def fired(_event: WatchEvent) -> None:
            self._stale.add(stale)
            self._wake.set()

        return fired

    async def _refresh(self) -> None:
        while self._stale:
            self._wake.clear()
            stale, self._stale = self._stale, set()
            self._rounds_begun += 1
            try:
                view, position = await self._read(stale)
            except BaseException:
                self._stale |= stale
                raise
            await self._take_over(view)
            self._position = position
            self._rounds_done = self._rounds_begun
            self.show()

    async def _take_over(self, view: ClusterView) -> None:
        if view == self.newest and self._has_taken_over:
            return
        self._is_taking_over = True
        try:
            await self._on_change(view)
        finally:
            self._is_taking_over = False
        self.newest, self._has_taken_over = view, True

    def show(self) -> None:
        """Let clients see what this broker can serve by now of the newest view."""
        if self._is_taking_over:
            return  # another view is about to be shown
        shown = self.newest.showing(self._unopened())
        if shown != self.view:
            self.view = shown
            self._on_shown(shown)
        for future, predicate in self._waiting.items():
            if not future.done() and predicate(shown):
                future.set_result(None)

    @property
    def _watched_configs(self) -> set[str]:
        return set(self.newest.broker_configs) | self._unreadable_configs

    async def _read(self, stale: set[Stale]) -> tuple[ClusterView, _Position]:
        view, position = self.newest, self._position
        if not await self._is_same_tree():
            return view, position
        if CONTROLLER in stale:
            view = replace(view, controller_id=await self._read_controller())
        if BROKERS in stale:
            view = replace(view, brokers=await self._read_brokers())
        if CHANGES in stale:
            view, position = await self._read_changes(view)
        configs = {name for kind, name in stale if kind == "config"}
        if CONFIGS in stale:
            configs |= set(await self._children(paths.BROKER_CONFIGS, CONFIGS)) ^ self._watched_configs
        if configs:
            read = {name: await self._read_config(name) for name in sorted(configs)}
            merged = {**view.broker_configs, **read}
            view = replace(view, broker_configs={name: values for name, values in merged.items() if values is not None})
        return view, position

    async def _read_changes(self, view: ClusterView) -> tuple[ClusterView, _Position]:
        """The view with everything that the list of changes names behind the last one that is known."""
        reader = self._reader
        listed = await reader.read_changes(watch=self._mark(CHANGES))
        lives_as_of = self._position
        for _ in range(MOST_TRIES):
            touched = lives_as_of.changes_since(listed)
            if touched is not None and "" not in touched:
                break
            lives_as_of = _Position.of(listed)
            view = replace(view, lives=await reader.read_lives(view.lives))
            listed = await reader.read_changes()
        touched = self._position.changes_since(listed)
        wanted: dict[str, Wanted] = dict.fromkeys(reader.doubtful)
        if touched is None:
            listed_topics = await children_of(self._coordination, paths.TOPICS)
            wanted |= dict.fromkeys([*listed_topics, *view.topics, *reader.unreadable, *reader.unfinished])
        else:
            wanted |= {name: one for name, one in touched.items() if name and name not in wanted}
        if wanted:
            view = view.with_topics(await reader.read_topics(wanted, view))
        if view.unreadable_topics != reader.unreadable:
            view = replace(view, unreadable_topics=frozenset(reader.unreadable))
        later = lives_as_of.changes_since(listed)
        return view, lives_as_of if later is None or "" in later else _Position.of(listed)

    async def _is_same_tree(self) -> bool:
        stat = await self._coordination.exists(paths.CLUSTER_ID)
        if stat is not None and stat.czxid == self._tree:
            self._complaints.forget(paths.CLUSTER_ID)
            return True
        error = ValueError(
            "it is not the one of the start, so these znodes were lost or are another cluster's; what was known stays. Bring the former "
            "ones back, or restart the broker (it keeps the logs of topics that are not known, renamed)"
        )
        self._complaints.report(paths.CLUSTER_ID, -1 if stat is None else stat.czxid, error)
        await self._coordination.exists(paths.CLUSTER_ID, watch=lambda _event: self._mark_everything())
        return False

    async def _children(self, path: str, stale: Stale) -> list[str]:
        try:
            return await self._coordination.children(path, watch=self._mark(stale))
        except NoNode:
            # The list was removed. Reading what is not there sets no watch; asking whether it exists does.
            await self._coordination.exists(path, watch=self._mark(stale))
            return []

    async def _read_controller(self) -> int:
        watch = self._mark(CONTROLLER)
        if await self._coordination.exists(paths.CONTROLLER, watch=watch) is None:
            return -1
        try:
            data, stat = await self._coordination.get(paths.CONTROLLER)
        except NoNode:
            return -1
        try:
            return decode_controller(data)
        except ValueError as error:
            self._complaints.report(paths.CONTROLLER, stat.mzxid, error)
            return self.newest.controller_id

    async def _read_brokers(self) -> dict[int, BrokerState]:
        brokers: dict[int, BrokerState] = {}
        children = await self._children(paths.BROKER_IDS, BROKERS)
        # No data watch: a registration is written once, and a new life of the broker is a new child.
        registered = await get_all(self._coordination, [f"{paths.BROKER_IDS}/{child}" for child in children])
        for child, found in zip(children, registered, strict=True):
            if found is None:
                continue
            stat = found.stat
            try:
                node_id = decode_broker_id(child)
                broker = BrokerState.decode(node_id, found.data, epoch=stat.czxid)
            except ValueError as error:
                self._complaints.report(f"{paths.BROKER_IDS}/{child}", stat.mzxid, error)
                last = next((one for one in self.newest.brokers.values() if str(one.node_id) == child and one.epoch == stat.czxid), None)
                if last is not None:
                    brokers[last.node_id] = last
            else:
                if not broker.is_starting:
                    brokers[node_id] = broker
        return dict(sorted(brokers.items()))

    async def _read_config(self, name: str) -> dict[str, str] | None:
        path = f"{paths.BROKER_CONFIGS}/{name}"
        self._unreadable_configs.discard(name)
        try:
            data, stat = await self._coordination.get(path, watch=self._mark(("config", name)))
        except NoNode:
            self._complaints.forget(path)
            return None
        last = self.newest.broker_configs.get(name)
        try:
            if name != DEFAULT_BROKER:
                decode_broker_id(name)
            configs = decode_configs(data)
        except ValueError as error:
            self._complaints.report(path, stat.mzxid, error)
            if last is None:
                self._unreadable_configs.add(name)
            return None if last is None else dict(last)
        try:
            validate_dynamic_broker_values(configs)
        except InvalidConfig as error:
            self._complaints.report(path, stat.mzxid, error)
            return dict(last) if last is not None else sound_options(configs, validate_dynamic_broker_values)
        self._complaints.forget(path)
        return configs
