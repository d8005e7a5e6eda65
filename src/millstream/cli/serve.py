"""`millstream serve`: run a broker until it is stopped.

The command that has to be fast: it imports neither Typer, rich nor a client (about 0.1 s together), so it reads its flags with argparse,
and `main` comes here before it builds the Typer app. This is the only definition of the flags; `millstream --help` lists the command and
hands its arguments to the same `serve`.

The ready line is a contract: `ready:` and then pairs of a name and an address (of `data`: the directories), on stdout, flushed, when
clients are accepted. All the rest goes to stderr, one line per event. SIGTERM and Ctrl-C stop cleanly; a second one does not wait for the
end of the clean stop.
"""

import argparse
import asyncio
import gc
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from millstream.address import Address, check_advertised, parse_listen_address
from millstream.cli.listeners import Listeners, take_listeners
from millstream.cli.properties import parse_assignments, read_properties
from millstream.errors import StartupError, UsageError
from millstream.log_lines import AREAS, LOG_FORMATS, LOG_LEVELS, LogLevels, log_to_stderr

if TYPE_CHECKING:
    import socket

    from millstream.broker.server import BrokerServer
    from millstream.broker.server_options import ServerOptions
    from millstream.monitoring.activation import MetricsActivation

SUMMARY = "Run a broker: the log, its coordination and its clients' port in one process, and a schema registry and an auditor beside it."
DEFAULT_LISTEN = "127.0.0.1:9092"
DEFAULT_COORDINATION = "127.0.0.1:2181"
DEFAULT_REGISTRY = "127.0.0.1:8081"
DEFAULT_METRICS = "127.0.0.1:9308"
DEFAULT_METRICS_INTERVAL_S = 10.0
SHORTEST_INTERVAL_S = 0.1
LONGEST_INTERVAL_S = 3600.0
DEFAULT_SLOW_REQUEST_MS = 1_000
DEFAULT_DATA = "millstream-data"
DEFAULT_NODE_ID = "1"

EXAMPLES = """\
examples:
  millstream serve
  millstream serve --listen 127.0.0.1:0 --data /tmp/throwaway
  millstream serve --listen 0.0.0.0:9092 --advertise broker1.example:9092
  millstream serve -X num.partitions=3 -X log.retention.hours=24
  millstream serve --zookeeper zk1:2181,zk2:2181,zk3:2181/millstream --node-id 1 --listen 0.0.0.0:9092 --advertise broker1.example:9092
  millstream serve --config server.properties --data /disk1/millstream --data /disk2/millstream

When clients are accepted, one line goes to stdout:
  ready: broker HOST:PORT coordination HOST:PORT registry HOST:PORT metrics HOST:PORT data DIRECTORY
"""


class RegistryAddress(NamedTuple):
    """Where the schema registry listens, and whether a taken port is an error."""

    address: Address
    is_required: bool


class Beside(NamedTuple):
    """What runs beside the broker, in processes of their own, and how all of them log."""

    registry: RegistryAddress | None
    metrics: Address | None
    metrics_interval_s: float
    audits: bool
    log_level: str
    log_format: str


def serve(arguments: Sequence[str]) -> None:
    """Run a broker as the arguments say; returns after a clean stop."""
    flags = parse_flags(arguments)
    options = server_options(flags)
    log_level = ",".join(flags.log_level) or "info"
    LogLevels.parse(log_level)
    beside = Beside(
        registry_address(flags), metrics_address(flags), flags.metrics_interval, not flags.no_audit, log_level, flags.log_format
    )
    log_to_stderr(log_level, flags.log_format)
    from millstream.broker.network.event_loop import BrokerLoop

    with asyncio.Runner(loop_factory=BrokerLoop) as runner:
        runner.run(_serve(options, beside))


