"""Two datacentres on this machine, a mirror between them, faults, and an audit that proves that nothing was lost. See README.md.

python examples/two-datacentres [--live zookeeper|embedded|kafka] [--brokers 1|3] [--outage SECONDS]
"""
# ruff: noqa: INP001, T201 - an example is a script, and prints

import argparse
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

# The rig of the project's tests, which is not installed.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.cluster.server_process import missing_zookeeper
from tests.datacentres.story import Story
from tests.java import is_java_there

BEGAN = time.monotonic()
OWN_ZOOKEEPER = "embedded" if missing_zookeeper() else "zookeeper"


def main() -> int:
    """0 if every check held."""
    chosen = arguments()
    if chosen.live == "kafka" and not is_java_there():
        print("Apache Kafka needs Java, and its jars in .cache/kafka-4.2.0/libs, where scripts/bench puts them", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    directory = Path(tempfile.mkdtemp(prefix="two-datacentres-"))
    try:
        with Story(directory, live=chosen.live, offline=OWN_ZOOKEEPER, brokers=chosen.brokers, outage_s=chosen.outage, say=say) as story:
            story.tell()
    except AssertionError as error:
        print(f"\nA check failed: {error}\nWhat the processes wrote is in {directory}", file=sys.stderr)
        return 1
    shutil.rmtree(directory)
    say("Every check held.")
    return 0


def say(what: str) -> None:
    """A line for the person who watches."""
    print(f"{time.monotonic() - BEGAN:6.1f} s  {what}", flush=True)


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="two-datacentres", description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--live",
        choices=["zookeeper", "embedded", "kafka"],
        default=OWN_ZOOKEEPER,
        help="what the live datacentre is: Millstream on a real ZooKeeper, or on ours, or Apache Kafka (default %(default)s)",
    )
    parser.add_argument("--brokers", type=int, choices=[1, 3], default=1, help="in each datacentre (default 1)")
    parser.add_argument("--outage", type=float, default=60, metavar="SECONDS", help="how long there is no ZooKeeper (default 60)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
