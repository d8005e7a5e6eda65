"""What a worker process keeps from task to task belongs to it alone, and is closed with it."""

import subprocess
import sys

KEPT = """
import os
from millstream.client.raw_producer import ProducerSettings
from millstream.spark.worker_connections import borrow_producer, cluster_for

settings = ProducerSettings("127.0.0.1:9")

def kept():
    with borrow_producer(settings) as producer:
        return producer, cluster_for(settings)

first = kept()
assert kept() == first
child = os.fork()
if not child:
    os._exit(any(mine is theirs for mine, theirs in zip(kept(), first)))
assert os.waitpid(child, 0)[1] == 0, "a child writes to sockets of its parent"
first[0].close = lambda: print("the producer is closed")
first[1].close = lambda: print("the cluster is closed")
"""


def test_connections_are_not_inherited_by_a_fork_and_closed_at_the_end() -> None:
    done = subprocess.run([sys.executable, "-c", KEPT], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["the producer is closed", "the cluster is closed"]
