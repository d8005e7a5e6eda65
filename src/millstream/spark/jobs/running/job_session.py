"""The Spark session that jobs run in: the settings that are right for streams of ours, on one machine or on a cluster.

State is kept in RocksDB with a change log, because the heap of a job should not grow with its keys; the number of shuffle partitions is
that of the cores (Spark's 200 cost seconds per micro-batch); times are UTC. On one machine everything binds to loopback and there is no web
page. A session that is running already, and one of spark-submit, are taken as they are.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from millstream.spark.jobs.running.spark_log import log_options, stderr_of_new_processes
from millstream.spark.session import start_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_MASTER: Final = "local[*]"
_ALWAYS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
    # The process that plans a stream may take long to start where the cores are busy.
    "spark.python.authenticate.socketTimeout": "90s",
}
_ON_ONE_MACHINE: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.python.unix.domain.socket.enabled": "true",
}


def start_job_session(
    name: str, *, master: str | None = None, options: Mapping[str, str] | None = None, log: Path | None = None
) -> "SparkSession":
    """A session for jobs, or the running one; `master` is Spark's. Without it, what spark-submit was given, or this machine.

    A JVM that is started for it writes to the file `log`; without, to stderr.
    """
    # Set by spark-submit, whose master a session must not overrule.
    is_submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    wanted = master or (None if is_submitted else DEFAULT_MASTER)
    given = {**job_options(wanted), **(options or {})}
    if log is None or is_submitted:
        return start_session(f"millstream-{name}", master=wanted, options=given)
    with stderr_of_new_processes(log):
        return start_session(f"millstream-{name}", master=wanted, options=given | log_options(log))


def job_options(master: str | None) -> dict[str, str]:
    """Spark's options for jobs on this master; None: one that is not known here."""
    cores = None if master is None else local_cores(master)
    if cores is None:
        return dict(_ALWAYS)
    return {**_ALWAYS, **_ON_ONE_MACHINE, "spark.sql.shuffle.partitions": str(cores)}


def local_cores(master: str) -> int | None:
    """How many cores a master of this machine uses; None for a cluster."""
    found = re.fullmatch(r"local(?:\[(\*|\d+)(?:,\s*\d+)?\])?", master)
    if found is None:
        return None
    if found[1] == "*":
        return os.cpu_count() or 1
    return int(found[1] or 1)
