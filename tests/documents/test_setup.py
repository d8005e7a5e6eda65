"""The scripts that the pages begin with: what they install, and when."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.documents.page import ROOT

PYTHON = '#!/bin/sh\necho "$@" >> "$(dirname "$0")/asked.txt"\n'


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout in which the group `run` was installed, by a python that only notes what it is asked for."""
    for name in ("scripts/setup", "pyproject.toml", "constraints.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / ".venv/bin/python").write_text(PYTHON)
    (tmp_path / ".venv/bin/python").chmod(0o755)
    install(tmp_path, '{"dir_info": {"editable": true}, "url": "file:///somewhere"}')
    set_up(tmp_path)
    return tmp_path


def install(checkout: Path, direct_url: str) -> None:
    """As pip notes it."""
    place = checkout / ".venv/lib/python3.11/site-packages/millstream-0.1.0.dist-info/direct_url.json"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(direct_url)


def set_up(checkout: Path) -> list[str]:
    """What was installed."""
    asked = checkout / ".venv/bin/asked.txt"
    asked.write_text("")
    subprocess.run(["bash", str(checkout / "scripts/setup"), "run"], check=True, capture_output=True, timeout=60)
    return asked.read_text().splitlines()


def test_nothing_is_installed_twice(checkout: Path) -> None:
    assert set_up(checkout) == []


def test_a_copy_that_pip_put_in_place_of_the_checkout_is_replaced(checkout: Path) -> None:
    install(checkout, '{"dir_info": {}, "url": "file:///somewhere"}')
    assert any(line.endswith("--editable .[registry]") for line in set_up(checkout))


def test_what_pip_cannot_install_is_said_in_a_sentence(checkout: Path) -> None:
    (checkout / ".venv/bin/python").write_text("#!/bin/sh\necho no route to host >&2\nexit 1\n")
    install(checkout, "{}")
    failed = subprocess.run(["bash", str(checkout / "scripts/setup")], check=False, capture_output=True, text=True, timeout=60)
    assert failed.returncode == 1
    assert "setup: pip could not install this: it says why above" in failed.stderr


@pytest.mark.parametrize(("script", "wrong"), [("demo", "--shrt"), ("cluster", "--embeded")])
def test_what_is_asked_wrongly_is_said_before_anything_is_installed(tmp_path: Path, script: str, wrong: str) -> None:
    for name in ("scripts", "demo"):
        shutil.copytree(ROOT / name, tmp_path / name)
    command = ["bash", str(tmp_path / "scripts" / script)]
    refused = subprocess.run([*command, wrong], check=False, capture_output=True, text=True, timeout=60)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert f"scripts/{script}: error: unrecognized arguments: {wrong}" in refused.stderr
    helped = subprocess.run([*command, "--help"], check=True, capture_output=True, text=True, timeout=60)
    assert helped.stdout.startswith(f"usage: scripts/{script}")
    assert not (tmp_path / ".venv").exists()
