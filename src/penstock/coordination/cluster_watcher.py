"""Keeps a broker's `ClusterView` true: watches the znodes, reads again what changed, swaps the view.

One data watch per topic and per config, one children watch per list (ZooKeeper's watches fire once and are set again by the next read). A
watch only marks what is stale and wakes `run`, which reads it and makes a new view. Before the new view is shown to anybody, `on_change`
has been awaited with it: a topic that clients can see has its logs open.

Other programs can write to the tree. A znode that makes no sense is told in the log and counts as missing; it does not end the broker.
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace

from penstock.coordination import paths
from penstock.coordination.cluster_view import BrokerState, ClusterView, TopicState, decode_configs
from penstock.coordination.errors import ConnectionLost, NoNode, SessionExpired
from penstock.coordination.interface import Coordination, SessionState, WatchEvent

Stale = tuple[str, str]
"""What to read again: the kind of thing, and which one of the kind ('' for the list)."""

logger = logging.getLogger(__name__)

_NONSENSE = (ValueError, KeyError, TypeError, AttributeError)
"""What comes up when JSON is none, or lacks something."""
_LISTS: frozenset[Stale] = frozenset({("brokers", ""), ("topics", ""), ("configs", ""), ("controller", "")})

ViewListener = Callable[[ClusterView], Awaitable[None]]
ViewPredicate = Callable[[ClusterView], bool]


class ClusterWatcher:
    """Owns the current view."""

    def __init__(self, coordination: Coordination, *, on_change: ViewListener) -> None:
        self.view = ClusterView()
        self._coordination = coordination
        self._on_change = on_change
        self._stale: set[Stale] = set()
        self._wake = asyncio.Event()
        self._waiting: list[tuple[ViewPredicate, asyncio.Future[None]]] = []
        self._rounds_begun = 0
        self._rounds_done = 0

    async def load(self) -> None:
        """Read everything for the first time."""
        data, _ = await self._coordination.get(paths.CLUSTER_ID)
        self.view = replace(self.view, cluster_id=data.decode())
        self._coordination.add_session_listener(self._session_changed)
        self._stale = set(_LISTS)
        await self._refresh()

    async def run(self) -> None:
        """Follow the changes until cancelled."""
        while True:
            await self._wake.wait()
            try:
                await self._refresh()
            except (ConnectionLost, SessionExpired) as error:
                logger.info("the view of the cluster is read again when ZooKeeper is back: %s", error)

    async def until(self, predicate: ViewPredicate, *, timeout_ms: int) -> bool:
        """Wait until the view satisfies `predicate`; False when the time ran out first."""
        if predicate(self.view):
            return True
        future = asyncio.get_running_loop().create_future()
        entry = (predicate, future)
        self._waiting.append(entry)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await future
        except TimeoutError:
            return predicate(self.view)
        finally:
            if entry in self._waiting:
                self._waiting.remove(entry)
        return True

    async def catch_up(self, stale: Stale, *, timeout_ms: int) -> bool:
        """Wait until the view has in it what was written to this before the call; False when the time ran out first."""
        begun = self._rounds_begun
        self._stale.add(stale)
        self._wake.set()
        return await self.until(lambda _view: self._rounds_done > begun, timeout_ms=timeout_ms)

    def _session_changed(self, state: SessionState) -> None:
        # Watches do not outlive a connection: whatever happened meanwhile was not told, so everything is read again.
        if state is SessionState.CONNECTED:
            self._stale |= _LISTS | {("topic", name) for name in self.view.topics} | {("config", name) for name in self.view.broker_configs}
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
            view = await self._read(stale)
            if view != self.view:
                await self._on_change(view)
                self.view = view
            self._rounds_done = self._rounds_begun
            for predicate, future in self._waiting:
                if not future.done() and predicate(view):
                    future.set_result(None)

    async def _read(self, stale: set[Stale]) -> ClusterView:
        view = self.view
        if ("controller", "") in stale:
            view = replace(view, controller_id=await self._read_controller())
        if ("brokers", "") in stale:
            view = replace(view, brokers=await self._read_brokers())
        topics = {name for kind, name in stale if kind == "topic"}
        if ("topics", "") in stale:
            names = set(await self._coordination.children(paths.TOPICS, watch=self._mark(("topics", ""))))
            topics |= names ^ set(view.topics)
        if topics:
            view = view.with_topics({name: await self._read_topic(name) for name in sorted(topics)})
        configs = {name for kind, name in stale if kind == "config"}
        if ("configs", "") in stale:
            names = set(await self._coordination.children(paths.BROKER_CONFIGS, watch=self._mark(("configs", ""))))
            configs |= names ^ set(view.broker_configs)
        if configs:
            read = {name: await self._read_config(name) for name in sorted(configs)}
            merged = {**view.broker_configs, **read}
            view = replace(view, broker_configs={name: values for name, values in merged.items() if values is not None})
        return view

    async def _read_controller(self) -> int:
        watch = self._mark(("controller", ""))
        if await self._coordination.exists(paths.CONTROLLER, watch=watch) is None:
            return -1
        try:
            data, _ = await self._coordination.get(paths.CONTROLLER)
        except NoNode:
            return -1
        try:
            return int(json.loads(data)["broker_id"])
        except _NONSENSE as error:
            _tell(paths.CONTROLLER, error)
            return -1

    async def _read_brokers(self) -> dict[int, BrokerState]:
        brokers: dict[int, BrokerState] = {}
        for child in await self._coordination.children(paths.BROKER_IDS, watch=self._mark(("brokers", ""))):
            # No data watch: a registration is written once, and a new life of the broker is a new child.
            try:
                data, stat = await self._coordination.get(f"{paths.BROKER_IDS}/{child}")
                brokers[int(child)] = BrokerState.decode(int(child), data, epoch=stat.czxid)
            except NoNode:
                continue
            except _NONSENSE as error:
                _tell(f"{paths.BROKER_IDS}/{child}", error)
        return dict(sorted(brokers.items()))

    async def _read_topic(self, name: str) -> TopicState | None:
        try:
            data, stat = await self._coordination.get(paths.topic(name), watch=self._mark(("topic", name)))
        except NoNode:
            return None
        try:
            return TopicState.decode(name, data, version=stat.version)
        except _NONSENSE as error:
            _tell(paths.topic(name), error)
            return None

    async def _read_config(self, name: str) -> dict[str, str] | None:
        path = f"{paths.BROKER_CONFIGS}/{name}"
        try:
            data, _ = await self._coordination.get(path, watch=self._mark(("config", name)))
            return decode_configs(data)
        except NoNode:
            return None
        except _NONSENSE as error:
            _tell(path, error)
            return None


def _tell(path: str, error: Exception) -> None:
    logger.error("the znode %s makes no sense and is passed over: %r", path, error)
