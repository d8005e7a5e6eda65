"""The service and the container that the page about the first week shows are those in `examples/service`, and do what they say.

Neither systemd nor podman runs here. What they would execute is taken from the files, word for word, and executed in a copy of this
machine's files: of the unit its ExecStart line, of the Containerfile its COPY and RUN lines and what the container starts with, both as
their user. Instead of the image's Python it is that of the tests.
"""

import configparser
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from millstream.cli.serve.command import parse_flags
from tests.documents.page import ROOT, Page
from tests.documents.scratch_machine import ALONE, run_in_scratch_machine

EXAMPLES = ROOT / "examples" / "service"

SERVED = r"""
{start} >/tmp/broker.out 2>&1 &
broker=$!
for _ in $(seq 600); do
  grep --quiet '^ready:' /tmp/broker.out && break
  kill -0 $broker 2>/dev/null || break
  sleep 0.1
done
if ! grep '^ready:' /tmp/broker.out; then cat /tmp/broker.out >&2; exit 1; fi
echo a message | millstream produce page-views
millstream consume page-views --count 1 --from earliest
millstream registry subjects
python -c 'from urllib.request import urlopen; print(urlopen("http://127.0.0.1:9308/ready").status)'
kill -TERM $broker
wait $broker && echo stopped
stat --format='%U owns the data' /var/lib/millstream/meta.properties
"""
"""A broker that is started, used and stopped; by whom its files are, is in the last line."""
AS_MILLSTREAM = "setpriv --reuid=millstream --regid=millstream --clear-groups"


def served(start: str) -> str:
    return f"{ALONE} bash -euo pipefail -c {shlex.quote(SERVED.format(start=start))}"


def assert_it_was_served(output: str) -> None:
    ready, *rest = output.splitlines()
    assert ready.startswith("ready: broker ")
    assert ready.endswith(" data /var/lib/millstream")
    assert rest == ["a message", "subject  version  id", "200", "stopped", "millstream owns the data"]


def service_unit() -> configparser.ConfigParser:
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign] # as configparser's documentation does it
    unit.read(EXAMPLES / "millstream.service")
    return unit


@pytest.mark.parametrize("name", ["millstream.service", "Containerfile"])
def test_the_page_shows_the_example(name: str) -> None:
    [shown] = [block for block in Page(ROOT / "docs" / "first-week.md").blocks if block.file == name]
    assert shown.text == (EXAMPLES / name).read_text()


def test_the_service_starts_a_broker_with_options_that_exist() -> None:
    unit = service_unit()
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


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze")
def test_systemd_understands_every_line_of_the_service(tmp_path: Path) -> None:
    unit = tmp_path / "millstream.service"
    unit.write_text((EXAMPLES / unit.name).read_text().replace("/opt/millstream/.venv", sys.prefix))
    checked = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, timeout=60, check=False)
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")


def test_what_the_service_starts_serves(tmp_path: Path) -> None:
    service = service_unit()["Service"]
    user, state, start = service["User"], service["StateDirectory"], service["ExecStart"]
    script = f"""
    useradd --system {user}
    install --directory /opt/millstream && ln -s {shlex.quote(sys.prefix)} /opt/millstream/.venv
    install --directory --owner {user} /var/lib/{state}
    export PATH="/opt/millstream/.venv/bin:$PATH"
    {served(f"{AS_MILLSTREAM} {start}")}
    """
    assert_it_was_served(run_in_scratch_machine(script, scratch=tmp_path, timeout=110))


@pytest.mark.long  # it downloads what the image gets, as the Containerfile says, without a cache
@pytest.mark.timeout(600)
def test_what_the_container_is_built_with_serves(tmp_path: Path) -> None:
    text = (EXAMPLES / "Containerfile").read_text().replace("\\\n", "")
    steps = re.findall(r"^(COPY|RUN|USER|ENTRYPOINT|CMD) (.*)$", text, re.MULTILINE)
    start = [word for step, words in steps if step in {"ENTRYPOINT", "CMD"} for word in json.loads(words)]
    build = [f"cp --recursive {words}" if step == "COPY" else words for step, words in steps if step in {"COPY", "RUN"}]
    assert [words for step, words in steps if step == "USER"] == ["millstream"]
    script = f"""
    {shlex.quote(sys.executable)} -m venv /usr/local/image
    export PATH="/usr/local/image/bin:$PATH"
    mkdir /build
    cd {shlex.quote(str(ROOT))}
    {{ {"; ".join(build)}; }} >&2
    cd /
    {served(f"{AS_MILLSTREAM} {shlex.join(start)}")}
    """
    assert_it_was_served(run_in_scratch_machine(script, scratch=tmp_path, timeout=590))
