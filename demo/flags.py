"""The flags of `scripts/demo`, which looks at them with any Python before it installs anything: so only the standard library here."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

DEFAULT_DIRECTORY = Path(__file__).resolve().parents[1] / ".cache" / "demo"
FEWEST_EVENTS = 1_000


@dataclass(frozen=True)
class DemoOptions:
    """What was asked for on the command line."""

    events: int = 50_000
    """About so many messages are sent."""
    seconds: float = 40.0
    """The traffic takes at least so long."""
    seed: int = 15
    keep: bool = False


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The flags."""
    options = DemoOptions()
    parser = argparse.ArgumentParser(
        prog="scripts/demo",
        description="A site's activity, from its producers through two datacentres into tables and pictures, with everything checked.",
        epilog="scripts/demo --short shows the broker alone, in a few seconds and without Spark.",
    )
    parser.add_argument("--keep", action="store_true", help="leave everything running at the end, until Ctrl-C")
    parser.add_argument("--events", metavar="N", type=int, default=options.events, help="about so many messages (default %(default)s)")
    parser.add_argument("--seconds", metavar="S", type=float, default=options.seconds, help="how long they are sent (default %(default)g)")
    parser.add_argument(
        "--seed", metavar="N", type=int, default=options.seed, help="another number is another evening (default %(default)s)"
    )
    parser.add_argument(
        "--directory", metavar="DIR", type=Path, default=DEFAULT_DIRECTORY, help="for data and results (default .cache/demo)"
    )
    flags = parser.parse_args(arguments)
    if flags.events < FEWEST_EVENTS:
        parser.error(f"--events {flags.events}: give at least {FEWEST_EVENTS}")
    if not 0 <= flags.seconds <= 3600:
        parser.error(f"--seconds {flags.seconds:g}: give 0 to 3600")
    return flags


if __name__ == "__main__":
    parse(sys.argv[1:])
