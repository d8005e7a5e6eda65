"""The pages by HTTP: `/metrics`, `/health`, `/ready`, and what there is at `/`. A thread per connection (`connections`)."""

import logging
import socket
import sys
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from millstream.monitoring.connections import Connections
from millstream.monitoring.publisher import Page, Publisher

logger = logging.getLogger(__name__)

MAX_CONNECTIONS: Final = 64
IDLE_S: Final = 120
"""Longer than scrapes are apart: Prometheus keeps its connection."""
_TEXT: Final = "text/plain; charset=utf-8"
_INDEX: Final = Page(200, _TEXT, b"/metrics  for Prometheus\n/health   200 while the broker runs\n/ready    200 while it serves\n")


class MetricsServer(ThreadingHTTPServer):
    """Serves the pages of a publisher on a socket that already listens."""

    daemon_threads = True

    def __init__(self, listener: socket.socket, publisher: Publisher) -> None:
        address = listener.getsockname()
        super().__init__(address[:2], _PageRequest, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self.publisher = publisher
        self.connections = Connections(MAX_CONNECTIONS)

    def process_request(self, request: "socket.socket | tuple[bytes, socket.socket]", client_address: object) -> None:
        """Begin a thread, if there is a place for one."""
        assert isinstance(request, socket.socket)
        if not self.connections.admit(request):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            # No thread could be started, so there is none that would leave.
            self.connections.leave(request)
            raise

    def process_request_thread(self, request: "socket.socket | tuple[bytes, socket.socket]", client_address: object) -> None:
        """In the thread: answer until the client goes."""
        assert isinstance(request, socket.socket)
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.connections.leave(request)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went in the middle of an answer is nothing to report; a page that cannot be written is."""
        if not isinstance(sys.exception(), OSError):
            logger.exception("a page could not be shown to %s", client_address)

    def page(self, path: str, *, compressed: bool) -> Page:
        """What is at a path."""
        match path:
            case "/metrics":
                return self.publisher.metrics(compressed=compressed)
            case "/health":
                return self.publisher.health()
            case "/ready":
                return self.publisher.ready()
            case "/":
                return _INDEX
            case _:
                return Page(404, _TEXT, b"there is /metrics, /health and /ready\n")


class _PageRequest(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Of a request that says nothing of its version, or is none: it gets an answer with a status, by which it is known as one of HTTP.
    default_request_version = "HTTP/1.0"
    server_version = "Millstream"
    sys_version = ""
    timeout = IDLE_S
    server: MetricsServer

    def do_GET(self) -> None:
        self.server.connections.note_request(self.connection)
        try:
            self._answer()
        finally:
            self.server.connections.note_answer(self.connection)

    do_HEAD = do_GET  # noqa: N815 -- the standard library's name

    def _answer(self) -> None:
        page = self.server.page(self.path.partition("?")[0], compressed="gzip" in self.headers.get("Accept-Encoding", ""))
        self.send_response(HTTPStatus(page.status))
        self.send_header("Content-Type", page.content_type)
        self.send_header("Content-Length", str(len(page.body)))
        if page.is_compressed:
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(page.body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the name is the standard library's
        """Scrapes are not worth a line."""
