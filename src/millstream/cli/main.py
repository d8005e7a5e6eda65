"""The `millstream` command: finds the command that was meant, runs it, and turns its errors into one sentence and an exit code.

`serve` has to be ready within half a second, so it is dispatched before Typer is imported (see `serve`), and `--version` needs none of it;
all other commands are Typer's, put together in `app`.

When a command fails, a person gets one sentence on stderr and an exit code, never a traceback:

    0    done
    1    could not be done: the broker cannot start, does not answer or refuses; a file is damaged; the reader of our output went away
    2    asked wrongly: an unknown flag, option or value
    3    `cluster status` was answered, and not all is well
    130  interrupted (Ctrl-C)

A mistake of Millstream's own is not caught: there the traceback is what helps.
"""

import errno
import gc
import io
import os
import re
import sys
from collections.abc import Callable

from millstream.errors import MillstreamError, StartupError, UsageError

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
UNWRITABLE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF})
"""What comes of an output that leads to a full disk, or nowhere."""


def main() -> int:
    """Entry point of the `millstream` script; returns the exit code."""
    if sys.stdout is None:
        # A shell closed it (`>&-`); the next file that is opened would take its number.
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 # it stays open; nothing else here needs pathlib
    elif isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal that is not UTF-8 cannot show every name of a group: better escaped than a traceback.
        sys.stdout.reconfigure(errors="backslashreplace")
    return run_command(lambda: _dispatch(sys.argv[1:]))


def _dispatch(arguments: list[str]) -> None:
    if arguments[:1] == ["serve"]:
        # What is made until the broker is ready stays: to look for garbage meanwhile costs a tenth of the start.
        gc.disable()
        try:
            from millstream.cli.serve.command import serve

            serve(arguments[1:])
        finally:
            gc.enable()
    elif arguments == ["--version"]:
        from importlib.metadata import version

        print(version("millstream"))
    else:
        from millstream.cli.app import run

        run(arguments)


def run_command(command: Callable[[], None]) -> int:
    """Run `command` to its end; returns the exit code, having said on stderr what went wrong."""
    try:
        try:
            command()
        finally:
            sys.stdout.flush()
    except MillstreamError as error:
        # A sentence that quotes a broker's ends with a full stop, also where that one was a question.
        print(re.sub(r"\?\.$", "?", f"millstream: {error}"), file=sys.stderr)
        return exit_code(error)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        _write_no_more()
        return EXIT_FAILED
    except PermissionError as error:
        if error.filename is None:
            raise
        where = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else error.filename
        print(f"millstream: {where}: {error.strerror}. Run this as a user who may use it, or name another place.", file=sys.stderr)
        return EXIT_FAILED
    except OSError as error:
        if error.errno not in UNWRITABLE or error.filename is not None:
            raise
        _write_no_more()
        print(f"millstream: Not everything could be written: {error.strerror}.", file=sys.stderr)
        return EXIT_FAILED
    return 0


def _write_no_more() -> None:
    """The interpreter flushes stdout once more at exit; let that go nowhere instead of complaining."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def exit_code(error: MillstreamError) -> int:
    """The exit code that stands for this error."""
    return EXIT_USAGE if isinstance(error, UsageError) and not isinstance(error, StartupError) else EXIT_FAILED


if __name__ == "__main__":
    sys.exit(main())
