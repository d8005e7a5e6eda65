"""From a frame to its handler, and from what the handler returns to the answer; and the gate, which every request passes (`admit`).

A request that a lane takes does not come by here: it looks like one that did, and was admitted with that (`session`).

A mistake of ours in a handler closes one connection with a traceback in the log, and harms nothing else; lanes do the same for theirs.
A request for an API or a version that is not answered closes the connection, as in Kafka; only ApiVersions is answered in any version.

What only the controller can do (`Api.forwarding`) goes to `forward`, whichever broker this is, and comes back to the router of the
controller by `carry_out`, where it passes the same gate.
"""

import logging
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from inspect import iscoroutine
from typing import Any, NamedTuple, cast

from millstream.broker.network.api import Api, Forwarding, Handler, Reply, Request, api_of
from millstream.broker.network.connection import Connection, PendingReply
from millstream.broker.network.session import Session, is_own_client
from millstream.broker.tasks import Spawn
from millstream.errors import InvalidRequest, MalformedFrame, NotController
from millstream.wire.api import ApiKey
from millstream.wire.frames import SIZE_BYTES, RequestHeader, read_request_header

logger = logging.getLogger(__name__)

Forward = Callable[[Request], Coroutine[Any, Any, Reply]]
"""Has a request carried out by the controller; it copies what it needs of the frame before it returns."""


class CarriedOut(NamedTuple):
    """The answer to a request that was passed on."""

    data: bytes
    """Header and body, without the size."""
    is_refused: bool
    """Whether nothing was done, because this broker is not the controller."""


def admit(session: Session, api: Api, version: int) -> None:
    """Raise unless the broker takes a request for the API, in this version, from this client. Access rules for APIs belong here.

    What the client may do with a topic is another question (`cluster.topic_access`).
    """
    if not api.lowest <= version <= api.highest and api.key != ApiKey.API_VERSIONS:
        client = f"client id {session.client_id!r}, software {session.software_name} {session.software_version}"
        raise MalformedFrame(f"{api.key.name} version {version}: this broker answers {api.lowest} to {api.highest} ({client})")
    if api.is_own and not is_own_client(session):
        raise MalformedFrame(f"{api.key.name} is for Millstream's own clients (client id {session.client_id!r})")


class Router:
    """Knows every handler."""

    def __init__(self, handlers: Iterable[Handler], *, spawn: Spawn, forward: Forward | None = None) -> None:
        """Without `forward` everything is handled here."""
        self._routes: dict[int, tuple[Api, Handler]] = {}
        self._handlers: dict[int, tuple[Api, Handler]] = {}
        """As the routes, but for requests that another broker passed on."""
        for handler in handlers:
            api = api_of(handler)
            self._handlers[api.key] = (api, handler)
            self._routes[api.key] = (api, handler if forward is None or api.forwarding is not Forwarding.WHOLE else forward)
        self._spawn = spawn

    def handle(self, connection: Connection, frame: memoryview) -> None:
        """Handle one request of a connection."""
        header = read_request_header(frame)
        route = self._routes.get(header.api_key)
        if route is None:
            raise _unknown(header)
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
                connection.reply(reply, request.timed_as)
            elif iscoroutine(reply):
                # It has been decoded; the bytes need not be kept, nor are they good any longer.
                request.frame = memoryview(b"")
                self._spawn(self._finish(request, reply, request.defer()))
            elif isinstance(reply, Mapping):
                connection.reply((request.encode(reply),), request.timed_as)
            else:
                connection.reply(reply, request.timed_as)  # type: ignore[arg-type]  # iscoroutine does not narrow
        except MalformedFrame:
            raise
        except Exception:
            self._fail(request)

    async def carry_out(self, connection: Connection, client: Session, frame: bytes) -> CarriedOut:
        """Handle a request of the client of a broker that passed it on; the connection is that of the broker, or the client's own here."""
        view = memoryview(frame)
        header = read_request_header(view)
        route = self._handlers.get(header.api_key)
        if route is None:
            raise _unknown(header)
        api, handler = route
        if api.forwarding is Forwarding.NONE:
            raise InvalidRequest(f"{api.key.name} is not passed on: every broker answers it by itself")
        client = client._replace(client_id=header.client_id)
        admit(client, api, header.api_version)
        request = Request(connection, header, view, forwarded_for=client)
        reply = handler(request)
        if iscoroutine(reply):
            reply = await reply
        assert reply is not None, "what the controller is needed for is answered"
        if not isinstance(reply, Mapping):  # a long answer, encoded in turns: what is refused is answered with fields
            return CarriedOut(b"".join(cast("Sequence[bytes]", reply))[SIZE_BYTES:], is_refused=False)
        return CarriedOut(request.encode(reply)[SIZE_BYTES:], is_refused=_is_refused(reply))

    async def _finish(self, request: Request, work: Coroutine[Any, Any, Reply], pending: PendingReply) -> None:
        try:
            reply = await work
            assert reply is not None, "whoever waits has an answer in the end"
            pending.complete((request.encode(reply),) if isinstance(reply, Mapping) else reply)
        except MalformedFrame as error:
            request.connection.close(str(error))
        except Exception:
            self._fail(request)

    def _fail(self, request: Request) -> None:
        logger.exception("request %s version %d from %s failed", ApiKey(request.api_key).name, request.api_version, request.connection.peer)
        request.connection.close("the broker failed on its request")


def _unknown(header: RequestHeader) -> MalformedFrame:
    return MalformedFrame(f"request with the API key {header.api_key}, which this broker does not answer")


def _is_refused(reply: Mapping[str, object]) -> bool:
    """Whether nothing was done, because this broker is not the controller; of an answer with several parts, whether all of them say so.

    If one of them was done the request is not carried out again: the client learns what became of each.
    """
    code = None
    for code in _outcomes(reply):
        if code != NotController.code:
            return False
    return code is not None


def _outcomes(fields: Mapping[str, object]) -> Iterator[object]:
    """The error codes of the innermost parts of an answer that have any. One by one: mostly the first says enough."""
    code = fields.get("error_code")
    for value in fields.values():
        if isinstance(value, (list, tuple)):
            for part in value:
                if isinstance(part, Mapping):
                    for inner in _outcomes(part):
                        code = None
                        yield inner
    if code is not None:
        yield code
