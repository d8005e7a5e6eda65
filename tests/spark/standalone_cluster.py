"""Spark as a cluster on this machine: a master and workers as processes of their own, started by PySpark's own scripts."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from tests.waiting import wait_until

SPARK_HOME = Path(pyspark.__file__).parent
WORKERS = 2


def spark_environment() -> dict[str, str]:
    """What Spark's scripts have to know: where it is, and which Python runs its workers. Nothing of this checkout is on the path."""
    kept = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "SPARK_HOME"}}
    return kept | {"SPARK_HOME": str(SPARK_HOME), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}


def submit(master: str, job: Path, *arguments: str, py_files: Path) -> str:
    """Run a job to its end with `spark-submit`; returns what it printed."""
    conf = [
        "spark.driver.host=127.0.0.1",
        "spark.ui.enabled=false",
        "spark.cores.max=2",
        "spark.executor.cores=1",
        "spark.executor.memory=600m",
    ]
    command = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", master, "--py-files", str(py_files)]
    for line in conf:
        command += ["--conf", line]
    done = subprocess.run(
        [*command, str(job), *arguments], env=spark_environment(), capture_output=True, text=True, timeout=110, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    return done.stdout


@contextmanager
def standalone_cluster(directory: Path) -> Iterator[str]:
    """A master and two workers; yields the address for `--master`."""
    with ExitStack() as stack:
        master_log = directory / "master.log"
        stack.enter_context(_daemon(master_log, "master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"))
        address = str(wait_until(lambda: _address_in(master_log), "the master", deadline_s=60))
        for number in range(WORKERS):
            places = ["--work-dir", str(directory / f"work-{number}"), "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
            log = directory / f"worker-{number}.log"
            stack.enter_context(_daemon(log, "worker.Worker", "--cores", "1", "--memory", "1g", *places, address))
        wait_until(lambda: master_log.read_text().count("Registering worker") == WORKERS, "the workers", deadline_s=60)
        yield address


def _address_in(master_log: Path) -> str | None:
    found = re.search(r"Starting Spark master at (spark://\S+)", master_log.read_text())
    return found[1] if found else None


@contextmanager
def _daemon(log: Path, name: str, *arguments: str) -> Iterator[None]:
    command = [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments]
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=spark_environment(), stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        yield
    finally:
        process.terminate()
        process.wait(timeout=30)
