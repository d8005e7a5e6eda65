"""`millstream serve`: run a broker until it is stopped.

The command that has to be fast: it imports neither Typer, rich nor a client (about 0.1 s together), so it reads its flags with argparse,
and `main` comes here before it builds the Typer app. This is the only definition of the flags; `millstream --help` lists the command and
hands its arguments to the same `serve`.

The ready line is a contract: `ready:` and then pairs of a name and an address (of `data`: the directories), on stdout, flushed, when
clients are accepted. All the rest goes to stderr, one line per event. SIGTERM and Ctrl-C stop cleanly, also during the start; a second
one does not wait for the end of the clean stop.
"""

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from millstream.address import Address, check_advertised, parse_listen_address
from millstream.cli.properties import parse_assignments, read_properties
from millstream.cli.serve.listeners import Listeners, take_listeners
from millstream.cli.stop_signal import StopSignal
from millstream.errors import StartupError, UsageError
from millstream.log_lines import AREAS, LOG_FORMATS, LOG_LEVELS, LogLevels, log_to_stderr

if TYPE_CHECKING:
    import socket

    from millstream.broker.server import BrokerServer
    from millstream.broker.server_options import ServerOptions
    from millstream.processes.broker_processes import BrokerProcesses

    _Server = BrokerServer | BrokerProcesses

logger = logging.getLogger(__name__)

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
  millstream serve --processes 4
  millstream serve --config server.properties --data /disk1/millstream --data /disk2/millstream

When clients are accepted, one line goes to stdout:
  ready: broker HOST:PORT coordination HOST:PORT registry HOST:PORT metrics HOST:PORT data DIRECTORY
With --processes, `broker` is where clients begin, and broker-1 HOST:PORT, broker-2 HOST:PORT and so on follow it.
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
    processes = _processes(flags.processes)
    from millstream.broker.network.event_loop import BrokerLoop

    with asyncio.Runner(loop_factory=BrokerLoop) as runner:
        runner.run(_serve(options, beside, processes=processes))


def server_options(flags: argparse.Namespace) -> "ServerOptions":
    """What the flags and the options file say together: a flag wins over `-X`, `-X` over the file, the file over the default."""
    from millstream.broker.server_options import ServerOptions
    from millstream.options.validation import startup_mistakes

    options = read_properties(flags.config) if flags.config else {}
    options |= parse_assignments(flags.options)
    _pass_over(options)
    mistakes: list[str] = []
    configured = _listeners(options, mistakes)
    _check_alone(flags, options)
    data, node_id = _data_directories(flags.data, options), _node_id(flags.node_id, options)
    mistakes += startup_mistakes(options)
    if mistakes:
        raise UsageError(_as_list(mistakes, None if flags.options else flags.config))
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
        return f"{config}: {mistakes[0]}" if config else mistakes[0]
    where = f"in {config}" if config else "that were given"
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


def _check_alone(flags: argparse.Namespace, options: Mapping[str, str]) -> None:
    """Refuse what is about one broker where there are to be several."""
    if flags.processes is None:
        return
    if flags.zookeeper is not None:
        raise UsageError("--processes runs a cluster of its own on this machine, --zookeeper joins one: give one of the two.")
    if flags.node_id is not None or not options.keys().isdisjoint(("node.id", "broker.id")):
        raise UsageError("--processes numbers its brokers from 1: leave --node-id, node.id and broker.id out.")


def _processes(flag: int | None) -> int:
    """How many brokers there are to be in processes of their own; 0 for one in this process."""
    if flag is None:
        return 0
    from millstream.processes.broker_processes import MOST_PROCESSES, check_processes
    from millstream.processes.cores import usable_cores

    cores = usable_cores()
    processes = check_processes(flag or min(cores, MOST_PROCESSES))
    if processes > cores:
        logger.warning("%d processes share %d cores: more than one per core makes nothing faster", processes, cores)
    return processes


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


