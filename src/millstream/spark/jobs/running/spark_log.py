"""Where Spark's own words go: a file beside the checkpoint, `millstream-spark.log`, with warnings, errors and their tracebacks.

On a terminal they would bury what the job says: a page at every start, and some pages around each error. The file gets Spark's log (by
`log4j2.properties`, which is part of this package) and everything that the JVM and Python's workers write to their stderr.
"""

import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from millstream.spark.jobs.running.progress import local_directory

FILE_NAME: Final = "millstream-spark.log"
_CONFIGURATION: Final = Path(__file__).with_name("log4j2.properties")
_STDERR: Final = 2
_MOST_TAIL_BYTES: Final = 20_000


def log_path(name: str, checkpoint: str) -> Path:
    """The file of a job: in the directory of its checkpoint, or where temporary files are if that is not on this machine."""
    directory = local_directory(checkpoint)
    if directory is None:
        return Path(tempfile.gettempdir(), f"millstream-{name}-spark.log")
    return directory.absolute() / FILE_NAME


def log_options(log: Path) -> dict[str, str]:
    """Spark's options for a driver that writes there; they count for a JVM that is not started yet."""
    words = {"log4j2.configurationFile": _CONFIGURATION, "millstream.spark.log": log}
    return {"spark.driver.extraJavaOptions": " ".join(f'"-D{name}={value}"' for name, value in words.items())}


@contextmanager
def stderr_of_new_processes(log: Path) -> Iterator[None]:
    """Processes that are started meanwhile write their stderr to the file, for as long as they live."""
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stderr.flush()
    ours = os.dup(_STDERR)
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.dup2(file, _STDERR)
        with warnings.catch_warnings():
            # PySpark's, of releases of pandas and Python to come: nothing that who runs a job can do anything about.
            warnings.simplefilter("ignore", FutureWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
            yield
    finally:
        os.dup2(ours, _STDERR)
        os.close(ours)
        os.close(file)


def last_words(log: Path) -> str:
    """The end of the file."""
    try:
        with log.open("rb") as file:
            file.seek(max(file.seek(0, os.SEEK_END) - _MOST_TAIL_BYTES, 0))
            return file.read().decode(errors="replace")
    except OSError:
        return ""
