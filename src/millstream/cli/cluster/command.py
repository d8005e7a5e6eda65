"""`millstream cluster`: every command, each in a file of its own."""

import typer

from millstream.cli.cluster.disks.command import disks
from millstream.cli.cluster.drain import drain
from millstream.cli.cluster.elect import elect
from millstream.cli.cluster.reassign import reassign
from millstream.cli.cluster.rebalance import rebalance
from millstream.cli.cluster.status import status

app = typer.Typer(help="Show how a cluster is, and move its partitions.", no_args_is_help=True)
app.command("status")(status)
app.command("rebalance")(rebalance)
app.command("drain")(drain)
app.command("reassign")(reassign)
app.command("disks")(disks)
app.command("elect")(elect)
