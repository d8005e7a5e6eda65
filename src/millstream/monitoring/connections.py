"""The connections of the metrics' port: so many and no more, and the newest always has a place.

Whoever comes last is most likely to want an answer now: a scrape, a probe. So when all places are taken, the connection that has waited
longest for a next request is closed, as any server may do (clients connect again); only if all are being answered, the one whose answer
takes longest: its client does not read.
"""

import socket
import threading
from contextlib import suppress
from typing import Final

LEAVES_S: Final = 1.0
"""How long the thread of a connection that was closed may take to notice; the loop that accepts waits for it."""


class Connections:
    """Which connections there are, and which of them are being answered; used by all threads."""

    def __init__(self, most: int) -> None:
        self._places = threading.BoundedSemaphore(most)
        self._lock = threading.Lock()
        # Both in the order in which they began.
        self._waiting: dict[socket.socket, None] = {}
        self._answered: dict[socket.socket, None] = {}

    def admit(self, connection: socket.socket) -> bool:
        """Give a connection a place, at the cost of another one if need be; False if that does not make one free."""
        if not self._places.acquire(blocking=False):
            self._close_oldest()
            if not self._places.acquire(timeout=LEAVES_S):
                return False
        with self._lock:
            self._waiting[connection] = None
        return True

    def note_request(self, connection: socket.socket) -> None:
        """It is being answered from now on."""
        with self._lock:
            self._waiting.pop(connection, None)
            self._answered[connection] = None

    def note_answer(self, connection: socket.socket) -> None:
        """It waits for its next request from now on."""
        with self._lock:
            self._answered.pop(connection, None)
            self._waiting[connection] = None

    def leave(self, connection: socket.socket) -> None:
        """Its place is free: it is closed, and its thread ends."""
        with self._lock:
            self._waiting.pop(connection, None)
            self._answered.pop(connection, None)
        self._places.release()

    def _close_oldest(self) -> None:
        with self._lock:
            some = self._waiting or self._answered
            if not some:
                return
            oldest = next(iter(some))
            del some[oldest]
            # Its thread reads the end or fails to write, and leaves.
            with suppress(OSError):
                oldest.shutdown(socket.SHUT_RDWR)
