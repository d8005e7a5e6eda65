"""Kafka's own kafka-reassign-partitions and kafka-leader-election do their work on three brokers."""

import json
from pathlib import Path

import pytest

from tests.cluster.operating.conftest import Operator, plan_of
from tests.cluster.operating.disks import directories_of
from tests.java import is_java_there, run_tool
from tests.topics import fresh_name
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(not is_java_there(), reason="no Java here, or Kafka's jars are not in .cache/kafka-4.2.0/libs")

REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
ELECT = "org.apache.kafka.tools.LeaderElectionCommand"


def test_a_topic_is_moved_throttled_verified_and_its_leader_elected(operator: Operator, tmp_path: Path) -> None:
    topic = fresh_name("tools")
    operator.make_topic(topic, [[1, 2], [2, 1]])
    server = ["--bootstrap-server", operator.brokers.bootstrap_servers]
    (tmp_path / "topics.json").write_text(json.dumps({"version": 1, "topics": [{"topic": topic}]}))
    arguments = ["--topics-to-move-json-file", str(tmp_path / "topics.json"), "--broker-list", "2,3"]
    generated = run_tool(REASSIGN, *server, "--generate", *arguments)
    proposed = json.loads(generated.rpartition("Proposed partition reassignment configuration\n")[2])
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(proposed))
    begun = run_tool(REASSIGN, *server, "--execute", "--reassignment-json-file", str(plan), "--throttle", "10000000")
    assert "The inter-broker throttle limit was set to 10000000 B/s" in begun
    assert f"Successfully started partition reassignments for {topic}-0,{topic}-1" in begun
    wait_until(lambda: all(set(replicas) == {2, 3} for replicas in operator.replicas(topic)), "the moves are done")
    verified = run_tool(REASSIGN, *server, "--verify", "--reassignment-json-file", str(plan))
    assert f"Reassignment of partition {topic}-0 is completed." in verified
    assert "Clearing broker-level throttles" in verified
    (listed,) = operator("cluster", "reassign", "--list", "--json").documents
    assert listed == {"reassignments": [], "disk_moves": [], "throttles": {}}
    plan.write_text(plan_of(topic, [replicas[::-1] for replicas in operator.replicas(topic)]))
    run_tool(REASSIGN, *server, "--execute", "--reassignment-json-file", str(plan))
    elected = run_tool(ELECT, *server, "--election-type", "preferred", "--all-topic-partitions")
    assert f"Successfully completed leader election (PREFERRED) for partitions {topic}-" in elected
    wait_until(lambda: operator.leaders(topic) == [replicas[0] for replicas in operator.replicas(topic)], "the preferred replicas lead")
    operator.do("topic", "delete", topic)


def test_a_move_that_cannot_end_is_listed_and_cancelled(operator: Operator, tmp_path: Path) -> None:
    topic = fresh_name("tools")
    operator.make_topic(topic, [[1]])
    server = ["--bootstrap-server", operator.brokers.bootstrap_servers]
    plan = tmp_path / "plan.json"
    with operator.one_killed() as victim:
        plan.write_text(plan_of(topic, [[victim]]))
        run_tool(REASSIGN, *server, "--execute", "--reassignment-json-file", str(plan))
        assert f"{topic}-0: replicas: {victim},1. adding: {victim}. removing: 1." in run_tool(REASSIGN, *server, "--list")
        # Throttles would be removed at every broker, also at the one that does not answer.
        cancelled = run_tool(REASSIGN, *server, "--cancel", "--preserve-throttles", "--reassignment-json-file", str(plan))
        assert f"Successfully cancelled partition reassignment for: {topic}-0" in cancelled
    assert operator.do("cluster", "reassign", "--list") == "Nothing is being moved.\n"
    assert operator.replicas(topic) == [[1]]
    operator.do("topic", "delete", topic)


def test_replicas_get_into_the_directories_that_a_plan_names(disk_operator: Operator, tmp_path: Path) -> None:
    topic, nodes = fresh_name("tools"), disk_operator.brokers.nodes
    disk_operator.make_topic(topic, [[1]] * 4)
    disk_operator.do("produce", topic, stdin="\n".join(map(str, range(1000))).encode())
    server = ["--bootstrap-server", disk_operator.brokers.bootstrap_servers]
    wanted = [[nodes[1].data, nodes[2].data], [nodes[1].data, *nodes[2].more_data], [*nodes[1].more_data, nodes[2].data]]
    wanted.append([*nodes[1].more_data, *nodes[2].more_data])
    entries = [
        {"topic": topic, "partition": number, "replicas": [1, 2], "log_dirs": list(map(str, paths))} for number, paths in enumerate(wanted)
    ]
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": entries}))
    arguments = ["--reassignment-json-file", str(plan), "--replica-alter-log-dirs-throttle", "10000000"]
    begun = run_tool(REASSIGN, *server, "--execute", *arguments)
    assert "The replica-alter-dir throttle limit was set to 10000000 B/s" in begun
    assert begun.count("Successfully started moving log directory to") == 8, begun
    expected = {(number, broker): path for number, paths in enumerate(wanted) for broker, path in enumerate(paths, 1)}
    wait_until(lambda: directories_of(disk_operator, topic) == expected, "every replica is in its directory")
    wait_until(lambda: disk_operator.replicas(topic) == [[1, 2]] * 4, "the reassignment is over")
    verified = run_tool(REASSIGN, *server, "--verify", "--reassignment-json-file", str(plan))
    assert verified.count("completed successfully.") == 8, verified
    (listed,) = disk_operator("cluster", "reassign", "--list", "--json").documents
    assert listed == {"reassignments": [], "disk_moves": [], "throttles": {}}
    disk_operator.do("topic", "delete", topic)