def server_options(flags: argparse.Namespace) -> "ServerOptions":
    """What the flags and the options file say together: a flag wins over `-X`, `-X` over the file, the file over the default."""
    from millstream.broker.server_options import ServerOptions
    from millstream.options.validation import startup_mistakes

    options = read_properties(flags.config) if flags.config else {}
    options |= parse_assignments(flags.options)
    _pass_over(options)
    mistakes: list[str] = []
    configured = _listeners(options, mistakes)
    data, node_id = _data_directories(flags.data, options), _node_id(flags.node_id, options)
    mistakes += startup_mistakes(options)
    if mistakes:
        raise UsageError(_as_list(mistakes, flags.config))
    listen = configured.listen or parse_listen_address(DEFAULT_LISTEN, "--listen")
    if flags.listen is not None:
        listen = parse_listen_address(flags.listen, "--listen")
    if flags.zookeeper is not None and flags.coordination is not None:
        raise UsageError("--coordination is for the embedded coordination, --zookeeper for a real one: give one of the two.")
    coordination = parse_listen_address(flags.coordination or DEFAULT_COORDINATION, "--coordination")
    return ServerOptions(
        listen_host=listen.host,
        listen_port=listen.port,
        advertise=_advertised_address(flags.advertise) or configured.advertise,
        coordination_host=coordination.host,
        coordination_port=coordination.port,
        coordination_port_required=flags.coordination is not None,
        zookeeper=_zookeeper(flags.zookeeper),
        zookeeper_credentials=_credentials(flags),
        data=data,
        forget_directories=tuple(flags.forget_directories),
        node_id=node_id,
        slow_request_ms=_slow_request_ms(flags.slow_request_ms),
        options=options,
    )


def registry_address(flags: argparse.Namespace) -> RegistryAddress | None:
    """Where the registry shall listen; None without one: by choice, or because its packages are not installed."""
    if flags.no_registry:
        if flags.registry is not None:
            raise UsageError("--registry and --no-registry contradict each other: give one of them.")
        return None
    from millstream.registry.extra import INSTALL, missing_packages

    missing = missing_packages()
    if missing and flags.registry is not None:
        raise UsageError(f"--registry needs {' and '.join(missing)}: {INSTALL}")
    if missing:
        print(f"millstream: without a schema registry, because {' and '.join(missing)} are not installed: {INSTALL}", file=sys.stderr)
        return None
    return RegistryAddress(parse_listen_address(flags.registry or DEFAULT_REGISTRY, "--registry"), flags.registry is not None)


def metrics_address(flags: argparse.Namespace) -> Address | None:
    """Where the metrics shall be; None without them."""
    if not SHORTEST_INTERVAL_S <= flags.metrics_interval <= LONGEST_INTERVAL_S:
        bounds = f"from {SHORTEST_INTERVAL_S:g} to {LONGEST_INTERVAL_S:g}"
        raise UsageError(f"--metrics-interval takes seconds {bounds}, and got {flags.metrics_interval:g}.")
    return None if flags.metrics == "off" else parse_listen_address(flags.metrics, "--metrics")


def _advertised_address(flag: str | None) -> Address | None:
    if flag is None:
        return None
    return check_advertised(parse_listen_address(flag, "--advertise"), f"--advertise {flag}")


def _zookeeper(flag: str | None) -> str | None:
    """The ensemble as kazoo takes it: addresses with commas between them, and perhaps a path."""
    if flag is None:
        return None
    from millstream.zookeeper.errors import BadArguments
    from millstream.zookeeper.znode import check_path

    hosts, slash, chroot = flag.partition("/")
    for host in hosts.split(","):
        if parse_listen_address(host, "--zookeeper").port == 0:
            raise UsageError(f"--zookeeper got {flag!r}: a ZooKeeper has a port, usually 2181.")
    try:
        if slash:
            check_path(slash + chroot)
    except BadArguments:
        chroot = ""
    if slash and not chroot:
        advice = "after all addresses stands one path such as /millstream, or nothing"
        raise UsageError(f"--zookeeper got {flag!r}: {advice}.")
    return flag


