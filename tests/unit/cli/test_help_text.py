"""What `--help` of every command shows, however Typer would have it."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command

from millstream.cli.app import make_app
from tests.unit.cli.conftest import Millstream


def all_commands(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    below = getattr(command, "commands", {})
    yield words
    for name, one in below.items():
        if name != "serve":  # argparse's, see test_serve
            yield from all_commands(one, (*words, name))


@pytest.mark.parametrize("words", list(all_commands(get_command(make_app(None)))), ids=" ".join)
def test_help_names_no_types_of_python_and_usage_has_brackets_once(millstream: Millstream, words: tuple[str, ...]) -> None:
    shown = millstream(*words, "--help").out
    assert "<bool>" not in shown
    assert "list[" not in shown
    usage = re.search(r"Usage: .*", shown)
    assert usage is not None
    assert "[[" not in usage.group()


def test_a_paragraph_of_help_is_as_wide_as_the_terminal(millstream: Millstream) -> None:
    shown = " ".join(millstream("cluster", "drain", "--help").out.split())
    assert "may be placed on it: then it says so" in shown
    lines = [line.strip() for line in millstream("cluster", "drain", "--help").out.splitlines()]
    assert not any(line.endswith("placed on it: then") for line in lines)


def test_what_may_be_repeated_is_called_what_each_of_them_is(millstream: Millstream) -> None:
    shown = " ".join(millstream("cluster", "reassign", "--help").out.split())
    assert "--topic -t <str> Move this topic" in shown
