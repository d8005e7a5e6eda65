"""kafkactl and topicctl, which people operate Kafka with, do their work on three brokers.

They are programs in Go, which `scripts/setup` builds where Go is and its proxy has them. Where it has not (403 Forbidden on 2026-11-17)
these tests are skipped. Both were built by hand from their repositories on that day (kafkactl 5.20.0, topicctl at 9c1f75c): they passed.
"""

import json
import subprocess
from pathlib import Path

import pytest

from tests.cluster.operating.conftest import Operator
from tests.go_programs import go_program
from tests.topics import fresh_name
from tests.waiting import wait_until

CLUSTER = """\
meta: {{name: here, environment: tests, region: local}}
spec: {{bootstrapAddrs: [{address}]}}
"""
TOPIC = """\
meta: {{name: {name}, cluster: here, environment: tests, region: local}}
spec:
  partitions: {partitions}
  replicationFactor: 2
  retentionMinutes: 600
  placement: {placement}
  migration: {{throttleMB: 10, partitionBatchSize: 2}}
"""


def run(program: str, *arguments: str, stdin: str = "") -> str:
    """What a program printed, to whichever output; it has to succeed."""
    ended = subprocess.run([program, *arguments], input=stdin, capture_output=True, text=True, timeout=100, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout or ended.stderr


@pytest.fixture
def kafkactl(operator: Operator, tmp_path: Path) -> list[str]:
    """The program, with its configuration."""
    config = tmp_path / "kafkactl.yml"
    config.write_text(f"contexts: {{default: {{brokers: [{operator.brokers.bootstrap_servers}]}}}}\ncurrent-context: default\n")
    return [go_program("kafkactl"), "-C", str(config)]


def test_kafkactl_makes_moves_and_reads_a_topic(operator: Operator, kafkactl: list[str]) -> None:
    topic = fresh_name("kafkactl")
    run(*kafkactl, "create", "topic", topic, "--partitions", "2", "--replication-factor", "2")
    operator.place(topic, [[1, 2], [2, 1]])
    run(*kafkactl, "produce", topic, "--partition", "0", "--value", "moved")
    run(*kafkactl, "alter", "partition", topic, "0", "--replicas", "2,3")
    # It writes the replicas of the others in the order of their numbers.
    wait_until(lambda: operator.replicas(topic) == [[2, 3], [1, 2]], "the partition is where it was sent")
    described = json.loads(run(*kafkactl, "describe", "topic", topic, "-o", "json"))
    assert [set(partition["Replicas"]) for partition in described["Partitions"]] == [{2, 3}, {2, 1}]
    assert run(*kafkactl, "consume", topic, "--from-beginning", "--exit") == "moved\n"
    run(*kafkactl, "alter", "partition", topic, "1", "--replicas", "3,1,2")
    wait_until(lambda: set(operator.replicas(topic)[1]) == {1, 2, 3}, "there are three replicas")
    run(*kafkactl, "alter", "topic", topic, "--partitions", "3")
    wait_until(lambda: len(operator.replicas(topic)) == 3, "there are three partitions")
    run(*kafkactl, "delete", "topic", topic)


def test_topicctl_makes_a_topic_and_places_it(operator: Operator, tmp_path: Path) -> None:
    topicctl, name = go_program("topicctl"), fresh_name("topicctl")
    (tmp_path / "cluster.yaml").write_text(CLUSTER.format(address=json.dumps(operator.brokers.bootstrap_servers.split(",")[0])))
    topic = tmp_path / "topic.yaml"

    def apply(partitions: int, placement: str) -> None:
        topic.write_text(TOPIC.format(name=name, partitions=partitions, placement=placement))
        apply_arguments = ["--cluster-config", str(tmp_path / "cluster.yaml"), "--skip-confirm", "--sleep-loop-duration", "200ms"]
        run(topicctl, "apply", *apply_arguments, str(topic))

    apply(2, "{strategy: any}")
    assert all(len(replicas) == 2 for replicas in operator.replicas(name))
    for assignments in ([[1, 2], [2, 3]], [[3, 1], [1, 2]]):
        apply(2, f"{{strategy: static, staticAssignments: {assignments}}}")
        wait_until(lambda assignments=assignments: operator.replicas(name) == assignments, "the partitions are where they were sent")  # type: ignore[misc]
        wait_until(lambda assignments=assignments: operator.leaders(name) == [one[0] for one in assignments], "the first lead")  # type: ignore[misc]
    shown = run(topicctl, "get", "topics", "--broker-addr", operator.brokers.bootstrap_servers.split(",")[0])
    assert name in shown
    (listed,) = operator("cluster", "reassign", "--list", "--json").documents
    assert listed == {"reassignments": [], "disk_moves": [], "throttles": {}}
    operator.do("topic", "delete", name)
