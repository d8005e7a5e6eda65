"""`millstream cluster reassign | drain | rebalance | elect` with three real brokers, ours or Apache Kafka."""

import json
import signal
from pathlib import Path

import pytest

from millstream import SimpleConsumer
from millstream.client.admin.reassignment_admin import ReassignmentAdmin
from millstream.client.cluster import Cluster
from millstream.topic_partition import TopicPartition
from tests.brokers import IS_KAFKA
from tests.cluster.operating.conftest import Operator, plan_of
from tests.topics import fresh_name
from tests.waiting import wait_until


@pytest.fixture
def topic() -> str:
    return fresh_name("moved")


@pytest.fixture(autouse=True)
def _leave_nothing_behind(operator: Operator, topic: str) -> object:
    """Each test finds a cluster that is empty but for the topics that every Kafka has."""
    yield
    operator("topic", "delete", topic)
    wait_until(lambda: topic not in operator.do("topic", "list"), "the topic is gone")


def fill(operator: Operator, topic: str, *, count: int = 1000) -> list[str]:
    lines = [f"message {number}" for number in range(count)]
    operator.do("produce", topic, stdin="\n".join(lines).encode())
    return lines


def contents(operator: Operator, topic: str) -> list[str]:
    """All messages; read without a group, which would bring a topic of its own."""
    with SimpleConsumer(operator.brokers.bootstrap_servers) as consumer:
        ends = {number: consumer.latest(topic, number) for number in range(len(operator.replicas(topic)))}
        found = []
        for number, end in ends.items():
            offset = 0
            while offset < end:
                messages = consumer.fetch(topic, number, offset)
                found += [(message.payload or b"").decode() for message in messages]
                offset = messages[-1].offset + 1
        return found


def test_a_topic_moves_to_the_brokers_that_are_named_with_its_messages(operator: Operator, topic: str) -> None:
    operator.make_topic(topic, [[1, 2], [1, 2], [2, 1]])
    lines = fill(operator, topic)
    shown = operator.do("cluster", "reassign", "--topic", topic, "--to", "2,3", "--dry-run")
    assert "Nothing was changed: this was a dry run." in shown
    assert operator.replicas(topic) == [[1, 2], [1, 2], [2, 1]]
    printed = operator.do("cluster", "reassign", "--topic", topic, "--to", "2,3", "--yes")
    assert "3 partitions copied to other brokers" in printed
    assert "done: 3 partitions" in printed
    assert [sorted(replicas) for replicas in operator.replicas(topic)] == [[2, 3]] * 3
    assert [replicas[0] for replicas in operator.replicas(topic)] == operator.leaders(topic)
    assert sorted(contents(operator, topic)) == sorted(lines)
    assert "Plan: nothing to do." in operator.do("cluster", "reassign", "--topic", topic, "--to", "2,3", "--yes")


def test_a_topic_gets_more_and_fewer_replicas(operator: Operator, topic: str) -> None:
    operator.make_topic(topic, [[1], [2]])
    operator.do("cluster", "reassign", "-t", topic, "--replicas", "3", "--yes")
    assert [sorted(replicas) for replicas in operator.replicas(topic)] == [[1, 2, 3]] * 2
    operator.do("cluster", "reassign", "-t", topic, "--replicas", "1", "--yes")
    assert [len(replicas) for replicas in operator.replicas(topic)] == [1, 1]


def test_a_broker_is_drained_and_a_rebalance_uses_it_again(operator: Operator, topic: str) -> None:
    operator.make_topic(topic, [[3, 1], [2, 3], [1, 2], [3, 2], [1, 3], [2, 1]])
    fill(operator, topic)
    drained = operator.do("cluster", "drain", "3", "--yes")
    assert drained.splitlines()[-1] == "Broker 3 keeps no partition now: it may be stopped for good."
    assert [sorted(replicas) for replicas in operator.replicas(topic)] == [[1, 2]] * 6
    if not IS_KAFKA:
        data = operator.brokers.nodes[3].data
        wait_until(lambda: not list(data.glob(f"{topic}-?")), "broker 3 has deleted its replicas")
    assert "Broker 3 keeps no partition: it may be stopped" in operator.do("cluster", "drain", "3", "--yes")
    printed = operator.do("cluster", "rebalance", "--yes")
    assert any(line.split()[:2] == ["3", "-"] and "0 ->" in line for line in printed.splitlines())
    (described,) = operator("cluster", "status", "--json").documents
    assert [broker["replicas"] for broker in described["brokers"]] == [4, 4, 4]
    assert [broker["leaders"] for broker in described["brokers"]] == [2, 2, 2]
    assert operator.do("cluster", "rebalance", "--yes").startswith("Nothing to do: the brokers keep and lead equally much")


def test_what_needs_all_brokers_is_not_drained(operator: Operator, topic: str) -> None:
    operator.make_topic(topic, [[1, 2, 3]])
    refused = operator("cluster", "drain", "2", "--yes")
    assert refused.code == 1
    assert f"Without broker 2 there are 2 brokers, and the topic {topic} has 3 replicas" in refused.err
    assert operator.replicas(topic) == [[1, 2, 3]]


