"""The Typer app: every command, in the order in which `millstream --help` lists them.

Command modules import Typer and nothing else that takes long to load: clients and rich are imported where a command runs.
"""

from typing import Annotated

import typer

from millstream.cli import audit, cluster, consume, dump_log, mirror, produce, query, registry, serve, topic
from millstream.cli.group import command as group
from millstream.cli.pipeline import app as pipeline

app = typer.Typer(
    name="millstream",
    help="Millstream: a Kafka broker without a JVM, and the commands to work with it or with any other Kafka.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


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
app.command("produce")(produce.produce)
app.command("consume")(consume.consume)
app.command("query")(query.query)
app.command("dump-log")(dump_log.dump_log)


@app.command("version")
def version() -> None:
    """Print the version of Millstream."""
    from importlib.metadata import version

    print(version("millstream"))
