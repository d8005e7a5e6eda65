"""An HTTP server on the loopback that answers what a test wants, and remembers what it was asked."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True)
class Asked:
    """One request."""

    method: str
    path: str
    headers: dict[str, str]
    body: object


Answer = tuple[int, object]


@dataclass
class ScriptedServer:
    """Where it listens, what it was asked, over how many connections."""

    url: str = ""
    asked: list[Asked] = field(default_factory=list)
    connections: int = 0

    @property
    def address(self) -> str:
        return self.url.removeprefix("http://")


@contextmanager
def scripted_server(answer: Callable[[Asked], Answer], *, closes: bool = False) -> Iterator[ScriptedServer]:
    """Serve while the block runs; bytes are answered as they are, everything else as JSON; `closes` ends each connection silently."""
    script = ScriptedServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            super().setup()
            script.connections += 1

        def handle_any(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            asked = Asked(self.command, self.path, {name.lower(): value for name, value in self.headers.items()}, body)
            script.asked.append(asked)
            status, document = answer(asked)
            content = document if isinstance(document, bytes) else json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
            # Without saying so: as a server does that was idle for too long or restarted.
            self.close_connection = closes

        do_GET = do_POST = do_PUT = do_DELETE = handle_any  # noqa: N815 -- http.server finds them by these names

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- its name there
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    script.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield script
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