def _credentials(flags: argparse.Namespace) -> Path | None:
    if flags.zookeeper_credentials is not None and flags.zookeeper is None:
        raise UsageError("--zookeeper-credentials is for a real ZooKeeper: give --zookeeper too.")
    found: Path | None = flags.zookeeper_credentials
    return found


def _listeners(options: dict[str, str], mistakes: list[str]) -> Listeners:
    """What the options say about listeners; a mistake in them is one among others."""
    try:
        return take_listeners(options)
    except UsageError as error:
        for name in ("listeners", "advertised.listeners"):
            options.pop(name, None)
        mistakes.append(str(error).rstrip("."))
        return Listeners(None, None)


def _as_list(mistakes: Sequence[str], config: Path | None) -> str:
    """One mistake as a sentence; several one per line, for a person who goes through a file with them."""
    if len(mistakes) == 1:
        return mistakes[0]
    where = f"in {config}" if config else "given with -X"
    return f"{len(mistakes)} of the options {where} cannot be obeyed:" + "".join(f"\n  {mistake}" for mistake in mistakes)


def _data_directories(flags: list[Path], options: dict[str, str]) -> tuple[Path, ...]:
    one, several = options.pop("log.dir", ""), options.pop("log.dirs", "")
    named = flags or [Path(name.strip()) for name in (several or one or DEFAULT_DATA).split(",") if name.strip()]
    if len({path.resolve() for path in named}) < len(named):
        raise UsageError("The same data directory is given twice: name each only once.")
    for path in named:
        _check_directory(path)
    return tuple(named)


def _check_directory(path: Path) -> None:
    """Refuse what cannot become a directory because there is a file; other reasons are found when it is opened."""
    for place in (path, *path.parents):
        if os.path.isdir(place):
            return
        if os.path.lexists(place):
            what = "is a file" if place == path else f"cannot be made, because {place} is a file"
            raise StartupError(f"The data directory {path} {what}: give the name of a directory with --data, or log.dirs.")


def _node_id(flag: int | None, options: dict[str, str]) -> int:
    named, older = options.pop("node.id", None), options.pop("broker.id", None)
    if named is not None and older is not None and named != older:
        raise UsageError(f"node.id={named} and broker.id={older} are two names of one thing: give one of them.")
    text = str(flag) if flag is not None else named or older or DEFAULT_NODE_ID
    if not (text.isascii() and text.isdigit()) or int(text) >= 2**31:
        raise UsageError(f"The node id must be a number from 0 to {2**31 - 1}, and is {text!r}.")
    return int(text)


def _slow_request_ms(flag: int) -> int:
    if flag < 0:
        raise UsageError(f"--slow-request-ms takes milliseconds, or 0 for no such lines, and got {flag}.")
    return flag


def _pass_over(options: dict[str, str]) -> None:
    """Drop, and say so, what Kafka 4 does not know either and passes over with a warning, and the ZooKeeper of a development set-up."""
    from millstream.options.foreign import is_local_zookeeper, is_passed_over

    unknown_to_kafka = [name for name in options if is_passed_over(name)]
    for name in unknown_to_kafka:
        del options[name]
    if unknown_to_kafka:
        print(f"millstream: passed over, as Kafka 4 does: {', '.join(unknown_to_kafka)}", file=sys.stderr)
    if is_local_zookeeper(options.get("zookeeper.connect", "")):
        address = options.pop("zookeeper.connect")
        instead = "this broker keeps its coordination in itself (--zookeeper HOST:PORT/PATH joins a cluster in a ZooKeeper)"
        print(f"millstream: passed over: zookeeper.connect={address}, because {instead}", file=sys.stderr)


