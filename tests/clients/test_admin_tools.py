"""Kafka's own command line tools ask for what does not exist yet, and print something that makes sense."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.brokers import Broker
from tests.java import java_command, run_tool
from tests.topics import create_topic

CONFIGS = "kafka.admin.ConfigCommand"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"


def run(broker: Broker, main_class: str, *arguments: str) -> str:
    return run_tool(main_class, "--bootstrap-server", broker.bootstrap_servers, *arguments)


def test_access_rules_are_refused_with_a_reason(broker: Broker) -> None:
    command = java_command("org.apache.kafka.tools.AclCommand", "--bootstrap-server", broker.bootstrap_servers, "--list")
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert "SecurityDisabledException" in done.stdout + done.stderr


def test_features_are_printed(broker: Broker) -> None:
    printed = run(broker, "org.apache.kafka.tools.FeatureCommand", "describe")
    levels = {name.removeprefix("Feature: "): told for name, *told in (line.split("\t") for line in printed.splitlines())}
    assert levels["group.version"][:3] == ["SupportedMinVersion: 0", "SupportedMaxVersion: 1", "FinalizedVersionLevel: 1"]
    assert levels["transaction.version"][:3] == ["SupportedMinVersion: 0", "SupportedMaxVersion: 2", "FinalizedVersionLevel: 2"]


def test_reassignment_to_where_it_is_succeeds_and_none_is_listed(broker: Broker, tmp_path: Path) -> None:
    topic = create_topic(broker)
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": [1], "log_dirs": ["any"]}]}))
    started = run(broker, REASSIGN, "--reassignment-json-file", str(plan), "--execute", "--throttle", "1000000")
    assert f"Successfully started partition reassignment for {topic}-0" in started
    finished = run(broker, REASSIGN, "--reassignment-json-file", str(plan), "--verify")
    assert f"Reassignment of partition {topic}-0 is completed." in finished
    assert "Clearing topic-level throttles" in finished
    assert "No partition reassignments found." in run(broker, REASSIGN, "--list")


def test_election_says_that_the_right_one_leads(broker: Broker) -> None:
    topic = create_topic(broker)
    arguments = ("--election-type", "preferred", "--topic", topic, "--partition", "0")
    assert f"Valid replica already elected for partitions {topic}-0" in run(
        broker, "org.apache.kafka.tools.LeaderElectionCommand", *arguments
    )


def test_quorum_has_a_leader(broker: Broker) -> None:
    printed = run(broker, "org.apache.kafka.tools.MetadataQuorumCommand", "describe", "--status")
    told = dict(line.split(":", 1) for line in printed.splitlines() if ":" in line)
    assert told["LeaderId"].strip() == "1"
    assert '"id": 1' in told["CurrentVoters"]


def test_no_transactions_are_listed(broker: Broker) -> None:
    printed = run(broker, "org.apache.kafka.tools.TransactionsCommand", "list")
    assert printed.split() == ["TransactionalId", "Coordinator", "ProducerId", "TransactionState"]


@pytest.mark.parametrize(
    ("entity", "name", "expected"),
    [("groups", "some-group", "consumer.session.timeout.ms=45000"), ("broker-loggers", "1", "root=")],
)
def test_options_of_groups_and_loggers_are_printed(broker: Broker, entity: str, name: str, expected: str) -> None:
    arguments = ["--entity-type", entity, "--entity-name", name, "--describe", *(["--all"] if entity == "groups" else [])]
    assert expected in run(broker, CONFIGS, *arguments)
