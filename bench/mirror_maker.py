"""MirrorMaker 2 of Apache Kafka 4.2 as a process, or, where its jars cannot be had, a loop of confluent-kafka."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from time import time
from typing import Final

from confluent_kafka import Consumer, Producer

from bench.case import BenchError
from bench.maven import fetch_jars
from bench.peers.kafka import CACHE as KAFKA_CACHE
from bench.peers.kafka import JVM_FLAGS, VERSION

CACHE: Final = KAFKA_CACHE.with_name(f"mirror-maker-{VERSION}")
HEAP: Final = "1G"
POM: Final = f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>millstream.bench</groupId><artifactId>mirror-maker</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>connect-mirror</artifactId><version>{VERSION}</version></dependency>
  </dependencies>
</project>
"""
_MAIN_CLASS: Final = "org.apache.kafka.connect.mirror.MirrorMaker"


def find_jars() -> Path | None:
    """MirrorMaker's jars, from the cache or by Maven; None if they cannot be had, which is tried once."""
    jars, marker = CACHE / "libs", CACHE / "not-to-be-had"
    if (jars / f"connect-mirror-{VERSION}.jar").exists():
        return jars
    if marker.exists():
        return None
    try:
        return fetch_jars(CACHE, POM, what="MirrorMaker 2")
    except BenchError as error:
        marker.write_text(f"{error}\n")
        return None


def command(source: str, target: str, *, topic: str, directory: Path) -> Sequence[str]:
    """The command that copies a topic under its own name, as fast as it can with its default settings."""
    jars = find_jars()
    if jars is None:
        return [sys.executable, "-m", "bench.mirror_maker", source, target, topic]
    properties = {
        "clusters": "live, offline",
        "live.bootstrap.servers": source,
        "offline.bootstrap.servers": target,
        "live->offline.enabled": "true",
        "offline->live.enabled": "false",
        "live->offline.topics": topic,
        "live->offline.emit.heartbeats.enabled": "false",
        "live->offline.emit.checkpoints.enabled": "false",
        "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "offset.storage.replication.factor": "1",
        "status.storage.replication.factor": "1",
        "config.storage.replication.factor": "1",
        "refresh.topics.interval.seconds": "1",
        "tasks.max": "4",
    }
    file = directory / "mirror-maker.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    return ["java", f"-Xmx{HEAP}", f"-Xms{HEAP}", *JVM_FLAGS, "-cp", f"{jars}/*", _MAIN_CLASS, str(file)]


def start(arguments: Sequence[str], directory: Path) -> "subprocess.Popen[bytes]":
    """The process; its output goes to a file."""
    with (directory / "copier.txt").open("ab") as output:
        return subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)


def copy(source: str, target: str, topic: str) -> None:
    """Consume and produce until the process is ended."""
    consumer = Consumer(
        {"bootstrap.servers": source, "group.id": f"copy-{int(time())}", "auto.offset.reset": "earliest", "fetch.wait.max.ms": 100}
    )
    producer = Producer({"bootstrap.servers": target, "linger.ms": 5, "enable.idempotence": True})
    consumer.subscribe([topic])
    while True:
        for message in consumer.consume(1000, 0.01):
            if message.error() is None:
                while True:
                    try:
                        producer.produce(topic, message.value(), message.key(), message.partition() or 0, timestamp=message.timestamp()[1])
                        break
                    except BufferError:
                        producer.poll(0.1)
        producer.poll(0)


if __name__ == "__main__":
    copy(*sys.argv[1:])
