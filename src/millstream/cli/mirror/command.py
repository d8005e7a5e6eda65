"""`millstream mirror run` and `millstream mirror status`: copy topics to another cluster with their offsets, and show how that goes."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from millstream.cli.mirror import control as mirror_control
from millstream.cli.mirror.parameters import SourceConfig, Target, TargetConfig, open_side, security_of
from millstream.cli.output import print_json, print_table
from millstream.cli.parameters import DEFAULT_BROKERS
from millstream.errors import CommandFailed, MillstreamError

if TYPE_CHECKING:
    from millstream.mirror.settings import MirrorSettings
    from millstream.mirror.status.status import MirrorStatus, PartitionStatus, ProcessStatus

app = typer.Typer(help="Copy topics to another cluster with their offsets, and show how that goes.", no_args_is_help=True)

SHOWN_EVERY = 5
"""So many reports between two lines on the terminal."""

app.command("pause")(mirror_control.pause)
app.command("resume")(mirror_control.resume)
app.command("promote")(mirror_control.promote)


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
    source_config: SourceConfig = None,
    target_config: TargetConfig = None,
    source_zookeeper: Annotated[
        str | None, typer.Option("--from-zookeeper", metavar="HOST:PORT[,...]", help="Share the work by a group of the paper there.")
    ] = None,
    target_zookeeper: Annotated[
        str | None, typer.Option("--to-zookeeper", metavar="HOST:PORT[,...]", help="Copy the offsets of the paper's groups to there.")
    ] = None,
    alone: Annotated[
        bool | None, typer.Option("--alone", help="Copy everything, instead of sharing the work with processes of the same name.")
    ] = None,
    groups: Annotated[bool | None, typer.Option("--groups/--no-groups", help="Copy the offsets of consumer groups. [default: yes]")] = None,
    merge: Annotated[
        bool | None, typer.Option("--merge", help="Merge records into ordinary topics of any Kafka, with offsets of their own.")
    ] = None,
    prefix: Annotated[str | None, typer.Option(metavar="TEXT", help="With --merge: what names of topics begin with at the target.")] = None,
    exactly_once: Annotated[bool | None, typer.Option("--exactly-once", help="With --merge: write in transactions.")] = None,
    audit: Annotated[
        str | None, typer.Option(metavar="NAME", help="Report what was copied to the audit, as the tier of this name.")
    ] = None,
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
    given = {
        "from": source, "to": target, "topics": topics, "name": name, "limit-bytes": limit_bytes,
        "from-config": _text(source_config), "to-config": _text(target_config), "from-zookeeper": source_zookeeper,
        "to-zookeeper": target_zookeeper, "audit": audit, "alone": alone, "groups": groups,
        "merge": merge, "prefix": prefix, "exactly-once": exactly_once,
    }  # fmt: skip
    settings = MirrorSettings.of(given, config)
    log_to_stderr(log_level)
    asyncio.run(_run(settings))


@app.command("status")
def status(
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Write one JSON document per mirror.")] = False,
    name: Annotated[str | None, typer.Option(help="Only the mirror of this name.")] = None,
    target: Target = DEFAULT_BROKERS,
    target_config: TargetConfig = None,
    source: Annotated[
        str | None,
        typer.Option("--from", metavar="HOST:PORT[,...]", help="Brokers of the cluster that is copied: ask where it ends."),
    ] = None,
    source_config: SourceConfig = None,
) -> None:
    """Show how far mirrors are behind: messages, bytes and seconds per partition, speed and errors.

    Mirrors report it to the cluster that gets the copy. With --from the other cluster is asked, too: the lag is right then even
    while no process of the mirror runs.
    """
    import asyncio

    found = [one for one in asyncio.run(_statuses(target, target_config, source, source_config)) if name in (None, one.name)]
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

    from millstream.mirror.merging.merge_process import MergeProcess
    from millstream.mirror.process import MirrorProcess

    process = (MergeProcess if settings.merge else MirrorProcess)(
        settings,
        source_security=security_of(settings.from_config),
        target_security=security_of(settings.to_config),
        on_report=_Terminal().show,
    )
    running = asyncio.ensure_future(process.run())
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, running.cancel)
    what = f"merges {settings.source} into" if settings.merge else f"from {settings.source} to"
    print(f"ready: mirror {settings.name} {what} {settings.target}", flush=True)
    try:
        await running
    except asyncio.CancelledError:
        print("ended", flush=True)


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


class _Terminal:
    """Shows now and then how it goes."""

    def __init__(self) -> None:
        self._reports = 0

    def show(self, process: "ProcessStatus", partitions: "list[PartitionStatus]") -> None:
        from millstream.cli.output import format_timestamp
        from millstream.mirror.status.status import one_line

        if self._reports % SHOWN_EVERY == 0 or process.state == "ended":
            print(f"{format_timestamp(process.at_ms)}  {process.error or one_line(partitions, process.refused)}", flush=True)
        self._reports += 1


async def _statuses(target: str, target_config: Path | None, source: str | None, source_config: Path | None) -> "list[MirrorStatus]":
    from millstream.clock import SystemClock
    from millstream.mirror.status.mirror_topic import SILENT_MS, MirrorTopic, read_statuses
    from millstream.mirror.status.source_lag import SourceLag

    now_ms = SystemClock().now_ms()
    sides = [open_side(target, target_config, is_watched=True)]
    try:
        found = read_statuses(await MirrorTopic(sides[0]).read(), not_before_ms=now_ms - SILENT_MS)
        if source is not None:
            sides.append(open_side(source, source_config, is_watched=True))
            try:
                found = [await SourceLag(sides[1], now_ms=now_ms).measure(one) for one in found]
            except MillstreamError as error:
                print(f"the source cannot be asked, this is what was reported last: {error}", file=sys.stderr)
        return found
    finally:
        for side in sides:
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
