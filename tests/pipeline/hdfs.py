"""A real HDFS for a test: Hadoop's minicluster, a name node and a data node in one process, of jars that Maven brings into the cache.

python -m tests.pipeline.hdfs      fetches them, 45 MB; nothing else needs them, so where they are missing tests are skipped
"""

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest

from bench.maven import fetch_jars
from tests.ports import free_port
from tests.waiting import wait_until

CACHE = Path(__file__).parents[2] / ".cache" / "hadoop-3.5.0"
VERSION = "3.5.0"
"""That of the Hadoop that PySpark brings."""
_POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>millstream.tests</groupId><artifactId>hdfs</artifactId><version>1</version><dependencies>
<dependency><groupId>org.apache.hadoop</groupId><artifactId>hadoop-client-minicluster</artifactId><version>{VERSION}</version>
<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>
<dependency><groupId>org.junit.jupiter</groupId><artifactId>junit-jupiter-api</artifactId><version>5.13.4</version></dependency>
</dependencies></project>"""


@contextmanager
def small_hdfs(directory: Path) -> Iterator[str]:
    """An HDFS; yields its address. Skips the test where Java or the jars are missing."""
    java = shutil.which("java")
    if java is None:
        pytest.skip("no Java here")
    if not any((CACHE / "libs").glob("hadoop-client-minicluster-*.jar")):
        pytest.skip("Hadoop's minicluster is not in .cache/hadoop-3.5.0: python -m tests.pipeline.hdfs fetches it")
    classes = f"{CACHE}/libs/*:{Path(pyspark.__file__).parent}/jars/*"
    details, port = directory / "details.json", free_port()
    command = [
        java,
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        "-Xmx512m",
        "-cp",
        classes,
        "org.apache.hadoop.test.MiniDFSClusterManager",
    ]
    options = ["-datanodes", "1", "-nnport", str(port), "-writeDetails", str(details), "-format"]
    with (directory / "hdfs.log").open("wb") as log:
        process = subprocess.Popen([*command, *options], cwd=directory, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        wait_until(lambda: details.exists() and details.read_text().endswith("}"), "the name node", deadline_s=200)
        yield f"hdfs://127.0.0.1:{json.loads(details.read_text())['namenode_port']}"
    finally:
        process.kill()
        process.wait(timeout=30)


if __name__ == "__main__":
    print(fetch_jars(CACHE, _POM, what="Hadoop's minicluster"))
