"""The connections of this process: Spark unpickles a fresh reader for each task, but the process stays, and so do they.

One `Cluster` per set of brokers and client name. A worker process runs one task at a time, in one thread, so nothing is locked. They are
closed when the process ends in order, as the driver does.
"""

import atexit
import os
from collections.abc import Mapping

from millstream.client.cluster import Cluster
from millstream.spark.source.options import ReadOptions
from millstream.spark.source.positions import OptionError

_clusters: dict[tuple[int, str, str, int], Cluster] = {}


def cluster_for(options: ReadOptions) -> Cluster:
    """The cluster of these options, connected already if a task of this process used it before."""
    check_security(options.kafka)
    return worker_cluster(options.bootstrap_servers, client_id=options.client_id, request_timeout_ms=options.request_timeout_ms)


def worker_cluster(bootstrap_servers: str, *, client_id: str, request_timeout_ms: int) -> Cluster:
    """The cluster behind these servers, connected already if this process used it before."""
    # With the process id: after a fork the sockets are the parent's.
    name = os.getpid(), bootstrap_servers, client_id, request_timeout_ms
    cluster = _clusters.get(name)
    if cluster is None:
        cluster = _clusters[name] = Cluster(bootstrap_servers, client_id=client_id, timeout_s=request_timeout_ms / 1000)
    return cluster


@atexit.register
def _close_all() -> None:
    for (process_id, *_), cluster in _clusters.items():
        if process_id == os.getpid():
            cluster.close()


def check_security(kafka: Mapping[str, str]) -> None:
    """Refuse what the connection cannot do, instead of sending in the clear what was meant to be encrypted."""
    protocol = kafka.get("security.protocol", "PLAINTEXT").upper()
    if protocol != "PLAINTEXT":
        raise OptionError("kafka.security.protocol", f"{protocol} is not possible yet: only PLAINTEXT")