async def _serve(options: "ServerOptions", beside: Beside) -> None:
    """Start, announce, wait for a signal or the server's own end, stop."""
    from millstream.broker.server import BrokerServer

    loop = asyncio.get_running_loop()
    asked_to_stop = asyncio.Event()

    def stop() -> None:
        asked_to_stop.set()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    async with AsyncExitStack() as stack:
        # First, because it is soon said that a port is taken.
        listener = None if beside.registry is None else _listen_for_registry(beside.registry)
        metrics = None if beside.metrics is None else _listen_for_metrics(beside.metrics)
        for bound in filter(None, (listener, metrics)):
            stack.callback(bound.close)
        server = await stack.enter_async_context(BrokerServer(options))
        coordination = options.zookeeper or Address(*server.coordination_address)
        pairs: list[tuple[str, object]] = [("broker", Address(*server.address)), ("coordination", coordination)]
        if listener is not None:
            from millstream.registry.activation import RegistryActivation

            activation = RegistryActivation(listener, broker=server.address, log_level=beside.log_level, log_format=beside.log_format)
            pairs.append(("registry", Address(*(await stack.enter_async_context(activation)).address)))
        if beside.audits:
            from millstream.auditor.activation import AuditActivation

            url = None if listener is None else f"http://{pairs[-1][1]}"
            audit = AuditActivation(
                server.topic_exists, broker=server.address, registry=url, log_level=beside.log_level, log_format=beside.log_format
            )
            await stack.enter_async_context(audit)
        if metrics is not None:
            published = await stack.enter_async_context(_publish(server, metrics, beside))
            pairs.append(("metrics", Address(*published.address)))
        pairs.append(("data", _places(options.data)))
        _collect_garbage_seldom()
        print("ready:", *(f"{name} {address}" for name, address in pairs), flush=True)
        asked = asyncio.create_task(asked_to_stop.wait())
        stopped = asyncio.create_task(server.stopped())
        await asyncio.wait({asked, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if stopped.done():
            stopped.result()


def _places(directories: Sequence[Path]) -> str:
    """Where the data is, as one word of the ready line: blanks are percent-encoded, several directories are separated by commas."""
    return ",".join("".join(map(_as_part_of_a_word, str(path.resolve()))) for path in directories)


def _as_part_of_a_word(character: str) -> str:
    if character.isspace() or character == "%":
        return "".join(f"%{byte:02X}" for byte in character.encode())
    return character


def _listen_for_registry(registry: RegistryAddress) -> "socket.socket":
    from millstream.registry.activation import bind

    return bind(*registry.address, is_required=registry.is_required)


def _listen_for_metrics(address: Address) -> "socket.socket":
    from millstream.monitoring.activation import bind

    return bind(*address)


def _publish(server: "BrokerServer", listener: "socket.socket", beside: Beside) -> "MetricsActivation":
    from millstream.monitoring.activation import MetricsActivation

    return MetricsActivation(
        listener,
        server.sample,
        broker=server.address,
        interval_s=beside.metrics_interval_s,
        log_level=beside.log_level,
        log_format=beside.log_format,
    )


def _collect_garbage_seldom() -> None:
    """What was made at start stays, and requests make few cycles: looking for garbage as often as Python does costs a tenth of the time.

    Not even once now: of 60 000 objects 700 would go, and the first client would wait 15 ms for it.
    """
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    gc.enable()


class _FlagParser(argparse.ArgumentParser):
    """Raises instead of printing the usage and exiting, so that every mistake is reported in the same way."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}. See `millstream serve --help`.")


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """As wide as the terminal; argparse makes one with every flag and asks `shutil`, which loads three kinds of compression."""

    def __init__(self, prog: str) -> None:
        try:
            columns = int(os.environ.get("COLUMNS") or 0) or os.get_terminal_size().columns
        except (OSError, ValueError):
            columns = 0
        super().__init__(prog, width=(columns or 80) - 2)


def parse_flags(arguments: Sequence[str]) -> argparse.Namespace:
    """The flags; an unknown one is refused with the name that was probably meant."""
    parser = _flag_parser()
    flags, unknown = parser.parse_known_args(list(arguments))
    if unknown:
        import difflib

        known = [name for action in parser._actions for name in action.option_strings]
        near = difflib.get_close_matches(unknown[0].partition("=")[0], known, n=1)
        advice = f"did you mean {near[0]}?" if near else "see `millstream serve --help`."
        raise UsageError(f"serve does not know {unknown[0]}: {advice}")
    return flags


def _flag_parser() -> argparse.ArgumentParser:
    parser = _FlagParser(
        prog="millstream serve",
        description=SUMMARY,
        epilog=EXAMPLES,
        formatter_class=_HelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    listen_help = f"where clients connect; port 0 picks a free one (default {DEFAULT_LISTEN})"
    add("--listen", metavar="HOST:PORT", help=listen_help)
    add("--advertise", metavar="HOST:PORT", help="the address that clients connect to (default: where it listens)")
    coordination_help = f"where the embedded coordination listens (default {DEFAULT_COORDINATION}, or a free port if that one is taken)"
    add("--coordination", metavar="HOST:PORT", help=coordination_help)
    zookeeper_help = "join the cluster in a ZooKeeper, below a path of it, instead of being alone with the embedded coordination"
    add("--zookeeper", metavar="HOST:PORT[,...][/PATH]", help=zookeeper_help)
    credentials_help = "a file with one line, user:password: with it only brokers that have the same can change the znodes"
    add("--zookeeper-credentials", metavar="FILE", type=Path, help=credentials_help)
    registry_help = f"where the schema registry listens (default {DEFAULT_REGISTRY}, or a free port if that one is taken)"
    add("--registry", metavar="HOST:PORT", help=registry_help)
    add("--no-registry", action="store_true", help="no schema registry")
    add("--no-audit", action="store_true", help="no auditor; otherwise one is started when the topic _audit is made")
    data_help = f"where the logs are kept; repeat it to use several disks (default ./{DEFAULT_DATA})"
    add("--data", metavar="DIR", type=Path, action="append", default=[], help=data_help)
    forget_help = "give up a data directory that is missing, with all its records, by the id that the refused start names; may be repeated"
    add("--forget-directory", metavar="ID", dest="forget_directories", action="append", default=[], help=forget_help)
    add("--node-id", metavar="N", type=int, help=f"this broker's number in its cluster (default {DEFAULT_NODE_ID})")
    option_help = "set any broker option by Kafka's own name; may be repeated"
    add("-X", metavar="NAME=VALUE", dest="options", action="append", default=[], help=option_help)
    add("--config", metavar="FILE", type=Path, help="read options from a file of NAME=VALUE lines, as Kafka's server.properties")
    taken = "or a free port if that one is taken"
    metrics_help = f"where /metrics, /health and /ready are (default {DEFAULT_METRICS}, {taken}); `off` for nowhere"
    add("--metrics", metavar="HOST:PORT", default=DEFAULT_METRICS, help=metrics_help)
    interval_help = f"how often the figures there are taken anew (default {DEFAULT_METRICS_INTERVAL_S:g})"
    add("--metrics-interval", metavar="SECONDS", type=float, default=DEFAULT_METRICS_INTERVAL_S, help=interval_help)
    slow_help = f"requests that take longer are logged; 0 is none (default {DEFAULT_SLOW_REQUEST_MS})"
    add("--slow-request-ms", metavar="MS", type=int, default=DEFAULT_SLOW_REQUEST_MS, help=slow_help)
    areas = ", ".join(AREAS)
    level_help = f"how much to log on stderr: {', '.join(LOG_LEVELS)} (default info); AREA=LEVEL for one of {areas}; may be repeated"
    add("--log-level", metavar="[AREA=]LEVEL", action="append", default=[], help=level_help)
    add("--log-format", choices=LOG_FORMATS, default="text", help="lines of text, or of JSON (default text)")
    return parser
