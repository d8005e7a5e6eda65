"""The `millstream` command: finds the command that was meant, runs it, and turns its errors into one sentence and an exit code.

`serve` has to be ready within half a second, so it is dispatched before Typer is imported (see `serve`); all other commands are Typer's,
put together in `app`.
"""

import sys

from millstream.cli.failures import run_command


def main() -> int:
    """Entry point of the `millstream` script; returns the exit code."""
    return run_command(lambda: _dispatch(sys.argv[1:]))


def _dispatch(arguments: list[str]) -> None:
    if arguments[:1] == ["serve"]:
        from millstream.cli.serve import serve

        serve(arguments[1:])
    else:
        from millstream.cli.app import app

        app(arguments, prog_name="millstream")


if __name__ == "__main__":
    sys.exit(main())
