"""Keeps a broker's `ClusterView` true: watches the znodes, reads again what changed, swaps the view.

One data watch per topic and per config, one children watch per list (ZooKeeper's watches fire once and are set again by the next read). A
watch only marks what is stale and wakes `run`, which reads it and makes a new view. Before the new view is shown to anybody, `on_change`
has been awaited with it: a topic that clients can see has its logs open.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace

from penstock.coordination import paths
from penstock.coordination.cluster_view import DEFAULT_BROKER, BrokerState, ClusterView, TopicState
from penstock.coordination.errors import NoNode
from penstock.coordination.interface import Coordination, SessionState, WatchEvent

Stale = tuple[str, str]
"""What to read again: the kind of thing, and which one of the kind ('' for the list)."""

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
            await self._refresh()

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
            view = await self._read(stale)
            if view != self.view:
                await self._on_change(view)
                self.view = view
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
        for name in sorted(configs):
            view = replace(view, broker_configs={**view.broker_configs, name: await self._read_config(name)})
        return view

    async def _read_controller(self) -> int:
        watch = self._mark(("controller", ""))
        if await self._coordination.exists(paths.CONTROLLER, watch=watch) is None:
            return -1
        try:
            data, _ = await self._coordination.get(paths.CONTROLLER)
        except NoNode:
            return -1
        return int(json.loads(data)["broker_id"])

    async def _read_brokers(self) -> dict[int, BrokerState]:
        brokers: dict[int, BrokerState] = {}
        for child in await self._coordination.children(paths.BROKER_IDS, watch=self._mark(("brokers", ""))):
            try:
                data, stat = await self._coordination.get(paths.broker(int(child)), watch=self._mark(("brokers", "")))
            except NoNode:
                continue
            brokers[int(child)] = BrokerState.decode(int(child), data, epoch=stat.czxid)
        return dict(sorted(brokers.items()))

    async def _read_topic(self, name: str) -> TopicState | None:
        try:
            data, stat = await self._coordination.get(paths.topic(name), watch=self._mark(("topic", name)))
        except NoNode:
            return None
        return TopicState.decode(name, data, version=stat.version)

    async def _read_config(self, name: str) -> dict[str, str]:
        try:
            path = paths.broker_config(None if name == DEFAULT_BROKER else int(name))
            data, _ = await self._coordination.get(path, watch=self._mark(("config", name)))
        except NoNode:
            return {}
        configs: dict[str, str] = json.loads(data)
        return configs
