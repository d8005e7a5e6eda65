"""Starting Spark from Python so that it works: a Java that is new enough, and workers that run the interpreter of the driver.

Spark's own way of saying that there is no Java is a traceback, and its workers take whatever `python3` is first in the PATH: in a virtual
environment that is one without pyarrow. Whoever starts Spark here goes through `start_session`.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from millstream.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLDEST_JAVA: Final = 17
_JAVA_TIMEOUT_S: Final = 30.0


class NoJava(UsageError):
    """Spark runs on Java, and there is none here that is new enough."""


def start_session(name: str, *, master: str | None = None, options: Mapping[str, str] | None = None) -> "SparkSession":
    """A session of Spark, the running one if there is one; `master` and `options` are Spark's own."""
    check_pyspark()
    check_java()
    from pyspark.sql import SparkSession  # takes a second, and who only asks for Java need not pay it

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    if master is not None:
        builder = builder.master(master)
    for option, value in (options or {}).items():
        builder = builder.config(option, value)
    return builder.getOrCreate()


def check_pyspark() -> None:
    """Raises `UsageError`, in one sentence, unless PySpark is installed."""
    if find_spec("pyspark") is None:
        raise UsageError("Spark needs pyspark: pip install '.[spark]' in a checkout of Millstream")


def check_java() -> None:
    """Raises `NoJava`, in one sentence, unless Spark would find a Java that it can run on."""
    java = _find_java()
    if java is None:
        raise NoJava(f"Spark needs Java {OLDEST_JAVA} or newer and there is no java command: install one, or set JAVA_HOME to it.")
    major = _java_version(java)
    if major is None:
        raise NoJava(f"Spark needs Java {OLDEST_JAVA} or newer, and {java} does not say its version: set JAVA_HOME to one that works.")
    if major < OLDEST_JAVA:
        raise NoJava(f"Spark needs Java {OLDEST_JAVA} or newer, and {java} is {major}: install a newer one, or set JAVA_HOME to it.")


def _find_java() -> str | None:
    if home := os.environ.get("JAVA_HOME"):
        java = Path(home) / "bin" / "java"
        return str(java) if os.access(java, os.X_OK) else None
    return shutil.which("java")


def _java_version(java: str) -> int | None:
    try:
        # The user's own Java.
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=_JAVA_TIMEOUT_S, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return None
    # "1.8.0_392" is how Java 8 and older call themselves.
    found = re.search(r'version "(?:1\.)?(\d+)', said.stderr + said.stdout)
    return int(found[1]) if found else None
