"""`millstream mirror run` and `millstream mirror status`: copy topics to another cluster with their offsets, and show how that goes."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from millstream.cli.output import print_json, print_table
from millstream.cli.parameters import DEFAULT_BROKERS
from millstream.errors import CommandFailed

if TYPE_CHECKING:
    from millstream.mirror.settings import MirrorSettings
    from millstream.mirror.status import MirrorStatus, PartitionStatus, ProcessStatus

app = typer.Typer(help="Copy topics to another cluster with their offsets, and show how that goes.", no_args_is_help=True)

SHOWN_EVERY = 5
"""So many reports between two lines on the terminal."""
SILENT_MS = 15_000
"""A process that has said nothing for so long is not shown any more, unless it is the last one."""

Target = Annotated[
    str, typer.Option("--to", metavar="HOST:PORT[,...]", envvar="MILLSTREAM_BROKERS", help="Brokers of the cluster that gets the copy.")
]


@app.command("run")
def run(
    *,
    source: Annotated[str | None, typer.Option("--from", metavar="HOST:PORT[,...]", help="Brokers of the cluster that is copied.")] = None,
    target: Annotated[
        str | None, typer.Option("--to", metavar="HOST:PORT[,...]", help="Brokers of the cluster that gets the copy.")
    ] = None,
    topics: Annotated[str | None, typer.Option(metavar="REGEX", help="Topics to copy: the whole name has to match.")] = None,
    name: Annotated[str | None, typer.Option(help="Name of the mirror; its progress is kept under it. [default: mirror]")] = None,
    limit_bytes: Annotated[int | None, typer.Option(metavar="N", help="Read at most so many bytes per second. [default: no limit]")] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="TOML file with the same names; what is given here counts more.")
    ] = None,
    log_level: Annotated[str, typer.Option(help="What is logged to stderr: debug, info, warning or error.")] = "info",
) -> None:
    """Copy topics until it is stopped (Ctrl-C).

    Offsets, timestamps, keys, headers, producer ids, transactions and compression are kept. The target has to be Millstream; its topics are
    read-only until they are promoted. After any interruption it goes on where the target ends.
    """
    import asyncio

    from millstream.log_lines import LOG_LEVELS, log_to_stderr
    from millstream.mirror.settings import MirrorSettings

    if log_level not in LOG_LEVELS:
        raise typer.BadParameter(f"one of {', '.join(LOG_LEVELS)}", param_hint="--log-level")
    given = {"from": source, "to": target, "topics": topics, "name": name, "limit-bytes": limit_bytes}
    settings = MirrorSettings.of(given, config)
    log_to_stderr(log_level)
    asyncio.run(_run(settings))


@app.command("status")
def status(
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Write one JSON document per mirror.")] = False,
    name: Annotated[str | None, typer.Option(help="Only the mirror of this name.")] = None,
    target: Target = DEFAULT_BROKERS,
) -> None:
    """Show how far mirrors are behind: messages, bytes and seconds per partition, speed and errors."""
    import asyncio

    found = [one for one in asyncio.run(_statuses(target)) if name in (None, one.name)]
    if not found:
        raise CommandFailed(f"no mirror has reported to the cluster at {target}; --to names the cluster that gets the copy")
    for one in found:
        if as_json:
            print_json(one.document())
        else:
            _print(one)


async def _run(settings: "MirrorSettings") -> None:
    import asyncio
    import signal

    from millstream.mirror.engine import Mirror
    from millstream.mirror.reporter import Reporter
    from millstream.mirror.side import Side

    mirror = Mirror(settings, Side(settings.source), Side(settings.target))
    reporter = Reporter(mirror, on_report=_Terminal().show)
    running = asyncio.ensure_future(mirror.run(reporter.run()))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, running.cancel)
    print(f"ready: mirror {settings.name} from {settings.source} to {settings.target}", flush=True)
    try:
        await running
    except asyncio.CancelledError:
        print("ended", flush=True)


class _Terminal:
    """Shows now and then how it goes."""

    def __init__(self) -> None:
        self._reports = 0

    def show(self, process: "ProcessStatus", partitions: "list[PartitionStatus]") -> None:
        from millstream.cli.output import format_timestamp
        from millstream.mirror.status import one_line

        if self._reports % SHOWN_EVERY == 0 or process.state == "ended":
            print(f"{format_timestamp(process.at_ms)}  {process.error or one_line(partitions, process.refused)}", flush=True)
        self._reports += 1


async def _statuses(target: str) -> "list[MirrorStatus]":
    from millstream.clock import SystemClock
    from millstream.mirror.mirror_topic import MirrorTopic, read_statuses
    from millstream.mirror.side import Side

    side = Side(target)
    try:
        return read_statuses(await MirrorTopic(side).read(), not_before_ms=SystemClock().now_ms() - SILENT_MS)
    finally:
        side.close()


def _print(status: "MirrorStatus") -> None:
    from millstream.cli.output import format_timestamp

    for process in status.processes:
        when = format_timestamp(process.at_ms)
        print(f"mirror {status.name}: {process.source} -> {process.target}, {process.state} on {process.host} ({when})")
    columns = ("TOPIC", "PARTITION", "STATE", "SOURCE END", "TARGET END", "LAG", "LAG BYTES", "LAG SECONDS", "MESSAGES/S", "BYTES/S")
    rows = [
        (
            one.topic,
            one.partition,
            one.state,
            one.source_end,
            one.target_end,
            *("-" if value is None else value for value in (one.lag_messages, one.lag_bytes, one.lag_seconds)),
            one.messages_per_second,
            one.bytes_per_second,
        )
        for one in status.partitions
    ]
    print_table(columns, rows)
    for error in status.errors:
        print(error, file=sys.stderr)
