"""Who waits for what: one-shot watches on znodes.

A data watch sees CREATED, CHANGED and DELETED of its znode, a child watch CHILDREN and DELETED. A deletion fires both kinds, and a
watcher that is in both is called once. A watcher is any hashable callable; registering it twice is registering it once, as in ZooKeeper's
server.
"""

from collections import defaultdict
from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from millstream.zookeeper.acl import Acl


class WatchKind(Enum):
    """What happened to a watched znode; the values are ZooKeeper's."""

    CREATED = 1
    DELETED = 2
    CHANGED = 3
    CHILDREN = 4


class WatchEvent(NamedTuple):
    """One change of one znode."""

    kind: WatchKind
    path: str


Watcher = Callable[[WatchEvent, Acl], None]
"""Called with the event and the access list of its znode: a watcher that may not read the znode must not pass it on."""


class WatchTable:
    """Data and child watches by path, and by watcher so that one who leaves is forgotten."""

    def __init__(self) -> None:
        self._data: dict[str, dict[Watcher, None]] = {}
        self._children: dict[str, dict[Watcher, None]] = {}
        self._paths: defaultdict[Watcher, set[str]] = defaultdict(set)

    def __len__(self) -> int:
        return sum(map(len, self._data.values())) + sum(map(len, self._children.values()))

    def add_data_watch(self, path: str, watcher: Watcher) -> None:
        """Wait for the znode to come, change or go."""
        self._data.setdefault(path, {})[watcher] = None
        self._paths[watcher].add(path)

    def add_child_watch(self, path: str, watcher: Watcher) -> None:
        """Wait for a child to come or go."""
        self._children.setdefault(path, {})[watcher] = None
        self._paths[watcher].add(path)

    def count_of(self, watcher: Watcher) -> int:
        """On how many paths the watcher waits."""
        return len(self._paths.get(watcher, ()))

    def trigger(self, event: WatchEvent, acl: Acl) -> None:
        """Call, once each, everyone who waits for this, in the order in which they came; they wait no longer."""
        kind, path = event
        watchers: dict[Watcher, None] = {}
        if kind is not WatchKind.CHILDREN:
            watchers |= self._data.pop(path, {})
        if kind is WatchKind.CHILDREN or kind is WatchKind.DELETED:
            watchers |= self._children.pop(path, {})
        for watcher in watchers:
            self._forget_path(watcher, path)
            watcher(event, acl)

    def forget(self, watcher: Watcher) -> None:
        """The watcher has left."""
        for path in self._paths.pop(watcher, ()):
            for table in (self._data, self._children):
                waiting = table.get(path)
                if waiting is not None:
                    waiting.pop(watcher, None)
                    if not waiting:
                        del table[path]

    def _forget_path(self, watcher: Watcher, path: str) -> None:
        if watcher in self._data.get(path, ()) or watcher in self._children.get(path, ()):
            return
        paths = self._paths.get(watcher)
        if paths is not None:
            paths.discard(path)
            if not paths:
                del self._paths[watcher]
