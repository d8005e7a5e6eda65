"""`scripts/setup`, which the pages begin with: it returns at once only where nothing has to be done."""

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
