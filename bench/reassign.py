"""A large partition moves to another broker while clients write to it: how long that takes, and what they feel of it.

The commands are `millstream cluster reassign`, for both kinds of brokers: the partition has two replicas, the one that leads goes to the
third broker, and the leader with it. A steady 500 messages per second with acks=all go on all the while.
"""

import json
import subprocess
import sys
from pathlib import Path
from time import sleep

from bench.case import Bar, BenchError, Case, Context, Metric, Values
from bench.catch_up import RATE, RECORDS_PER_BATCH, Steady
from bench.load import fill
from bench.measure import Stopwatch, percentile
from bench.peers.cluster import Cluster
from bench.raw import ALL_IN_SYNC
from bench.topics import create_topic, drop_topic

WARM_UP_SECONDS = 3.0
QUIET_SECONDS = 10.0
PATIENCE_SECONDS = 600.0


class Reassign(Case):
    """One amount of data, with a throttle or without."""

    max_rounds = 1

    def __init__(self, megabytes: int, *, throttle: str | None = None) -> None:
        self.megabytes = megabytes
        self.throttle = throttle
        self.name = f"reassign-{megabytes}MB" + ("" if throttle is None else f"-{throttle}")
        limit = "" if throttle is None else f", throttled to {throttle}/s"
        self.title = f"{megabytes} MB to another broker{limit}, beside {RATE} msg/s, acks=all"
        self.metrics = (
            Metric("moved within", "s"),
            Metric("CPU of all brokers", "s"),
            Metric("acknowledged within before, p99", "ms"),
            Metric("acknowledged within meanwhile, p50", "ms"),
            Metric("acknowledged within meanwhile, p99", "ms"),
            Metric("acknowledged within meanwhile, most", "ms"),
            Metric("p99 meanwhile, of before", "x", Bar(2.0, "at most", "value")),
        )

    def run(self, context: Context) -> Values:
        cluster, topic = context.cluster, context.topic(self)
        first, second, third = sorted(cluster.nodes)
        create_topic(cluster, topic, assignment=[[first, second]])
        fill(cluster, topic, size_bytes=self.megabytes * 1_000_000, records=RECORDS_PER_BATCH, acks=ALL_IN_SYNC)
        with Steady(cluster, topic) as steady:
            sleep(WARM_UP_SECONDS)
            steady.take()
            sleep(QUIET_SECONDS)
            before = steady.take()
            with Stopwatch(*cluster.pids) as watch:
                self._move(context, cluster, topic, [third, second])
            meanwhile = steady.take()
        if cluster.leader(topic, 0) != third:
            raise BenchError(f"the partition is led by {cluster.leader(topic, 0)} after it was moved to {third}")
        drop_topic(cluster, topic)
        p99 = percentile(before, 99), percentile(meanwhile, 99)
        return {
            "moved within": watch.seconds,
            "CPU of all brokers": watch.cpu,
            "acknowledged within before, p99": p99[0],
            "acknowledged within meanwhile, p50": percentile(meanwhile, 50),
            "acknowledged within meanwhile, p99": p99[1],
            "acknowledged within meanwhile, most": max(meanwhile),
            "p99 meanwhile, of before": p99[1] / p99[0],
        }

    def _move(self, context: Context, cluster: Cluster, topic: str, replicas: list[int]) -> None:
        context.directory.mkdir(parents=True, exist_ok=True)
        plan = context.directory / "plan.json"
        plan.write_text(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": replicas}]}))
        command = [str(Path(sys.executable).with_name("millstream")), "cluster", "reassign", "--plan", str(plan), "--yes"]
        command += ["--brokers", cluster.bootstrap_servers, *([] if self.throttle is None else ["--throttle", self.throttle])]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
        if done.returncode != 0:
            raise BenchError(f"the move failed: {done.stderr.strip() or done.stdout.strip()}")
