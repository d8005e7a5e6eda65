"""The `millstream` command: finds the command that was meant, runs it, and turns its errors into one sentence and an exit code.

`serve` has to be ready within half a second, so it is dispatched before Typer is imported (see `serve`); all other commands are Typer's,
put together in `app`.
"""

import gc
import sys

from millstream.cli.failures import run_command


def main() -> int:
    """Entry point of the `millstream` script; returns the exit code."""
    return run_command(lambda: _dispatch(sys.argv[1:]))


def _dispatch(arguments: list[str]) -> None:
    if arguments[:1] == ["serve"]:
        # What is made until the broker is ready stays: to look for garbage meanwhile costs a tenth of the start.
        gc.disable()
        try:
            from millstream.cli.serve import serve

            serve(arguments[1:])
        finally:
            gc.enable()
    else:
        from millstream.cli.app import app

        app(arguments, prog_name="millstream")


if __name__ == "__main__":
    sys.exit(main())
