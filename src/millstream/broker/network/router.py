"""From a frame to its handler, and from what the handler returns to the answer.

A mistake of ours in a handler closes one connection with a traceback in the log, and harms nothing else; the short ways, which do not
come by here, do the same for theirs.
A request for an API or a version that is not answered closes the connection, as in Kafka; only ApiVersions is answered in any version.
"""

import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from inspect import iscoroutine
from typing import Any

from millstream.broker.network.api import Api, Handler, Reply, Request, api_of
from millstream.broker.network.connection import Connection, PendingReply
from millstream.errors import MalformedFrame
from millstream.wire.api import ApiKey
from millstream.wire.frames import read_request_header

logger = logging.getLogger(__name__)

Spawn = Callable[[Coroutine[Any, Any, None]], None]


class Router:
    """Knows every handler."""

    def __init__(self, handlers: Iterable[Handler], *, spawn: Spawn) -> None:
        self._routes: dict[int, tuple[Api, Handler]] = {api_of(handler).key: (api_of(handler), handler) for handler in handlers}
        self._spawn = spawn

    def handle(self, connection: Connection, frame: memoryview) -> None:
        """Handle one request of a connection."""
        header = read_request_header(frame)
        route = self._routes.get(header.api_key)
        if route is None:
            raise MalformedFrame(f"request with the API key {header.api_key}, which this broker does not answer")
        (key, lowest, highest, _), handler = route
        if not lowest <= header.api_version <= highest and key != ApiKey.API_VERSIONS:
            raise MalformedFrame(f"{key.name} version {header.api_version}: this broker answers {lowest} to {highest}")
        request = Request(connection, header, frame)
        try:
            reply = handler(request)
            if reply is None:
                return
            if type(reply) is tuple:
                connection.reply(reply)
            elif iscoroutine(reply):
                # It has been decoded; the bytes need not be kept, nor are they good any longer.
                request.frame = memoryview(b"")
                self._spawn(self._finish(request, reply, request.defer()))
            elif isinstance(reply, Mapping):
                connection.reply((request.encode(reply),))
            else:
                connection.reply(reply)  # type: ignore[arg-type]  # iscoroutine does not narrow
        except MalformedFrame:
            raise
        except Exception:
            self._fail(request)

    async def _finish(self, request: Request, work: Coroutine[Any, Any, Reply], pending: PendingReply) -> None:
        try:
            reply = await work
            assert isinstance(reply, Mapping), "a handler that waits answers with fields"
            pending.complete((request.encode(reply),))
        except MalformedFrame as error:
            request.connection.close(str(error))
        except Exception:
            self._fail(request)

    def _fail(self, request: Request) -> None:
        logger.exception("request %s version %d from %s failed", ApiKey(request.api_key).name, request.api_version, request.connection.peer)
        request.connection.close("the broker failed on its request")
