"""`scripts/faults`: faults on three brokers for as long as one likes."""

import argparse
import faulthandler
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from tests.cluster.faults.faults import KINDS, NEED_A_DISK
from tests.cluster.faults.rig import make_rig
from tests.cluster.faults.run import Plan, Run, say

SESSION_TIMEOUT_MS = 6_000


def main() -> int:
    """0 if every promise was kept."""
    chosen = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    faulthandler.register(signal.SIGUSR1)
    directory = Path(tempfile.mkdtemp(prefix=f"faults-{chosen.peer}-{chosen.seed}-", dir=chosen.directory))
    say(f"the brokers' output and data go to {directory}")
    plan = Plan(chosen.faults, seed=chosen.seed, seconds=chosen.seconds, partitions=chosen.partitions, rate=chosen.rate)
    needs_a_disk = not NEED_A_DISK.isdisjoint(chosen.faults)
    with make_rig(chosen.peer, directory, session_timeout_ms=chosen.session_timeout_ms, needs_a_disk=needs_a_disk) as rig:
        report = Run(rig, plan).run()
    print("\n".join(report.lines()))
    if chosen.output is not None:
        report.write(chosen.output)
    if report.is_good and not chosen.keep:
        shutil.rmtree(directory)
    else:
        print(f"the brokers' output and data are in {directory}")
    return 0 if report.is_good else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/faults", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, metavar="N", help="no further fault begins after that (default 600)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="decides the order of faults and whom they hit (default 1)")
    parser.add_argument("--peer", choices=["millstream", "kafka"], default="millstream", help="whose brokers (default millstream)")
    parser.add_argument("--faults", type=_kinds, default=sorted(KINDS), metavar="NAME,...", help=f"of {', '.join(sorted(KINDS))}")
    parser.add_argument("--partitions", type=int, default=6, metavar="N", help="of the topic that is written to (default 6)")
    parser.add_argument("--rate", type=float, default=100, metavar="N", help="records a second of each of three producers (default 100)")
    parser.add_argument("--session-timeout-ms", type=int, default=SESSION_TIMEOUT_MS, metavar="MS", help="(default %(default)s)")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the result as JSON")
    parser.add_argument("--directory", type=Path, metavar="DIR", help="where brokers keep their files (default: temporary files)")
    parser.add_argument("--keep", action="store_true", help="keep those files; they are always kept when something is wrong")
    return parser.parse_args()


def _kinds(text: str) -> list[str]:
    names = text.split(",")
    unknown = sorted(set(names) - set(KINDS))
    if unknown:
        raise argparse.ArgumentTypeError(f"there is no fault {', '.join(unknown)}; there are {', '.join(sorted(KINDS))}")
    return names


if __name__ == "__main__":
    sys.exit(main())
