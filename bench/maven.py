"""Jars of others to compare with, fetched by Maven into a git-ignored cache."""

import shutil
import subprocess
from pathlib import Path
from typing import Final

from bench.case import BenchError

TIMEOUT_SECONDS: Final = 600.0


def fetch_jars(cache: Path, pom: str, *, what: str) -> Path:
    """The directory of the jars that `pom` depends on, fetched anew; BenchError says why not."""
    if shutil.which("mvn") is None:
        raise BenchError(f"there is no mvn command to fetch {what} with: install Maven")
    # Renamed when complete, so that an interrupted fetch is never taken for a whole one.
    fetched, jars = cache / "libs.fetching", cache / "libs"
    cache.mkdir(parents=True, exist_ok=True)
    (cache / "pom.xml").write_text(pom)
    command = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={fetched}", "-DincludeScope=runtime"]
    try:
        finished = subprocess.run(command, check=False, cwd=cache, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        raise BenchError(f"Maven did not fetch {what} within {TIMEOUT_SECONDS:g} s") from None
    if finished.returncode != 0:
        raise BenchError(f"Maven could not fetch {what}: {finished.stdout[-500:]}")
    shutil.rmtree(jars, ignore_errors=True)
    return fetched.rename(jars)
