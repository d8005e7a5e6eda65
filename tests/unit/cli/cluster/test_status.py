import pytest

from millstream.cli.cluster import status
from millstream.cli.cluster.cluster_status import NO_LEADER, BrokerAddress, PartitionStatus, cluster_status
from millstream.testing import Broker
from tests.unit.cli.conftest import Millstream


def test_a_single_broker_is_a_cluster_too(millstream: Millstream, millstream_broker: Broker) -> None:
    brokers = ["-b", millstream_broker.bootstrap_servers]
    millstream("topic", "create", "status-a", "-p", "2", *brokers)
    shown = millstream("cluster", "status", *brokers)
    assert shown.code == 0, shown.err
    assert "1 broker, controller 1" in shown.out
    assert "All is well" in shown.out
    (document,) = millstream("cluster", "status", "--json", *brokers).documents
    assert document["is_well"]
    assert document["brokers"][0]["address"] == millstream_broker.bootstrap_servers
    assert document["brokers"][0]["leaders"] == document["partitions"] >= 2


def test_what_is_not_well_is_listed_and_is_the_exit_code(millstream: Millstream, monkeypatch: pytest.MonkeyPatch) -> None:
    partitions = [PartitionStatus("t", 0, NO_LEADER, (1, 3), ()), PartitionStatus("t", 1, 1, (3, 1), (1,))]
    partitions += [PartitionStatus("u", number, 1, (1, 3), (1,)) for number in range(50)]
    found = cluster_status("c", 1, [BrokerAddress(1, "b1:9092", None)], partitions, {"t": 2, "u": 1})
    monkeypatch.setattr(status, "_ask", lambda _cluster: found)
    shown = millstream("cluster", "status")
    assert shown.code == status.EXIT_NOT_WELL
    lines = shown.out.splitlines()
    assert "  t-0  leader none  replicas 1,3  in sync none" in lines
    assert "  t-1  leader 1  replicas 3,1  in sync 1" in lines
    assert "  and 30 more (--json lists them all)" in lines
    assert any(line.split() == ["3", "is", "not", "there", "-", "0", "52", "0"] for line in lines)
    assert lines[-1].startswith("Not well: start broker 3 again")
    assert len(millstream("cluster", "status", "--json").documents[0]["under_replicated"]) == 50


def test_no_broker_is_one_sentence(millstream: Millstream) -> None:
    outcome = millstream("cluster", "status", "-b", "127.0.0.1:1")
    assert outcome.code == 1
    assert "No broker answers at 127.0.0.1:1" in outcome.err
