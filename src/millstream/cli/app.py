"""The Typer app: every command, in the order in which `millstream --help` lists them.

Command modules import Typer and nothing else that takes long to load: clients and rich are imported where a command runs.
"""

import os
import shlex
from collections.abc import Sequence
from typing import Annotated

import typer
from typer.main import get_command

from millstream.cli import audit, cluster, dump_log, mirror, query, registry, serve
from millstream.cli.consume.command import consume
from millstream.cli.group import command as group
from millstream.cli.pipeline import app as pipeline
from millstream.cli.produce.command import produce
from millstream.cli.profiles import NAME_VARIABLE, apply_profile, take_profile
from millstream.cli.top.command import top
from millstream.cli.topic import command as topic
from millstream.errors import UsageError

PROGRAM = "millstream"
COMPLETE_VARIABLE = "_MILLSTREAM_COMPLETE"

app = typer.Typer(
    name=PROGRAM,
    help="Millstream: a Kafka broker without a JVM, and the commands to work with it or with any other Kafka.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


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
    command = get_command(app)
    if profile is not None:
        apply_profile(profile, command)  # type: ignore[arg-type] # an app with several commands is a group
    command(list(arguments) if is_completing else rest, prog_name=PROGRAM)


def _words_so_far() -> list[str]:
    """What has been typed, as the shells hand it over: bash in COMP_WORDS, zsh and fish in _TYPER_COMPLETE_ARGS."""
    try:
        return shlex.split(os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", ""))[1:]
    except ValueError:  # a quote that is not closed yet
        return []


@app.callback()
def options(
    *,
    profile: Annotated[
        str | None,
        typer.Option("--profile", metavar="NAME", envvar=NAME_VARIABLE, help="Brokers, registry and security from profiles.toml."),
    ] = None,
    version: Annotated[bool, typer.Option("--version", help="Print the version, and end.")] = False,
) -> None:
    """Only listed here: `run` takes `--profile` out, wherever it stands, and `main` answers `--version` before this app is built."""


@app.command("serve", help=serve.SUMMARY, add_help_option=False, context_settings={"ignore_unknown_options": True})
def serve_command(arguments: Annotated[list[str] | None, typer.Argument(metavar="[OPTIONS]")] = None) -> None:
    """Only listed here: `main` dispatches `serve` before this app is built, and its flags are defined in `serve`."""
    serve.serve(arguments or [])


app.add_typer(topic.app, name="topic")
app.add_typer(cluster.app, name="cluster")
app.add_typer(group.app, name="group")
app.add_typer(registry.app, name="registry")
app.add_typer(audit.app, name="audit")
app.add_typer(mirror.app, name="mirror")
app.add_typer(pipeline.app, name="pipeline")
app.command("produce")(produce)
app.command("consume")(consume)
app.command("query")(query.query)
app.command("top")(top)
app.command("dump-log")(dump_log.dump_log)
