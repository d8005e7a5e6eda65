"""Apache Kafka's own jars, where they are: the peer that the client tests can run against, and its tools.

`scripts/` may put the jars of Kafka 4.2 under `.cache/kafka-4.2.0/libs`; nothing in the project needs them, so whoever asks for them where
they are missing is skipped with a reason.
"""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

LIBRARIES = Path(__file__).parent.parent / ".cache" / "kafka-4.2.0" / "libs"
SMALL_MACHINE = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m"]
"""A JVM for one short test on two shared cores."""


def is_java_there() -> bool:
    """Whether Java and Kafka's jars are here."""
    return shutil.which("java") is not None and any(LIBRARIES.glob("kafka-clients-*.jar"))


def java_command(main_class: str, *arguments: str, jvm: Sequence[str] = SMALL_MACHINE) -> list[str]:
    """The command line for one of Kafka's classes; skips the test where Java or the jars are missing."""
    java = shutil.which("java")
    if java is None:
        pytest.skip("no Java here")
    if not any(LIBRARIES.glob("kafka-clients-*.jar")):
        pytest.skip("Kafka's jars are not in .cache/kafka-4.2.0/libs")
    return [java, *jvm, "-cp", f"{LIBRARIES}/*", main_class, *arguments]


def run_tool(main_class: str, *arguments: str, stdin: str | None = None) -> str:
    """Run one of Kafka's tools to its end and return what it printed; a failure shows all of it."""
    command = java_command(main_class, *arguments)
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, f"{main_class} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout
