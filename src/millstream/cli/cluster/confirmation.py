"""Asks before something is done; where there is nobody to ask, `--yes` has to be given."""

import sys

import typer

from millstream.errors import CommandFailed


def confirm(question: str, *, yes: bool) -> bool:
    """Whether to go on; raises where the question cannot be asked."""
    if yes:
        return True
    if not sys.stdin.isatty():
        raise CommandFailed("Nothing was changed, because this is no terminal to ask at: repeat with --yes to do it.")
    if typer.confirm(question):
        return True
    print("Nothing was changed.")
    return False
