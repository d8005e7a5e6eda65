"""The command `python -m demo`, which `scripts/demo` runs: everything from a site's events to tables and pictures, on this machine."""

import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from demo.flags import DemoOptions, parse
from demo.interruption import ignore_interruptions, raise_when_interrupted
from demo.narrator import Narrator
from demo.process import DemoFailed
from demo.run_directory import open_run_directory
from demo.services import Services
from demo.story import Story
from millstream.errors import MillstreamError, UsageError
from millstream.spark.session import NoJava, check_java

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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
