"""The Typer app: every command, in the order in which `millstream --help` lists them.

Only the module of the command that is meant is imported; for `--help` and for a name that is none, all of them. Command modules import
Typer and nothing else that takes long to load: clients and rich are imported where a command runs.
"""

import os
import shlex
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Final

import typer
from typer.main import get_command

from millstream.cli.argument_text import check_text
from millstream.cli.help_text import HELP_FLAGS, write_plainly
from millstream.cli.profiles import NAME_VARIABLE, apply_profile, take_profile
from millstream.errors import UsageError

PROGRAM: Final = "millstream"
COMPLETE_VARIABLE: Final = "_MILLSTREAM_COMPLETE"
COMMANDS: Final = {
    "produce": "millstream.cli.produce.command:produce",
    "consume": "millstream.cli.consume.command:consume",
    "query": "millstream.cli.query:query",
    "top": "millstream.cli.top.command:top",
    "dump-log": "millstream.cli.dump_log.command:dump_log",
    "topic": "millstream.cli.topic.command:app",
    "cluster": "millstream.cli.cluster.command:app",
    "group": "millstream.cli.group.command:app",
    "txn": "millstream.cli.txn.command:app",
    "registry": "millstream.cli.registry:app",
    "audit": "millstream.cli.audit.command:app",
    "mirror": "millstream.cli.mirror.command:app",
    "pipeline": "millstream.cli.pipeline.app:app",
}

OF_COMMANDS: Final = ("-b", "--brokers", "-X", "--registry", "--zookeeper", "--metrics", "--output")
"""Flags that many commands have, and that people write before the command."""

TAKE_BYTES: Final = ("produce", "dump-log")
"""What these are given may be any bytes: keys and values, names of files."""


def run(arguments: Sequence[str]) -> None:
    """Run the command that is meant, with the profile that was chosen; or answer the shell that asks what may follow."""
    is_completing = COMPLETE_VARIABLE in os.environ
    words = _words_so_far() if is_completing else arguments
    try:
        profile, rest = take_profile(words, os.environ)
    except UsageError:
        if not is_completing:
            raise
        profile, rest = None, []
    if rest and rest[0] not in TAKE_BYTES:
        check_text(rest)
    if rest and not is_completing and (flag := rest[0].partition("=")[0]) in OF_COMMANDS:
        raise UsageError(f"{flag} comes after the command, as in `millstream topic list -b HOST:PORT`.")
    command = get_command(make_app(rest[0] if rest else None))
    write_plainly(command)  # type: ignore[arg-type] # an app with several commands is a group
    if profile is not None:
        apply_profile(profile, command)  # type: ignore[arg-type] # an app with several commands is a group
    command(list(arguments) if is_completing else rest, prog_name=PROGRAM)


def make_app(name: str | None) -> typer.Typer:
    """The app with one command, or with all if there is none of that name."""
    app = typer.Typer(
        name=PROGRAM,
        help="Millstream: a Kafka broker without a JVM, and the commands to work with it or with any other Kafka.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": HELP_FLAGS},
    )
    app.callback()(_options)
    if name not in COMMANDS:
        _add_serve(app)
    for each, place in COMMANDS.items() if name not in COMMANDS else [(name, COMMANDS[name])]:
        module, _, attribute = place.partition(":")
        found = getattr(import_module(module), attribute)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=each)
        else:
            app.command(each)(found)
    return app


def _words_so_far() -> list[str]:
    """What has been typed, as the shells hand it over: bash in COMP_WORDS, zsh and fish in _TYPER_COMPLETE_ARGS."""
    try:
        return shlex.split(os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", ""))[1:]
    except ValueError:  # a quote that is not closed yet
        return []


def _options(
    *,
    profile: Annotated[
        str | None,
        typer.Option("--profile", metavar="NAME", envvar=NAME_VARIABLE, help="Brokers, registry and security from profiles.toml."),
    ] = None,
    version: Annotated[bool, typer.Option("--version", help="Print the version, and end.")] = False,
) -> None:
    """Only listed here: `run` takes `--profile` out, wherever it stands, and `main` answers `--version` before this app is built."""


def _add_serve(app: typer.Typer) -> None:
    from millstream.cli.serve import command as serve

    @app.command("serve", help=serve.SUMMARY, add_help_option=False, context_settings={"ignore_unknown_options": True})
    def serve_command(arguments: Annotated[list[str] | None, typer.Argument(metavar="[OPTIONS]")] = None) -> None:
        """Only listed here: `main` dispatches `serve` before this app is built, and its flags are defined in `serve`."""
        serve.serve(arguments or [])
