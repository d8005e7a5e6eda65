"""docs/tables.md runs as it stands: every snippet, one after the other, with the output that it shows."""

import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from millstream.testing import Broker
from tests.unit.cli.conftest import Millstream

PAGE = Path(__file__).parents[2] / "docs" / "tables.md"
BLOCK = re.compile(r"^```(python|text|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BROKERS, REGISTRY = "127.0.0.1:9092", "http://127.0.0.1:8081"


@pytest.fixture
def served() -> Iterator[Broker]:
    """What `millstream serve` is on the page; a topic with one partition appears when it is written to."""
    with Broker({"num.partitions": 1}, registry=True) as broker:
        yield broker


def test_the_page_about_tables_runs(served: Broker, millstream: Millstream, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MILLSTREAM_BROKERS", served.bootstrap_servers)
    monkeypatch.setenv("MILLSTREAM_REGISTRY", served.registry_url)
    blocks = BLOCK.findall(PAGE.read_text())
    assert [kind for kind, _ in blocks].count("python") > 7
    variables: dict[str, Any] = {}
    printed = ""
    for kind, text in blocks:
        if kind == "python":
            printed = run(text.replace(BROKERS, served.bootstrap_servers).replace(REGISTRY, served.registry_url), variables)
        elif kind == "text":
            assert printed == text
        else:
            assert run_commands(text, millstream).replace(served.bootstrap_servers, BROKERS) == text


def run(code: str, variables: dict[str, Any]) -> str:
    """What a snippet prints."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(code, str(PAGE), "exec"), variables)
    return output.getvalue()


def run_commands(text: str, millstream: Millstream) -> str:
    """A console in which the same commands are typed."""
    console = ""
    for line in text.splitlines():
        if line.startswith("$ millstream "):
            outcome = millstream(*shlex.split(line)[2:])
            shown = "".join(each.rstrip() + "\n" for each in (outcome.out + outcome.err).splitlines())
            console += f"{line}\n{shown}"
    return console
