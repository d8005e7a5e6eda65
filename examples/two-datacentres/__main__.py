"""Two datacentres on this machine, a mirror between them, faults, and an audit that proves that nothing was lost. See README.md.

python examples/two-datacentres [--live zookeeper|embedded|kafka] [--brokers N] [--outage SECONDS]
"""
# ruff: noqa: INP001, T201 - an example is a script, and prints

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.cluster.server_process import missing_zookeeper  # noqa: E402 - the project's own rig is not installed
from tests.datacentres.story import Story  # noqa: E402
from tests.java import is_java_there  # noqa: E402


def main() -> int:
    """0 if every check held."""
    chosen = _arguments()
    if chosen.live == "kafka" and not is_java_there():
        print("Apache Kafka needs Java and its jars in .cache/kafka-4.2.0/libs (scripts/bench puts them there)", file=sys.stderr)
        return 2
    began = time.monotonic()
    directory = Path(tempfile.mkdtemp(prefix="two-datacentres-"))
    offline = "embedded" if missing_zookeeper() else "zookeeper"
    try:
        with Story(
            directory, live=chosen.live, offline=offline, brokers=chosen.brokers, outage_s=chosen.outage, say=_say_since(began)
        ) as story:
            story.tell()
    except AssertionError as error:
        print(f"\nA check failed: {error}\nWhat the processes wrote is in {directory}", file=sys.stderr)
        return 1
    shutil.rmtree(directory)
    print("Every check held.")
    return 0


def _say_since(began: float):  # type: ignore[no-untyped-def]  # noqa: ANN202
    def say(what: str) -> None:
        print(f"{time.monotonic() - began:6.1f} s  {what}", flush=True)

    return say


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--live",
        choices=["zookeeper", "embedded", "kafka"],
        default="embedded" if missing_zookeeper() else "zookeeper",
        help="what the live datacentre is: Millstream on a real ZooKeeper, on ours, or Apache Kafka (default %(default)s)",
    )
    parser.add_argument("--brokers", type=int, choices=[1, 3], default=1, help="in each datacentre (default 1)")
    parser.add_argument("--outage", type=float, default=60, metavar="SECONDS", help="how long there is no ZooKeeper (default 60)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