async def _serve(options: "ServerOptions", beside: Beside, *, processes: int = 0) -> None:
    """Run until a signal comes, which may be before all is started."""
    signal_to_stop = StopSignal()
    try:
        await _run(options, beside, signal_to_stop, processes=processes)
    except asyncio.CancelledError:
        if not signal_to_stop.was_given.is_set():
            raise


async def _run(options: "ServerOptions", beside: Beside, signal_to_stop: StopSignal, *, processes: int) -> None:
    """Start, announce, wait for the signal or the server's own end, stop."""
    from millstream.broker.garbage import collect_garbage_seldom

    async with AsyncExitStack() as stack:
        # First, because it is soon said that a port is taken.
        listener = None if beside.registry is None else _listen_for_registry(beside.registry)
        metrics = None if beside.metrics is None else _listen_for_metrics(beside.metrics)
        for bound in filter(None, (listener, metrics)):
            stack.callback(bound.close)
        server = await _server(options, beside, processes=processes)
        await stack.enter_async_context(server)
        coordination = options.zookeeper or Address(*server.coordination_address)
        own = [(f"broker-{number}", address) for number, address in enumerate(server.own_addresses, 1)]
        pairs: list[tuple[str, object]] = [("broker", Address(*server.address)), *own, ("coordination", coordination)]
        if listener is not None:
            pairs.append(("registry", await _start_registry(stack, server, listener, beside)))
        if beside.audits:
            from millstream.auditor.activation import AuditActivation

            url = None if listener is None else f"http://{pairs[-1][1]}"
            audit = AuditActivation(
                server.topic_exists, broker=server.address, registry=url, log_level=beside.log_level, log_format=beside.log_format
            )
            await stack.enter_async_context(audit)
        if metrics is not None:
            pairs.append(("metrics", await _start_metrics(stack, server, metrics, beside)))
        pairs.append(("data", _places(options.data)))
        collect_garbage_seldom()
        signal_to_stop.start_is_over()
        print("ready:", *(f"{name} {address}" for name, address in pairs), flush=True)
        asked = asyncio.create_task(signal_to_stop.was_given.wait())
        stopped = asyncio.create_task(server.stopped())
        await asyncio.wait({asked, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if stopped.done():
            stopped.result()


async def _server(options: "ServerOptions", beside: Beside, *, processes: int) -> "_Server":
    """One broker in this process, or several in theirs."""
    if processes:
        from millstream.processes.broker_processes import BrokerProcesses

        return BrokerProcesses(options, processes, log_level=beside.log_level, log_format=beside.log_format)
    from millstream.broker.server import BrokerServer
    from millstream.processes.one_broker import take_over

    await take_over(options)
    return BrokerServer(options)


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


async def _start_registry(stack: AsyncExitStack, server: "_Server", listener: "socket.socket", beside: Beside) -> Address:
    from millstream.registry.activation import RegistryActivation, warn_if_elsewhere

    activation = RegistryActivation(listener, broker=server.address, log_level=beside.log_level, log_format=beside.log_format)
    address = Address(*(await stack.enter_async_context(activation)).address)
    assert beside.registry is not None
    warn_if_elsewhere(beside.registry.address.port, address)
    return address


async def _start_metrics(stack: AsyncExitStack, server: "_Server", listener: "socket.socket", beside: Beside) -> Address:
    from millstream.monitoring.activation import MetricsActivation, warn_if_elsewhere

    activation = MetricsActivation(
        listener,
        server.sample,
        broker=server.address,
        is_of_several=bool(server.own_addresses),
        interval_s=beside.metrics_interval_s,
        log_level=beside.log_level,
        log_format=beside.log_format,
    )
    address = Address(*(await stack.enter_async_context(activation)).address)
    assert beside.metrics is not None
    warn_if_elsewhere(beside.metrics.port, address)
    return address


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
    processes_help = "so many brokers on one bootstrap port, each in a process of its own, for machines with several cores; 0: one per core"
    add("--processes", metavar="N", type=int, help=processes_help)
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