def test_preferred_leaders_are_elected_and_what_changed_is_printed(operator: Operator, topic: str) -> None:
    operator.make_topic(topic, [[1, 2], [2, 1]])
    assert operator.do("cluster", "elect", topic) == "Nothing to do: every partition is led by its preferred replica.\n"
    with Cluster(operator.brokers.bootstrap_servers) as cluster:
        assert ReassignmentAdmin(cluster, timeout_s=30).alter({TopicPartition(topic, 0): (2, 1)}) == {}
    wait_until(lambda: operator.replicas(topic) == [[2, 1], [2, 1]] and operator.leaders(topic) == [1, 2], "another preferred leader")
    lines = operator.do("cluster", "elect", topic, "--partition", "0").splitlines()
    assert lines[1].split() == [f"{topic}-0", "1", "2"]
    assert lines[-1] == "1 of 1 partition with another leader"
    assert operator.leaders(topic) == [2, 2]


def test_a_throttle_is_set_while_replicas_are_copied_and_removed_at_the_end(operator: Operator, topic: str) -> None:
    operator.make_topic(topic, [[1], [2]])
    plan = operator.brokers.nodes[1].directory / "throttled.json"
    plan.write_text(plan_of(topic, [[3], [2, 3]]))
    begun = operator.do("cluster", "reassign", "--plan", str(plan), "--throttle", "10MB", "--no-wait", "--yes")
    assert "`millstream cluster reassign --follow` waits for the end and then removes the throttle" in begun
    (listed,) = operator("cluster", "reassign", "--list", "--json").documents
    rates = {"leader.replication.throttled.rate": "10000000", "follower.replication.throttled.rate": "10000000"}
    assert listed["throttles"] == {
        "broker 1": rates,
        "broker 2": rates,
        "broker 3": rates,
        f"topic {topic}": {"leader.replication.throttled.replicas": "0:1,1:2", "follower.replication.throttled.replicas": "0:3,1:3"},
    }
    assert f"removed the throttles of topic {topic}, broker 1, broker 2, broker 3" in operator.do("cluster", "reassign", "--follow")
    assert operator.replicas(topic) == [[3], [2, 3]]
    (listed,) = operator("cluster", "reassign", "--list", "--json").documents
    assert listed == {"reassignments": [], "disk_moves": [], "throttles": {}}


def test_a_move_that_cannot_end_is_seen_interrupted_and_taken_back(operator: Operator, topic: str, tmp_path: Path) -> None:
    operator.make_topic(topic, [[1], [1]])
    with operator.one_killed() as victim:
        plan = str(tmp_path / "plan.json")
        (tmp_path / "plan.json").write_text(plan_of(topic, [[victim], [1, victim]]))
        throttled = operator("cluster", "reassign", "--plan", plan, "--throttle", "1MB", "--yes")
        assert (throttled.code, f"Broker {victim} does not answer, so no throttle can be set" in throttled.err) == (1, True)
        said = assert_interrupted(operator, "--plan", plan, "--yes", waits_for=victim)
        assert f"Broker {victim} does not answer: what is copied there waits until that changes." in said
        assert_interrupted(operator, "--follow", waits_for=victim)
        listed = operator("cluster", "reassign", "--list", "--json")
        assert [one["adding"] for one in listed.documents[0]["reassignments"]] == [[victim], [victim]], listed
        assert f"{topic}-0" in operator.do("cluster", "reassign", "--list")
        refused = operator("cluster", "rebalance", "--yes")
        assert (refused.code, "2 partitions are being moved already" in refused.err) == (1, True)
        assert "taken back: 2 partitions" in operator.do("cluster", "reassign", "--cancel", "--yes")
        assert operator.do("cluster", "reassign", "--cancel", "--yes") == "Nothing is being moved.\n"
    assert operator.replicas(topic) == [[1], [1]]


def assert_interrupted(operator: Operator, *arguments: str, waits_for: int) -> str:
    """Begin to move, or to follow that, press Ctrl-C while it runs, and hear how to go on."""
    with operator.reassigning(*arguments) as moving:
        assert moving.stdout is not None
        silence = f"waiting for broker {waits_for}, which does not answer"
        assert any(line.startswith("moving: ") and silence in line for line in moving.stdout)
        moving.send_signal(signal.SIGINT)
        _, said = moving.communicate(timeout=60)
    assert moving.returncode == 130
    assert "interrupted: 2 partitions left" in said
    assert "`millstream cluster reassign --cancel` takes it back" in said
    return said


