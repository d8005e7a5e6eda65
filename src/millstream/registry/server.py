"""The composition root of a registry: its parts, made in reading order, and the HTTP server around them.

`serve` runs until it is stopped or the log cannot be used any more. The listening socket is given: who starts the registry has bound
it, and may keep it while the registry is not there (`activation`).
"""

import asyncio
import logging
import signal
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import uvicorn

from millstream.coordination.topic_names import SCHEMAS_TOPIC
from millstream.errors import StartupError
from millstream.registry.api.app import RegistryApp
from millstream.registry.api.desk import Desk
from millstream.registry.forwarding import Forwarder
from millstream.registry.http_noise import HttpNoise
from millstream.registry.model.records import LogRecord
from millstream.registry.model.registration import Registrar
from millstream.registry.model.state import RegistryState
from millstream.registry.schema_log import SchemaLog
from millstream.registry.writer import Writer

logger = logging.getLogger(__name__)

STOP_SECONDS = 5
KEEP_ALIVE_SECONDS = 60
"""How long an idle connection is kept: consumers ask seldom, and a new connection costs more than the answer."""


@dataclass(frozen=True, kw_only=True)
class RegistryOptions:
    """What a registry is started with."""

    client_options: Mapping[str, str]
    """librdkafka's, with `bootstrap.servers`."""
    url: str
    """Where other instances reach this one."""
    topic: str = SCHEMAS_TOPIC


class _Server(uvicorn.Server):
    """uvicorn without its own ideas about signals."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve(options: RegistryOptions, listener: socket.socket, *, on_ready: Callable[[], None] | None = None) -> None:
    """Serve on the socket until SIGTERM or SIGINT, or raise why it cannot go on; `on_ready` is called when the log has been read."""
    # asyncio does this for connections only if the listening socket says it is TCP's, which one that was made by number 0 does not.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    state = RegistryState()
    registrar = Registrar(state)
    failure: list[str] = []

    def take(offset: int, record: LogRecord, term: str | None) -> None:
        if not state.apply(record, term=term):
            logger.warning("record %d of %s was written by an instance that does not write any more, and is ignored", offset, options.topic)
            writer.record_ignored(term)
        app.schemas.forget()

    def fail(reason: str) -> None:
        failure.append(reason)
        server.should_exit = True

    log = SchemaLog(options.client_options, topic=options.topic, on_record=take, on_failure=fail)
    forwarder = Forwarder()
    writer = Writer(state, log, url=options.url, forwarder=forwarder)
    app = RegistryApp(Desk(state, registrar, log=log, writer=writer))
    config = uvicorn.Config(
        app,
        lifespan="off",
        access_log=False,
        log_config=None,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=STOP_SECONDS,
    )
    server = _Server(config)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.handle_exit, number, None)
    logging.getLogger("uvicorn.error").addFilter(HttpNoise())
    log.start()
    readiness = asyncio.create_task(_report_ready(log, on_ready))
    try:
        await server.serve(sockets=[listener])
    finally:
        readiness.cancel()
        await log.stop()
        forwarder.close()
    if failure:
        raise StartupError(f"The registry cannot go on: {failure[0]}.")


async def _report_ready(log: SchemaLog, on_ready: Callable[[], None] | None) -> None:
    await log.until_caught_up()
    if on_ready is not None:
        on_ready()
