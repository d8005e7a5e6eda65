"""Sockets that break on purpose: the n-th call of a kind fails, before or after the bytes have gone through.

A producer that sends through them loses requests before the broker has read them, and answers after the broker has done what was asked.
"""

import socket
from typing import Any

from millstream.address import Address
from millstream.client.connection import open_tcp


class Breaks:
    """Counts the calls of all sockets that it opens, and breaks the connection at some of them."""

    def __init__(self, *, sends: set[int] = frozenset(), receives: set[int] = frozenset()) -> None:  # type: ignore[assignment]
        self._sends = sends
        self._receives = receives
        self.sent = self.received = self.broken = 0

    def open(self, address: Address, timeout_s: float) -> socket.socket:
        """Has the shape of `OpenSocket`."""
        return CuttingSocket(open_tcp(address, timeout_s), self)  # type: ignore[return-value]  # what a connection uses of one

    def breaks_at_send(self) -> bool:
        self.sent += 1
        return self._count(self.sent in self._sends)

    def breaks_at_receive(self) -> bool:
        self.received += 1
        return self._count(self.received in self._receives)

    def _count(self, is_broken: bool) -> bool:
        self.broken += is_broken
        return is_broken


class CuttingSocket:
    """A socket whose connection ends when its breaks say so."""

    def __init__(self, real: socket.socket, breaks: Breaks) -> None:
        self._real = real
        self._breaks = breaks

    def sendmsg(self, buffers: Any) -> int:
        if self._breaks.breaks_at_send():
            # Half of the request goes out: the broker must not act on it.
            whole = b"".join(bytes(buffer) for buffer in buffers)
            self._real.sendall(whole[: len(whole) // 2])
            self._real.close()
            raise ConnectionResetError(104, "cut while sending")
        return self._real.sendmsg(buffers)

    def recv_into(self, buffer: Any) -> int:
        received = self._real.recv_into(buffer)
        if self._breaks.breaks_at_receive():
            self._real.close()
            raise ConnectionResetError(104, "cut before the answer was read")
        return received

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)