def test_what_is_throttled_for_good_is_left_alone(operator: Operator, topic: str) -> None:
    mine, everything = fresh_name("mine"), "leader.replication.throttled.replicas=*"
    operator.make_topic(topic, [[1]])
    operator.do("topic", "create", mine, "-c", everything)
    plan = operator.brokers.nodes[1].directory / "throttled.json"
    plan.write_text(plan_of(topic, [[3]]))
    operator.do("cluster", "reassign", "--plan", str(plan), "--throttle", "10MB", "--no-wait", "--yes")
    followed = operator.do("cluster", "reassign", "--follow")
    assert f"removed the throttles of topic {topic}\n" in followed
    assert f"left the throttles of topic {mine}, broker 1, broker 3" in followed
    (listed,) = operator("cluster", "reassign", "--list", "--json").documents
    assert listed["throttles"].keys() == {f"topic {mine}", "broker 1", "broker 3"}
    operator.do("topic", "delete", mine)
    wait_until(lambda: mine not in operator.do("topic", "list"), "the topic is gone")
    assert "removed the throttles of broker 1, broker 3" in operator.do("cluster", "reassign", "--follow")


def test_what_is_deleted_while_it_moves_does_not_count_as_moved(operator: Operator, topic: str, tmp_path: Path) -> None:
    deleted = fresh_name("deleted")
    operator.make_topic(topic, [[1]])
    operator.make_topic(deleted, [[1], [1]])
    with operator.one_killed() as victim:
        plan = json.loads(plan_of(deleted, [[victim]] * 2))
        plan["partitions"] += json.loads(plan_of(topic, [[victim]]))["partitions"]
        (tmp_path / "plan.json").write_text(json.dumps(plan))
        operator.do("cluster", "reassign", "--plan", str(tmp_path / "plan.json"), "--no-wait", "--yes")
        following = operator.reassigning("--follow")
        assert following.stdout is not None
        assert any("0 of 3 partitions" in line for line in following.stdout)
        operator.do("topic", "delete", deleted)
    printed, _ = following.communicate(timeout=120)
    assert following.returncode == 0
    assert "done: 1 partition," in printed
    assert "deleted meanwhile, with its topic: 2 partitions" in printed


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["reassign"], 2, "Say one thing to do"),
        (["reassign", "--list", "--cancel"], 2, "Say one thing to do"),
        (["reassign", "--to", "1", "--list"], 2, "say where a --topic goes"),
        (["reassign", "--follow", "--throttle", "1MB"], 2, "--throttle is for moves that are to be begun"),
        (["reassign", "--cancel", "--no-wait"], 2, "--no-wait is for moves that are to be begun"),
        (["reassign", "--follow", "--dry-run"], 2, "--dry-run is for moves that are to be begun"),
        (["reassign", "--cancel", "--dry-run", "--json"], 2, "--json is for moves that are to be begun"),
        (["reassign", "--topic", "TOPIC", "--to", "1,x"], 2, "expected ids of brokers"),
        (["reassign", "--topic", "TOPIC", "--to", "1,1"], 2, "each broker once"),
        (["reassign", "--topic", "TOPIC", "--to", "1,9"], 1, "cannot keep anything: 9; there are 1, 2, 3"),
        (["reassign", "--topic", "TOPIC", "--to", "3", "--replicas", "2"], 1, "2 replicas do not fit on 1 broker"),
        (["reassign", "--topic", "TOPIC", "--to", "3", "--throttle", "fast"], 2, "expected bytes a second"),
        (["reassign", "--topic", "TOPIC", "--to", "3", "--json"], 2, "--json belongs to --dry-run"),
        (["reassign", "--topic", "TOPIC", "--to", "3"], 1, "repeat with --yes"),
        (["reassign", "--topic", "no-such-topic", "--to", "3"], 1, "There is no topic 'no-such-topic'"),
        (["drain", "9"], 1, "there is no broker 9, and none that had partitions; there are 1, 2, 3."),
        (["disks", "--broker", "9"], 1, "there is no broker 9; there are 1, 2, 3."),
        (["elect", "no-such-topic"], 1, "There is no topic 'no-such-topic'"),
        (["elect", "TOPIC", "--partition", "7"], 1, "has no partition 7: it has 1, from 0 to 0."),
        (["elect", "--partition", "7"], 2, "of one TOPIC"),
    ],
)
def test_what_cannot_be_done_is_said_and_nothing_changes(
    operator: Operator, topic: str, arguments: list[str], code: int, words: str
) -> None:
    operator.make_topic(topic, [[1]])
    refused = operator("cluster", *(topic if word == "TOPIC" else word for word in arguments))
    assert refused.code == code
    assert words in refused.err
    assert operator.replicas(topic) == [[1]]


def test_a_plan_that_is_partly_wrong_begins_nothing(operator: Operator, topic: str, tmp_path: Path) -> None:
    operator.make_topic(topic, [[1], [1]])
    plan = tmp_path / "plan.json"
    entries = [(topic, 0, [2]), (topic, 1, [2, 2]), (topic, 7, [1]), ("no-such-topic", 0, [1])]
    plan.write_text(json.dumps({"partitions": [dict(zip(("topic", "partition", "replicas"), entry, strict=True)) for entry in entries]}))
    refused = operator("cluster", "reassign", "--plan", str(plan), "--yes")
    assert refused.code == 1
    for words in (
        "nothing of it was begun",
        "named twice in [2, 2]",
        f"{topic}-7: there is no such partition",
        "there is no topic 'no-such-topic'",
    ):
        assert words in refused.err
    assert operator.replicas(topic) == [[1], [1]]
