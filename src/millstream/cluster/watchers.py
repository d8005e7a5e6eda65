"""Who reads a partition and waits for more: a fetch session watches its partitions, instead of looking at all of them with each request.

A watcher is called once when there may be something new to read (`moved`) and then has to register again; so a reader that is never seen
again costs one call, not one per append. What only has to be mentioned in the next answer (`marked`) leaves it registered.

    appended    followers have something to read
    committed   consumers have something to read; followers are to learn the high watermark
    noted       the log start, the in-sync set or the replicas changed: to be mentioned or looked at with the next request
    changed     another role, another epoch, gone, a disk failed: everyone looks again
"""

from typing import Protocol


class Watcher(Protocol):
    """One reader of one partition."""

    def moved(self) -> None:
        """There may be something to read, or an error; it is no longer registered."""

    def marked(self) -> None:
        """The next answer has something to say; it stays registered."""


class Watchers:
    """The readers of one partition that have read everything."""

    __slots__ = ("_consumers", "_replicas")

    def __init__(self) -> None:
        self._consumers: dict[Watcher, None] = {}
        self._replicas: dict[Watcher, None] = {}

    def __len__(self) -> int:
        return len(self._consumers) + len(self._replicas)

    def add(self, watcher: Watcher, *, is_replica: bool) -> None:
        """Call the watcher when something moves."""
        (self._replicas if is_replica else self._consumers)[watcher] = None

    def remove(self, watcher: Watcher) -> None:
        """Do not call it any more; one that is not registered is fine."""
        self._consumers.pop(watcher, None)
        self._replicas.pop(watcher, None)

    def appended(self) -> None:
        """The log end moved."""
        if self._replicas:
            replicas, self._replicas = self._replicas, {}
            for watcher in replicas:
                watcher.moved()

    def committed(self) -> None:
        """The high watermark moved."""
        for watcher in self._replicas:
            watcher.marked()
        if self._consumers:
            consumers, self._consumers = self._consumers, {}
            for watcher in consumers:
                watcher.moved()

    def noted(self) -> None:
        """Something else changed that answers mention, or that decides what they contain."""
        for watcher in (*self._consumers, *self._replicas):
            watcher.marked()

    def changed(self) -> None:
        """Nothing that was known of the partition holds."""
        consumers, self._consumers = self._consumers, {}
        replicas, self._replicas = self._replicas, {}
        for watcher in (*consumers, *replicas):
            watcher.moved()
