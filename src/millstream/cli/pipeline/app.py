"""`millstream pipeline`: loads, windows and joins on Spark; one file per command, all of them listed here.

Command modules import Typer and nothing of Spark: `--help` and a typing mistake answer at once, on machines without Java too.
"""

import typer

from millstream.cli.pipeline import join, load, maintain, picture, replay, status, windows

app = typer.Typer(help="Run jobs on Spark: load topics into a lake, count in windows, join streams.", no_args_is_help=True)
app.command("load")(load.load)
app.command("windows")(windows.windows)
app.command("join")(join.join)
app.command("replay")(replay.replay)
app.command("picture")(picture.picture)
app.command("maintain")(maintain.maintain)
app.command("status")(status.status)
