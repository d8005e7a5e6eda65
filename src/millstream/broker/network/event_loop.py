"""asyncio's event loop, with a selector that calls the sockets of clients by itself.

asyncio turns every ready socket into a handle, a context and a turn of its queue, which costs a broker of small requests a third of its
time. Here the sockets of connections are called straight from the poll; all else (the listener, threads, timers, tasks) goes through
asyncio as ever. It is a selector like others, so nothing of asyncio is replaced:

    epoll of ours: sockets of connections  ->  called at once
                   asyncio's own epoll     ->  asked only when it has something, and handed to asyncio

The callbacks run inside the loop's turn, on its thread, so `get_running_loop`, `call_soon` and `call_later` work in them as anywhere. In
another loop, such as a test's, `events_of` gives the loop itself: the same four methods, the ordinary way.
"""

import asyncio
import logging
import select
from collections.abc import Callable, Mapping
from selectors import BaseSelector, EpollSelector, SelectorKey
from typing import Any, Final, Protocol

logger = logging.getLogger(__name__)

_NOT_OUT: Final = ~select.EPOLLOUT
_NOT_IN: Final = ~select.EPOLLIN
MAX_EVENTS: Final = 1024
"""So many sockets are called before asyncio gets its turn."""


class Events(Protocol):
    """Who calls back when a socket is ready: an event loop, or the selector of this module."""

    def add_reader(self, descriptor: int, callback: Callable[[], None], /) -> object:
        """Call back whenever there is something to read."""

    def remove_reader(self, descriptor: int, /) -> object:
        """Do so no longer."""

    def add_writer(self, descriptor: int, callback: Callable[[], None], /) -> object:
        """Call back whenever there is room to write."""

    def remove_writer(self, descriptor: int, /) -> object:
        """Do so no longer."""


class DirectSelector(BaseSelector):
    """A selector that calls some sockets by itself, and leaves the others to asyncio."""

    def __init__(self) -> None:
        self._ordinary = EpollSelector()
        self._ordinary_descriptor = self._ordinary.fileno()
        self._epoll = select.epoll()
        self._epoll.register(self._ordinary_descriptor, select.EPOLLIN)
        self._readers: dict[int, Callable[[], None]] = {}
        self._writers: dict[int, Callable[[], None]] = {}
        self._watched: set[int] = set()

    # --- the sockets of clients

    def add_reader(self, descriptor: int, callback: Callable[[], None]) -> None:
        self._readers[descriptor] = callback
        self._watch(descriptor)

    def remove_reader(self, descriptor: int) -> None:
        if self._readers.pop(descriptor, None) is not None:
            self._watch(descriptor)

    def add_writer(self, descriptor: int, callback: Callable[[], None]) -> None:
        self._writers[descriptor] = callback
        self._watch(descriptor)

    def remove_writer(self, descriptor: int) -> None:
        if self._writers.pop(descriptor, None) is not None:
            self._watch(descriptor)

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        """Wait, call the sockets of clients that are ready, and return the others."""
        ordinary: list[tuple[SelectorKey, int]] = []
        readers, writers = self._readers, self._writers
        for descriptor, event in self._epoll.poll(timeout, MAX_EVENTS):
            if descriptor == self._ordinary_descriptor:
                ordinary = self._ordinary.select(0)
                continue
            # An error or a hang-up is reported to both. A socket that the callback of another has closed is in neither.
            if event & _NOT_OUT and (callback := readers.get(descriptor)) is not None:
                _call(callback)
            if event & _NOT_IN and (callback := writers.get(descriptor)) is not None:
                _call(callback)
        return ordinary

    def _watch(self, descriptor: int) -> None:
        mask = (select.EPOLLIN if descriptor in self._readers else 0) | (select.EPOLLOUT if descriptor in self._writers else 0)
        if not mask:
            self._watched.discard(descriptor)
            self._epoll.unregister(descriptor)
        elif descriptor in self._watched:
            self._epoll.modify(descriptor, mask)
        else:
            self._watched.add(descriptor)
            self._epoll.register(descriptor, mask)

    # --- asyncio's way

    def register(self, fileobj: Any, events: int, data: Any = None) -> SelectorKey:
        return self._ordinary.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> SelectorKey:
        return self._ordinary.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> SelectorKey:
        return self._ordinary.modify(fileobj, events, data)

    def get_map(self) -> Mapping[Any, SelectorKey]:
        return self._ordinary.get_map()

    def close(self) -> None:
        self._epoll.close()
        self._ordinary.close()


class BrokerLoop(asyncio.SelectorEventLoop):
    """An event loop with this selector."""

    def __init__(self) -> None:
        self.direct = DirectSelector()
        super().__init__(self.direct)


def events_of(loop: asyncio.AbstractEventLoop) -> Events:
    """What calls sockets with the least work: the selector of our own loop, or the loop itself."""
    return loop.direct if isinstance(loop, BrokerLoop) else loop


def _call(callback: Callable[[], None]) -> None:
    try:
        callback()
    except Exception:
        # As asyncio does with a callback of its own: logged, and no harm to others.
        logger.exception("the callback of a connection failed")
