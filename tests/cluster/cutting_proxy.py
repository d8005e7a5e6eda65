"""A proxy before a ZooKeeper that interrupts sessions: at once, or as soon as a client that has just come back asks for something."""

import contextlib
import socket
import struct
import threading

_PING_XID = -2


class CuttingProxy:
    """Forwards connections from a port of its own to `target`; one pair of threads for each."""

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._to_cut = 0
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def left_to_cut(self) -> int:
        """How many connections are still to be cut at their first request."""
        return self._to_cut

    def interrupt(self, *, again: int = 0) -> None:
        """Cut all connections now, and the next `again` ones at their first request after the handshake, which gets no answer."""
        with self._lock:
            self._to_cut = again
            connections = list(self._open)
        for connection in connections:
            _close(connection)

    def close(self) -> None:
        """Forward nothing any more."""
        _close(self._listener)
        self.interrupt()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._target)
            except OSError:
                return
            with self._lock:
                self._open |= {client, server}
            threading.Thread(target=self._forward_requests, args=(client, server), daemon=True).start()
            threading.Thread(target=self._forward_answers, args=(server, client), daemon=True).start()

    def _forward_requests(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError), client.makefile("rb") as stream:
            is_handshake = True
            while (head := stream.read(4)) and len(head) == 4:
                body = stream.read(struct.unpack(">i", head)[0])
                if not is_handshake and self._is_cut_here(body):
                    break
                is_handshake = False
                server.sendall(head + body)
        self._end(client, server)

    def _forward_answers(self, server: socket.socket, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while received := server.recv(65536):
                client.sendall(received)
        self._end(client, server)

    def _is_cut_here(self, request: bytes) -> bool:
        with self._lock:
            if self._to_cut == 0 or struct.unpack(">i", request[:4])[0] == _PING_XID:
                return False
            self._to_cut -= 1
            return True

    def _end(self, *connections: socket.socket) -> None:
        for connection in connections:
            _close(connection)
        with self._lock:
            self._open.difference_update(connections)


def _close(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
