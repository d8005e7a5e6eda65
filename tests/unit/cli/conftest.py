"""Runs the `millstream` command inside the test's process, as the script would, and keeps what it wrote."""

import io
import json
import sys
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import pytest

from millstream.cli.main import main


class Outcome(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def documents(self) -> list[Any]:
        """Its JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]


class Millstream(Protocol):
    """Runs `millstream` with these arguments."""

    def __call__(self, *arguments: str, stdin: bytes = b"") -> Outcome: ...


@pytest.fixture
def millstream(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Millstream:
    def run(*arguments: str, stdin: bytes = b"") -> Outcome:
        capsys.readouterr()
        monkeypatch.setattr(sys, "argv", ["millstream", *arguments])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = exit_code_of(main)
        return Outcome(code, *capsys.readouterr())

    return run


def exit_code_of(entry: Callable[[], int]) -> int:
    try:
        return entry()
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else 0 if leaving.code is None else 1
