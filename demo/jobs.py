"""The two jobs over the offline topics, described by files as people write them, and the environment that Spark runs in here."""

import shlex
from pathlib import Path
from typing import Final

from demo.events import CLICKS, PAGE_VIEWS

LAKE: Final = "lake"
WINDOWS_TOPIC: Final = "views-per-page"
CLICKED_TABLE: Final = "clicked-views"
WINDOWS, JOIN = "windows", "join"
_MEMORY: Final = "700m"
_JVM: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""A JVM for a short life on two shared cores: what is compiled best pays only after minutes."""
_WINDOWS_FILE: Final = """# Views of each page in ten minutes, and who looked most often.
# Started with: millstream pipeline windows views_per_page.toml --final

name = "views-per-page"
brokers = "{brokers}"
registry = "{registry}"
checkpoint = "{checkpoint}"

[input]
topic = "{views}"
format = "avro"
time = "at"
watermark = "30 minutes"        # how late an event may come and still count
deduplicate = true              # by message key: what was sent twice counts once

[window]
size = "10 minutes"
by = ["page"]

[measures]
views = "count"
regulars = "top(2, user)"

[output]
topic = "{output}"
"""
_JOIN_FILE: Final = """# Page views with the clicks on them within ten minutes, and those without.
# Started with: millstream pipeline join clicked_views.toml --final

name = "clicked-views"
brokers = "{brokers}"
registry = "{registry}"
checkpoint = "{checkpoint}"

[left]
topic = "{views}"
format = "avro"
time = "at"
watermark = "30 minutes"
deduplicate = true

[right]
topic = "{clicks}"
format = "avro"
time = "at"
watermark = "30 minutes"
deduplicate = true

[join]
type = "left"
on = ["view"]
within = "10 minutes"

[output]
table = "{output}"
"""


def write_job_files(directory: Path, *, brokers: str, registry: str) -> dict[str, Path]:
    """The files, by the command that takes each."""
    place = {"brokers": brokers, "registry": registry, "views": PAGE_VIEWS}
    windows = _WINDOWS_FILE.format(**place, checkpoint=directory / "checkpoints" / WINDOWS, output=WINDOWS_TOPIC)
    join = _JOIN_FILE.format(**place, clicks=CLICKS, checkpoint=directory / "checkpoints" / JOIN, output=directory / LAKE / CLICKED_TABLE)
    files = {WINDOWS: windows_file(directory), JOIN: directory / "jobs" / "clicked_views.toml"}
    files[WINDOWS].parent.mkdir(exist_ok=True)
    files[WINDOWS].write_text(windows)
    files[JOIN].write_text(join)
    return files


def windows_file(directory: Path) -> Path:
    """Where the windows job is described."""
    return directory / "jobs" / "views_per_page.toml"


def spark_environment(directory: Path) -> dict[str, str]:
    """Little memory for each driver, because several run beside each other, and a place for what they keep while they run."""
    options = ["--driver-memory", _MEMORY, "--driver-java-options", _JVM, "--conf", f"spark.local.dir={directory / 'spark'}"]
    return {"PYSPARK_SUBMIT_ARGS": shlex.join([*options, "pyspark-shell"])}
