"""What the demo suggests to try: commands that exist, with flags that exist."""

import shlex
from pathlib import Path

import pytest
import typer

from demo.advice import advice, advice_while_running, shown
from demo.process import ROOT, Process
from demo.services import Services
from millstream.cli.app import make_app
from millstream.cli.serve.command import parse_flags


@pytest.fixture
def running(tmp_path: Path) -> Services:
    """Services as they are while everything runs, but for the processes."""
    services = Services(tmp_path)
    places = ("live", "coordination", "metrics", "offline", "registry")
    services.addresses = {name: f"127.0.0.1:{port}" for port, name in enumerate(places, 9000)}
    broker = Process("live-broker", ["/usr/bin/env", "true"], tmp_path)
    broker.start()
    broker.wait()
    broker.command = ["millstream", "serve", "--listen", "127.0.0.1:9000", "--no-audit"]
    services.processes.append(broker)
    return services


def test_every_suggested_command_is_understood(running: Services) -> None:
    group = typer.main.get_command(make_app(None))
    commands = [line for line in advice_while_running(running) if line.startswith(".venv/bin/millstream")]
    assert len(commands) > 5
    for line in commands:
        words = shlex.split(line)[1:]
        command, path = group, ["millstream"]
        while hasattr(command, "commands"):
            path.append(words.pop(0))
            command = command.commands[path[-1]]
        # Raises if it does not know a flag.
        command.make_context(" ".join(path), words)


def test_the_killed_broker_can_be_brought_back_as_it_is_said(running: Services) -> None:
    [line] = [line for line in advice_while_running(running) if line.startswith("kill -9")]
    assert f"kill -9 {running.live_broker.pid} " in line
    words = shlex.split(line.partition("# then: ")[2])
    assert words[:2] == [".venv/bin/millstream", "serve"]
    assert parse_flags(words[2:]).no_audit


def test_paths_are_shown_as_in_the_checkout() -> None:
    assert shown(ROOT / ".cache" / "demo") == Path(".cache/demo")
    assert shown(Path("/elsewhere")) == Path("/elsewhere")
    assert any("'.cache/demo/lake/page-views'" in line for line in advice(ROOT / ".cache" / "demo"))
