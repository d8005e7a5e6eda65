"""From a frame to its handler, and from what the handler returns to the answer; and the gate, which every request passes (`admit`).

A request that a lane takes does not come by here: it looks like one that did, and was admitted with that (`session`).

A mistake of ours in a handler closes one connection with a traceback in the log, and harms nothing else; lanes do the same for theirs.
A request for an API or a version that is not answered closes the connection, as in Kafka; only ApiVersions is answered in any version.
"""

import logging
from collections.abc import Coroutine, Iterable, Mapping
from inspect import iscoroutine
from typing import Any

from millstream.broker.network.api import Api, Handler, Reply, Request, api_of
from millstream.broker.network.connection import Connection, PendingReply
from millstream.broker.network.session import Session
from millstream.broker.tasks import Spawn
from millstream.errors import MalformedFrame
from millstream.wire.api import ApiKey
from millstream.wire.frames import read_request_header

logger = logging.getLogger(__name__)


def admit(session: Session, api: Api, version: int) -> None:
    """Raise unless the broker takes a request for the API, in this version, from this client. Access rules for APIs belong here.

    What the client may do with a topic is another question (`cluster.topic_access`).
    """
    if not api.lowest <= version <= api.highest and api.key != ApiKey.API_VERSIONS:
        client = f"client id {session.client_id!r}, software {session.software_name} {session.software_version}"
        raise MalformedFrame(f"{api.key.name} version {version}: this broker answers {api.lowest} to {api.highest} ({client})")


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
        api, handler = route
        session = connection.session
        if session.client_id != header.client_id:
            session = connection.identify(session._replace(client_id=header.client_id))
        admit(session, api, header.api_version)
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
