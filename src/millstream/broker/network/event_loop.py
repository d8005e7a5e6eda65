"""asyncio's event loop, with a selector that calls sockets by itself.

asyncio turns every ready socket into a handle, a context and a turn of its queue, which costs a broker of small requests a third of its
time. Here whatever is watched with `add_reader` and `add_writer` is called straight from the poll; all else (the listener, transports,
threads, timers, tasks) goes through asyncio as ever. It is a selector like others, so nothing of asyncio is replaced:

    epoll of ours: sockets of `add_reader`  ->  called at once, and polled again
                   asyncio's own epoll      ->  asked only when it has something, and handed to asyncio

asyncio gets its turn when there is something for it: its own sockets (by one of which threads call), the timeout that it gave, or a
callback or timer that was added meanwhile.

The callbacks run inside the loop's turn, on its thread, so `get_running_loop`, `call_soon` and `call_later` work in them as anywhere. What
is to happen when all sockets of a turn have been called (`end_of_turn`) needs no handle either. Code that uses it works on any loop, such
as a test's: there the methods of the same names are asyncio's own.
"""

import asyncio
import logging
import select
from collections.abc import Callable, Mapping
from contextvars import Context
from functools import partial
from selectors import BaseSelector, EpollSelector, SelectorKey
from time import monotonic
from typing import Any, Final, TypeVarTuple

logger = logging.getLogger(__name__)

_NOT_OUT: Final = ~select.EPOLLOUT
_NOT_IN: Final = ~select.EPOLLIN
_FAILED: Final = "the callback of a connection failed"
"""As asyncio does with a callback of its own: logged, and no harm to others. Caught where it is called, which saves a call per socket."""
MAX_EVENTS: Final = 1024
"""So many sockets are called before asyncio gets its turn."""
ENDS_OF_TURN: Final = 2
"""What is appended at the end of a turn has readers that look for it at its end: they need not wait for another poll."""

Ts = TypeVarTuple("Ts")
Callback = Callable[[], object]


class DirectSelector(BaseSelector):
    """A selector that calls some sockets by itself, and leaves the others to asyncio."""

    def __init__(self) -> None:
        self._ordinary = EpollSelector()
        self._ordinary_descriptor = self._ordinary.fileno()
        self._epoll = select.epoll()
        self._epoll.register(self._ordinary_descriptor, select.EPOLLIN)
        self._readers: dict[int, Callback] = {}
        self._writers: dict[int, Callback] = {}
        self._watched: set[int] = set()
        self._at_end_of_turn: list[Callback] = []
        self._ready_count = 0
        self.is_asyncio_called = False
        """Whether asyncio has to look what to do, and when: a callback or a timer was added."""

    # --- sockets that are called

    def add_reader(self, descriptor: int, callback: Callback) -> None:
        self._readers[descriptor] = callback
        self._watch(descriptor)

    def remove_reader(self, descriptor: int) -> bool:
        return self._remove(descriptor, self._readers)

    def add_writer(self, descriptor: int, callback: Callback) -> None:
        self._writers[descriptor] = callback
        self._watch(descriptor)

    def remove_writer(self, descriptor: int) -> bool:
        return self._remove(descriptor, self._writers)

    def call_at_end_of_turn(self, callback: Callback) -> None:
        """Call back when the sockets that are ready have been called."""
        self._at_end_of_turn.append(callback)

    def is_turn_shared(self) -> bool:
        """Whether several sockets are ready in this turn, and all of them are called before it ends."""
        return self._ready_count > 1

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        """Call the sockets that are ready and are called from here, until asyncio has something to do, and return the others."""
        until = monotonic() + timeout if timeout else None
        self.is_asyncio_called = timeout == 0
        while True:
            ordinary = self._poll(timeout)
            if ordinary or self.is_asyncio_called:
                return ordinary
            if until is not None:
                timeout = until - monotonic()
                if timeout <= 0:
                    return ordinary

    def _poll(self, timeout: float | None) -> list[tuple[SelectorKey, int]]:
        """Wait once, and call what is ready."""
        ordinary: list[tuple[SelectorKey, int]] = []
        readers, writers = self._readers, self._writers
        ready = self._epoll.poll(0 if self._at_end_of_turn else timeout, MAX_EVENTS)
        self._ready_count = len(ready)
        for descriptor, event in ready:
            if descriptor == self._ordinary_descriptor:
                ordinary = self._ordinary.select(0)
                continue
            # An error or a hang-up is reported to both. A socket that the callback of another has closed is in neither.
            try:
                if event & _NOT_OUT and (callback := readers.get(descriptor)) is not None:
                    callback()
                if event & _NOT_IN and (callback := writers.get(descriptor)) is not None:
                    callback()
            except Exception:
                logger.exception(_FAILED)
        # What asyncio calls later shares no turn: sockets are called before it would end, and one of them may be called twice.
        self._ready_count = 0
        for _ in range(ENDS_OF_TURN):
            if not self._at_end_of_turn:
                break
            callbacks, self._at_end_of_turn = self._at_end_of_turn, []
            for callback in callbacks:
                try:
                    callback()
                except Exception:
                    logger.exception(_FAILED)
        return ordinary

    def _remove(self, descriptor: int, callbacks: dict[int, Callback]) -> bool:
        is_there = callbacks.pop(descriptor, None) is not None
        if is_there:
            self._watch(descriptor)
        return is_there

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

    def call_soon(self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None) -> asyncio.Handle:
        self.direct.is_asyncio_called = True
        return super().call_soon(callback, *args, context=context)

    def call_at(self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None) -> asyncio.TimerHandle:
        self.direct.is_asyncio_called = True
        return super().call_at(when, callback, *args, context=context)

    def add_reader(self, fd: Any, callback: Callable[[*Ts], Any], *args: *Ts) -> None:
        self.direct.add_reader(_descriptor(fd), partial(callback, *args) if args else callback)

    def remove_reader(self, fd: Any) -> bool:
        # asyncio adds its own (`sock_recv`) by another method, and removes them by this one.
        return self.direct.remove_reader(_descriptor(fd)) or super().remove_reader(fd)

    def add_writer(self, fd: Any, callback: Callable[[*Ts], Any], *args: *Ts) -> None:
        self.direct.add_writer(_descriptor(fd), partial(callback, *args) if args else callback)

    def remove_writer(self, fd: Any) -> bool:
        return self.direct.remove_writer(_descriptor(fd)) or super().remove_writer(fd)


def end_of_turn(loop: asyncio.AbstractEventLoop) -> Callable[[Callback], object]:
    """What calls back, with the least work, when the sockets that are ready now have been called."""
    return loop.direct.call_at_end_of_turn if isinstance(loop, BrokerLoop) else loop.call_soon


def is_turn_shared(loop: asyncio.AbstractEventLoop) -> Callable[[], bool]:
    """What says whether several sockets are ready in this turn of the loop; on loops that do not know, none are."""
    return loop.direct.is_turn_shared if isinstance(loop, BrokerLoop) else lambda: False


def _descriptor(watched: Any) -> int:
    """As asyncio, the loop takes a descriptor or whatever has one."""
    return watched if isinstance(watched, int) else watched.fileno()
