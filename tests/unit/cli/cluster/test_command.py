"""The commands in a cluster of one, which is what most people have."""

import pytest

from millstream.testing import Broker
from tests.unit.cli.conftest import Millstream


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["rebalance", "--yes"], 0, "Nothing to do: the brokers keep and lead equally much"),
        (["rebalance", "--dry-run", "--json"], 0, '{"version": 1, "partitions": []}'),
        (["reassign", "--topic", "alone", "--to", "1", "--yes"], 0, "Plan: nothing to do."),
        (["reassign", "--list"], 0, "Nothing is being moved."),
        (["reassign", "--follow"], 0, "Nothing is being moved."),
        (["reassign", "--cancel", "--yes"], 0, "Nothing is being moved."),
        (["elect"], 0, "every partition is led by its preferred replica"),
        (["elect", "alone", "-p", "1", "--unclean"], 0, "every partition has a leader"),
        (["drain", "1", "--yes"], 1, "Broker 1 is the last one"),
        (["reassign", "--topic", "alone", "--replicas", "2", "--yes"], 1, "2 replicas do not fit on 1 broker"),
    ],
)
def test_one_broker_is_a_cluster_in_which_nothing_can_move(
    millstream: Millstream, millstream_broker: Broker, arguments: list[str], code: int, words: str
) -> None:
    brokers = ["-b", millstream_broker.bootstrap_servers]
    millstream("topic", "create", "alone", "-p", "2", "--if-not-exists", *brokers)
    shown = millstream("cluster", *arguments, *brokers)
    assert shown.code == code, shown
    assert words in shown.out + shown.err


@pytest.mark.parametrize("command", [["rebalance"], ["drain", "1"], ["elect"], ["reassign", "--list"]])
def test_no_broker_is_one_sentence(millstream: Millstream, command: list[str]) -> None:
    outcome = millstream("cluster", *command, "-b", "127.0.0.1:1")
    assert outcome.code == 1
    assert outcome.err.startswith("millstream: No broker answers at 127.0.0.1:1")
