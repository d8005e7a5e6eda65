"""Python processes in which some packages are not installed, as far as anything in them can see; their children lack them too."""

import os
from collections.abc import Mapping
from pathlib import Path

BLOCKER = """
import os
from importlib.machinery import PathFinder

found, blocked = PathFinder.find_spec, os.environ["BLOCKED"].split(",")
PathFinder.find_spec = lambda name, *where: None if name.partition(".")[0] in blocked else found(name, *where)
"""


def environment_without(directory: Path, *packages: str) -> Mapping[str, str]:
    """The environment of such a process; Python runs the blocker in `directory` before anything else."""
    (directory / "sitecustomize.py").write_text(BLOCKER)
    return {**os.environ, "PYTHONPATH": str(directory), "BLOCKED": ",".join(packages)}
