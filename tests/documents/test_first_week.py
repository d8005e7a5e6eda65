"""The service and the container that the page about the first week shows are those in `examples/service`, and speak of what there is."""

import configparser
import json
import re
import shlex
from pathlib import Path

import pytest

from millstream.cli.serve import parse_flags
from tests.documents.page import ROOT, Page

EXAMPLES = ROOT / "examples" / "service"


@pytest.mark.parametrize("name", ["millstream.service", "Containerfile"])
def test_the_page_shows_the_example(name: str) -> None:
    [shown] = [block for block in Page(ROOT / "docs" / "first-week.md").blocks if block.file == name]
    assert shown.text == (EXAMPLES / name).read_text()


def test_the_service_starts_a_broker_with_options_that_exist() -> None:
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign] # as configparser's documentation does it
    unit.read(EXAMPLES / "millstream.service")
    program, command, *flags = shlex.split(unit["Service"]["ExecStart"])
    assert (program.rpartition("/")[2], command) == ("millstream", "serve")
    assert parse_flags(flags).data == [Path("/var/lib", unit["Service"]["StateDirectory"])]


def test_the_container_starts_a_broker_with_options_that_exist() -> None:
    text = (EXAMPLES / "Containerfile").read_text()
    entry, given = (json.loads(found) for found in re.findall(r"^(?:ENTRYPOINT|CMD) (\[.*\])$", text, re.MULTILINE))
    assert entry[:2] == ["millstream", "serve"]
    assert parse_flags([*entry[2:], *given]).advertise == "localhost:9092"


def test_what_goes_into_the_container_is_in_the_checkout() -> None:
    lines = re.findall(r"^COPY (.*) \S+$", (EXAMPLES / "Containerfile").read_text(), re.MULTILINE)
    copied = [name for line in lines for name in line.split()]
    assert "constraints.txt" in copied
    assert [name for name in copied if not (ROOT / name).exists()] == []
