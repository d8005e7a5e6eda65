"""The flags of `scripts/cluster`, which looks at them with any Python before it installs anything: so only the standard library here."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

MOST_BROKERS = 20


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The flags."""
    parser = argparse.ArgumentParser(prog="scripts/cluster", description="Starts a real ZooKeeper and N brokers on this machine.")
    parser.add_argument("count", metavar="N", type=int, nargs="?", default=3, help="number of brokers (default 3)")
    parser.add_argument("--embedded", action="store_true", help="without Java: the first broker keeps the znodes for all")
    parser.add_argument("--data", metavar="DIR", type=Path, help="keep data and logs there, and go on with what is there")
    parser.add_argument("--keep", action="store_true", help="do not remove the data at the end (without --data: .cache/cluster-...)")
    parser.add_argument(
        "-X", metavar="NAME=VALUE", dest="options", action="append", type=option, default=[], help="an option of all brokers"
    )
    flags = parser.parse_args(arguments)
    if not 1 <= flags.count <= MOST_BROKERS:
        parser.error(f"N must be 1 to {MOST_BROKERS}, and is {flags.count}")
    return flags


def option(text: str) -> tuple[str, str]:
    """An option of the brokers and its value."""
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


if __name__ == "__main__":
    parse(sys.argv[1:])
