"""Programs in Go that others use with Kafka: `scripts/setup` builds them where Go is and its proxy has them, or they are installed."""

import shutil
from pathlib import Path

import pytest

BUILT = Path(__file__).parent.parent / ".cache" / "go"


def go_program(name: str) -> str:
    """Where a program is; the test is skipped where it is not."""
    found = shutil.which(name, path=str(BUILT)) or shutil.which(name)
    if found is None:
        pytest.skip(f"no {name} here: scripts/setup builds it where Go is and its proxy has it")
    return found
