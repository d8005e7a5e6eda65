"""What `millstream serve` and consumers say when they cannot start with what they were given."""

import logging
import re
from pathlib import Path

import pytest

from millstream import Consumer
from millstream.paper.errors import ZooKeeperUnavailable
from millstream.testing import Broker
from tests.unit.cli.conftest import Millstream

UNKNOWN = "the name nosuch.invalid cannot be resolved: "


@pytest.mark.parametrize(
    ("below", "said"), [("", "{file} is a file"), ("sub/directory", "{file}/sub/directory cannot be made, because {file} is a file")]
)
def test_a_data_directory_that_is_a_file_is_called_one(millstream: Millstream, tmp_path: Path, below: str, said: str) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("mine")
    outcome = millstream("serve", "--listen", "127.0.0.1:0", "--data", str(file / below))
    expected = f"millstream: The data directory {said.format(file=file)}: give the name of a directory with --data, or log.dirs.\n"
    assert (outcome.code, outcome.err) == (1, expected)
    assert file.read_text() == "mine"


def test_an_address_of_another_machine_is_called_one(millstream: Millstream, tmp_path: Path) -> None:
    outcome = millstream("serve", "--listen", "192.0.2.1:9092", "--coordination", "127.0.0.1:0", "--no-registry", "--data", str(tmp_path))
    hint = "this machine does not have that address; listen on one that it has, or on 0.0.0.0, with --listen HOST:PORT"
    assert (outcome.code, outcome.err) == (1, f"millstream: cannot listen on 192.0.2.1:9092: {hint}\n")


def test_a_directory_in_use_is_the_only_thing_that_is_said(
    millstream: Millstream, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Broker(data=tmp_path) as broker:
        taken = broker.bootstrap_servers
        outcome = millstream("serve", "--listen", "127.0.0.1:0", "--no-registry", "--metrics", taken, "--data", str(tmp_path))
    sentence = f"the data directory {tmp_path} is in use by another broker; stop it or choose another directory"
    assert (outcome.code, outcome.err) == (1, f"millstream: {sentence}\n")
    assert "is taken" not in caplog.text


def test_a_registry_whose_port_is_taken_says_by_whom_perhaps(millstream: Millstream) -> None:
    with Broker() as broker:
        taken = broker.bootstrap_servers
        outcome = millstream("registry", "serve", "--listen", taken)
    reason = "another program uses this port, perhaps the registry that `millstream serve` has beside it"
    sentence = f"the registry cannot listen on {taken}: {reason}; choose another address"
    assert (outcome.code, outcome.err) == (1, f"millstream: {sentence}\n")


def test_a_zookeeper_whose_name_cannot_be_resolved_is_one_sentence(millstream: Millstream, tmp_path: Path, unresolved: str) -> None:
    patience = ["-X", "zookeeper.connection.timeout.ms=500"]
    outcome = millstream(
        "serve", "--listen", "127.0.0.1:0", "--zookeeper", "nosuch.invalid:2181", "--data", str(tmp_path), "--metrics", "off", *patience
    )
    sentence = f"no ZooKeeper answers at nosuch.invalid:2181 within 0.5 s (zookeeper.connection.timeout.ms); {UNKNOWN}{unresolved}"
    assert (outcome.code, outcome.err) == (1, f"millstream: {sentence}\n")


def test_a_consumer_says_the_same_with_its_own_setting(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO), pytest.raises(ZooKeeperUnavailable, match=re.escape(UNKNOWN)) as refused:
        Consumer("nosuch.invalid:2181", "group", connect_timeout_s=0.5)
    assert "within 0.5 s (connect_timeout_s)" in str(refused.value)
    assert refused.value.__cause__ is None
    assert caplog.text == ""


def test_one_name_that_can_be_resolved_is_enough_to_wait_for() -> None:
    with pytest.raises(ZooKeeperUnavailable, match="is it running, and is the address right"):
        Consumer("nosuch.invalid:2181,127.0.0.1:1", "group", connect_timeout_s=0.5)
