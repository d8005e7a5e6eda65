"""The command `python -m demo`, which `scripts/demo` runs: everything from a site's events to tables and pictures, on this machine."""

import argparse
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from demo.interruption import ignore_interruptions, raise_when_interrupted
from demo.narrator import Narrator
from demo.process import ROOT, DemoFailed
from demo.run_directory import open_run_directory
from demo.services import Services
from demo.story import DemoOptions, Story
from millstream.errors import MillstreamError, UsageError
from millstream.spark.session import NoJava, check_java

DEFAULT_DIRECTORY: Final = ROOT / ".cache" / "demo"
FEWEST_EVENTS: Final = 1_000
USAGE, INTERRUPTED = 2, 130


def main(arguments: Sequence[str]) -> int:
    """0 if every check held, 1 if not, 2 if it cannot begin, 130 if it was interrupted."""
    flags = parse(arguments)
    raise_when_interrupted()
    try:
        check_java()
        with open_run_directory(flags.directory) as directory:
            options = DemoOptions(events=flags.events, seconds=flags.seconds, seed=flags.seed, keep=flags.keep)
            return run(directory, options, Narrator())
    except NoJava as error:
        sys.stderr.write(f"demo: {error} On Debian and Ubuntu: apt-get install default-jre-headless. Without Spark: scripts/demo --short\n")
        return USAGE
    except UsageError as error:
        sys.stderr.write(f"demo: {error}\n")
        return USAGE
    except KeyboardInterrupt:
        return INTERRUPTED  # before anything was started, or after everything was stopped


def run(directory: Path, options: DemoOptions, narrator: Narrator) -> int:
    """One run; whatever happens, all that it started has ended afterwards."""
    services = Services(directory)
    story = Story(services, options, narrator)
    try:
        code = 0 if story.run() else 1
        if options.keep:
            story.show_running()
            await_interrupt()
            narrator.say("Stopping everything.")
        return code
    except KeyboardInterrupt:
        sys.stderr.write("\ndemo: interrupted\n")
        return INTERRUPTED
    except (DemoFailed, MillstreamError) as error:
        sys.stderr.write(f"demo: {error}\nThe logs of all processes are in {directory / 'logs'}\n")
        return 1
    finally:
        ignore_interruptions()
        services.stop()


def await_interrupt() -> None:
    """Until Ctrl-C."""
    with suppress(KeyboardInterrupt):
        while True:
            time.sleep(3600)


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
    sys.exit(main(sys.argv[1:]))
