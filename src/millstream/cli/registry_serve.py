"""`millstream registry serve`: a registry by itself, on the topic `_schemas` of Millstream or of any other Kafka.

Several may run on one Kafka: one writes, the others forward to it, so each must be told an address at which the others reach it. The ready
line is that of `millstream serve`, with one pair: it comes when the log has been read.
"""

import asyncio
from typing import Annotated

import typer

from millstream.address import Address, parse_listen_address
from millstream.cli.parameters import DEFAULT_BROKERS, Brokers, ClientOptions, parse_assignment
from millstream.errors import UsageError
from millstream.log_lines import log_to_stderr

LOG_LEVELS = ("debug", "info", "warning", "error")


def serve(
    *,
    brokers: Brokers = DEFAULT_BROKERS,
    listen: Annotated[
        str, typer.Option("--listen", metavar="HOST:PORT", help="Where clients connect; port 0 picks a free one.")
    ] = "127.0.0.1:8081",
    advertise: Annotated[
        str | None,
        typer.Option("--advertise", metavar="HOST:PORT", help="Where other instances reach this one.", show_default="where it listens"),
    ] = None,
    topic: Annotated[str, typer.Option("--topic", help="The compacted topic with the schemas.")] = "_schemas",
    log_level: Annotated[str, typer.Option("--log-level", help="How much to tell on stderr: debug, info, warning, error.")] = "info",
    client_options: ClientOptions = None,
) -> None:
    """Run a schema registry until it is told to stop."""
    from millstream.registry.activation import INSTALL, bind, missing_packages

    missing = missing_packages()
    if missing:
        raise UsageError(f"A registry needs {' and '.join(missing)}: {INSTALL}")
    if log_level not in LOG_LEVELS:
        raise UsageError(f"--log-level is one of {', '.join(LOG_LEVELS)}, and not {log_level!r}.")
    from millstream.registry.activation import reachable_url
    from millstream.registry.server import RegistryOptions, serve

    options = {"bootstrap.servers": brokers, **dict(parse_assignment(text, "-X") for text in client_options or [])}
    log_to_stderr(log_level)
    with bind(*parse_listen_address(listen, "--listen"), is_required=True) as listener:
        address = Address(*listener.getsockname()[:2])
        url = f"http://{parse_listen_address(advertise, '--advertise')}" if advertise else reachable_url(*address)
        started = RegistryOptions(client_options=options, url=url, topic=topic)
        asyncio.run(serve(started, listener, on_ready=lambda: print(f"ready: registry {address}", flush=True)))
