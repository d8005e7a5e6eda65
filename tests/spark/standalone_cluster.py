"""Spark as a cluster on this machine: a master and workers as processes of their own, started by PySpark's own scripts."""

import os
import socket
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


def submit_command(master: str, job: Path, *arguments: str, py_files: Path | None = None) -> list[str]:
    """What runs a job with `spark-submit`; without `py_files` executors have what is installed."""
    conf = [
        "spark.driver.host=127.0.0.1",
        "spark.ui.enabled=false",
        "spark.cores.max=2",
        "spark.executor.cores=1",
        "spark.executor.memory=600m",
    ]
    command = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", master]
    if py_files is not None:
        command += ["--py-files", str(py_files)]
    for line in conf:
        command += ["--conf", line]
    return [*command, str(job), *arguments]


def submit(master: str, job: Path, *arguments: str, py_files: Path, timeout_s: float = 250) -> str:
    """Run a job to its end; returns what it printed."""
    command = submit_command(master, job, *arguments, py_files=py_files)
    done = subprocess.run(command, env=spark_environment(), capture_output=True, text=True, timeout=timeout_s, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    return done.stdout


@contextmanager
def standalone_cluster(directory: Path) -> Iterator[str]:
    """A master and two workers; yields the address for `--master`. They start side by side: a worker waits for its master."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    address = f"spark://127.0.0.1:{port}"
    master_log = directory / "master.log"
    with ExitStack() as stack:
        stack.enter_context(_daemon(master_log, "master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"))
        for number in range(WORKERS):
            places = ["--work-dir", str(directory / f"work-{number}"), "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
            log = directory / f"worker-{number}.log"
            stack.enter_context(_daemon(log, "worker.Worker", "--cores", "1", "--memory", "1g", *places, address))
        wait_until(lambda: master_log.read_text().count("Registering worker") == WORKERS, "the workers", deadline_s=150)
        yield address


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
