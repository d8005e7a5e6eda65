"""Keeps a broker's `ClusterView` true: watches the znodes, reads again what changed, swaps the view.

One data watch per topic and per config, one children watch per list (ZooKeeper's watches fire once and are set again by the next read). A
watch only marks what is stale and wakes `run`, which reads it and makes a new view. Before the new view is shown, `on_change`
has been awaited with it: a topic that clients can see has its logs open.

Other programs can write to the tree. A znode that makes no sense is logged, once, and what it said before stays true; it does not
end the broker. A topic that never made sense is `unreadable`, which is not the same as missing: its logs are left alone. Of options that
make no sense, those that do are used. Of another tree than that of the start nothing is taken over: a ZooKeeper that lost its data knows no
topics, and that does not mean that they were all deleted.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from uuid import UUID

from millstream.coordination import paths
from millstream.coordination.cluster_view import (
    DEFAULT_BROKER,
    BrokerState,
    ClusterView,
    TopicState,
    decode_broker_id,
    decode_cluster_id,
    decode_configs,
    decode_controller,
)
from millstream.coordination.complaints import Complaints
from millstream.coordination.interface import Coordination, SessionState, WatchEvent
from millstream.errors import InvalidConfig
from millstream.options.validation import validate_dynamic_broker_values, validate_topic_overrides
from millstream.zookeeper.errors import NoNode, ZooKeeperError

Stale = tuple[str, str]
"""What to read again: the kind of thing, and which one of the kind ('' for the list)."""

logger = logging.getLogger(__name__)

_LISTS: frozenset[Stale] = frozenset({("brokers", ""), ("topics", ""), ("configs", ""), ("controller", "")})

ViewListener = Callable[[ClusterView], Awaitable[None]]
ViewPredicate = Callable[[ClusterView], bool]
OptionCheck = Callable[[Mapping[str, str]], None]


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
        self._complaints = Complaints()
        self._unreadable_topics: set[str] = set()
        self._unreadable_configs: set[str] = set()
        self._tree = -1
        """The transaction that created the cluster id: another tree of znodes has another."""

    async def load(self) -> None:
        """Read everything for the first time."""
        data, stat = await self._coordination.get(paths.CLUSTER_ID)
        self._tree = stat.czxid
        self.view = replace(self.view, cluster_id=decode_cluster_id(data))
        self._coordination.add_session_listener(self._session_changed)
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
        # Watches do not outlive a connection: whatever happened meanwhile fired none, so everything is read again.
        if state is SessionState.CONNECTED:
            self._mark_everything()

    def _mark_everything(self) -> None:
        self._stale |= _LISTS | {("topic", name) for name in self._watched_topics} | {("config", name) for name in self._watched_configs}
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
                view = await self._read(stale)
            except BaseException:
                self._stale |= stale
                raise
            if view != self.view:
                await self._on_change(view)
                self.view = view
            self._rounds_done = self._rounds_begun
            for predicate, future in self._waiting:
                if not future.done() and predicate(view):
                    future.set_result(None)

    @property
    def _watched_topics(self) -> set[str]:
        return set(self.view.topics) | self._unreadable_topics

    @property
    def _watched_configs(self) -> set[str]:
        return set(self.view.broker_configs) | self._unreadable_configs

    async def _read(self, stale: set[Stale]) -> ClusterView:
        view = self.view
        if not await self._is_same_tree():
            return view
        if ("controller", "") in stale:
            view = replace(view, controller_id=await self._read_controller())
        if ("brokers", "") in stale:
            view = replace(view, brokers=await self._read_brokers())
        topics = {name for kind, name in stale if kind == "topic"}
        if ("topics", "") in stale:
            topics |= self._came_or_went(await self._children(paths.TOPICS, ("topics", "")))
        if topics:
            read_topics = {name: await self._read_topic(name) for name in sorted(topics)}
            view = view.with_topics(self._without_borrowed_ids(read_topics))
        configs = {name for kind, name in stale if kind == "config"}
        if ("configs", "") in stale:
            configs |= set(await self._children(paths.BROKER_CONFIGS, ("configs", ""))) ^ self._watched_configs
        if configs:
            read = {name: await self._read_config(name) for name in sorted(configs)}
            merged = {**view.broker_configs, **read}
            view = replace(view, broker_configs={name: values for name, values in merged.items() if values is not None})
        return replace(view, unreadable_topics=frozenset(self._unreadable_topics))

    def _came_or_went(self, listed: list[str]) -> set[str]:
        """Which topics the list has and we do not, or the other way round. Mostly one came, among thousands."""
        known, unreadable = self.view.topics, self._unreadable_topics
        came = {name for name in listed if name not in known and name not in unreadable}
        has_lost_any = len(listed) - len(came) < len(known) + len(unreadable - known.keys())
        return came | (self._watched_topics.difference(listed) if has_lost_any else set())

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
        watch = self._mark(("controller", ""))
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
            return self.view.controller_id

    async def _read_brokers(self) -> dict[int, BrokerState]:
        brokers: dict[int, BrokerState] = {}
        for child in await self._children(paths.BROKER_IDS, ("brokers", "")):
            # No data watch: a registration is written once, and a new life of the broker is a new child.
            path = f"{paths.BROKER_IDS}/{child}"
            try:
                data, stat = await self._coordination.get(path)
            except NoNode:
                continue
            try:
                node_id = decode_broker_id(child)
                brokers[node_id] = BrokerState.decode(node_id, data, epoch=stat.czxid)
            except ValueError as error:
                self._complaints.report(path, stat.mzxid, error)
                last = next((one for one in self.view.brokers.values() if str(one.node_id) == child and one.epoch == stat.czxid), None)
                if last is not None:
                    brokers[last.node_id] = last
        return dict(sorted(brokers.items()))

    async def _read_topic(self, name: str) -> TopicState | None:
        path = paths.topic(name)
        self._unreadable_topics.discard(name)
        try:
            data, stat = await self._coordination.get(path, watch=self._mark(("topic", name)))
        except NoNode:
            self._complaints.forget(path)
            return None
        last = self.view.topics.get(name)
        try:
            topic = TopicState.decode(name, data, version=stat.version, created=stat.czxid)
            topic.check_follows(last)
            # An older version took more than one replica, and nothing copies records to the others.
            topic = replace(topic, partitions=tuple(partition.without_followers() for partition in topic.partitions))
        except ValueError as error:
            return self._keep_topic(name, stat.mzxid, error)
        try:
            validate_topic_overrides(topic.configs)
        except InvalidConfig as error:
            self._complaints.report(path, stat.mzxid, error)
            return replace(topic, configs=last.configs if last is not None else _sound(topic.configs, validate_topic_overrides))
        self._complaints.forget(path)
        return topic

    def _keep_topic(self, name: str, revision: int, error: Exception) -> TopicState | None:
        """The topic as it was; one of which nothing is known is unreadable."""
        self._complaints.report(paths.topic(name), revision, error)
        last = self.view.topics.get(name)
        if last is None:
            self._unreadable_topics.add(name)
        return last

    def _without_borrowed_ids(self, read: Mapping[str, TopicState | None]) -> dict[str, TopicState | None]:
        """Topics by name, less those whose id another topic has: who had it first keeps it."""
        found = dict(read)
        owners: dict[UUID, str] = {}

        def owner(topic_id: UUID, name: str) -> str:
            """Who has the id; the topics that were not read are not gone through: there may be thousands."""
            known = self.view.topics_by_id.get(topic_id)
            return known.name if known is not None and known.name not in read else owners.setdefault(topic_id, name)

        known_first = sorted(read.items(), key=lambda item: (item[0] not in self.view.topics, item[0]))
        for name, topic in known_first:
            if topic is not None and (other := owner(topic.topic_id, name)) != name:
                error = ValueError(f"topic_id is that of the topic {other!r}")
                last = self._keep_topic(name, topic.version, error)
                found[name] = last if last is not None and owner(last.topic_id, name) == name else None
        return found

    async def _read_config(self, name: str) -> dict[str, str] | None:
        path = f"{paths.BROKER_CONFIGS}/{name}"
        self._unreadable_configs.discard(name)
        try:
            data, stat = await self._coordination.get(path, watch=self._mark(("config", name)))
        except NoNode:
            self._complaints.forget(path)
            return None
        last = self.view.broker_configs.get(name)
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
            return dict(last) if last is not None else _sound(configs, validate_dynamic_broker_values)
        self._complaints.forget(path)
        return configs


def _sound(configs: Mapping[str, str], check: OptionCheck) -> dict[str, str]:
    """Those of the options that can be used; none, if they do not fit together."""
    found = {name: text for name, text in configs.items() if _passes(check, {name: text})}
    return found if _passes(check, found) else {}


def _passes(check: OptionCheck, configs: Mapping[str, str]) -> bool:
    try:
        check(configs)
    except InvalidConfig:
        return False
    return True
