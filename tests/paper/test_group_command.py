"""`millstream group` and the paper's groups, which live in ZooKeeper: listed, described, rewound and deleted like Kafka's, kept apart."""

import pytest

from tests.group_offsets import commit
from tests.paper.sites import Site, wait_for_all
from tests.topics import fresh_name
from tests.unit.cli.conftest import Millstream, millstream
from tests.waiting import wait_until

__all__ = ["millstream"]


@pytest.fixture
def flags(site: Site) -> list[str]:
    return ["-b", site.broker.bootstrap_servers, "--zookeeper", site.coordination]


@pytest.fixture
def topic(site: Site) -> str:
    """Two partitions, twenty messages."""
    name = site.topic(partitions=2)
    site.send(name, 20, partitions=2)
    return name


def lag_of(millstream: Millstream, flags: list[str], group: str) -> int:
    ((described,),) = millstream("group", "describe", group, "--output", "json", *flags).documents
    lag: int = described["lag"]
    return lag


def test_group_of_the_paper_is_shown_with_members_owners_and_lag(site: Site, millstream: Millstream, flags: list[str], topic: str) -> None:
    name = fresh_name("paper")
    reader = site.reader(name, topic, streams=2, consumer_id="one")
    wait_for_all(20, reader)
    wait_until(lambda: lag_of(millstream, flags, name) == 0, "everything committed")
    ((described,),) = millstream("group", "describe", name, "--output", "json", *flags).documents
    assert (described["type"], described["state"], described["lag"], described["lag_seconds"]) == ("paper", "stable", 0, 0.0)
    assert [member["member"] for member in described["members"]] == ["one"]
    assert sorted(described["members"][0]["partitions"]) == [[topic, 0], [topic, 1]]
    assert [row["member"] for row in described["partitions"]] == ["one-0", "one-1"]
    assert "the paper's, in ZooKeeper  1 member  lag 0" in millstream("group", "describe", name, *flags).out
    (row,) = [row for row in millstream("group", "list", "--output", "json", *flags).documents[0] if row["group"] == name]
    assert row == {"group": name, "state": "stable", "type": "paper", "members": 1, "lag": 0, "lag_seconds": 0.0, "is": "ok"}


def test_whole_group_is_rewound_while_it_runs_and_when_it_is_gone(site: Site, millstream: Millstream, flags: list[str], topic: str) -> None:
    name = fresh_name("paper")
    reader = site.reader(name, topic, streams=2)
    wait_for_all(20, reader)
    wait_until(lambda: lag_of(millstream, flags, name) == 0, "everything committed")
    dry = millstream("group", "seek", name, "-24h", *flags)
    assert dry.code == 0, dry.err
    assert lag_of(millstream, flags, name) == 0
    live = millstream("group", "seek", name, "earliest", "--execute", *flags)
    assert "next commit" in live.err
    site.send(topic, 8, start=20, partitions=2)  # which is committed: then the owners notice, and read everything again
    wait_until(lambda: len(reader.numbers) >= 48, "every message twice", deadline_s=60)
    reader.close()
    assert millstream("group", "seek", name, "earliest", "--execute", *flags).err == ""
    assert lag_of(millstream, flags, name) == 28
    wait_for_all(28, site.reader(name, topic))


def test_names_that_stand_for_two_groups_are_told_apart(site: Site, millstream: Millstream, flags: list[str], topic: str) -> None:
    name = fresh_name("both")
    with site.broker.connect() as connection:
        assert commit(connection, name, topic, 3) == 0
    assert millstream("group", "seek", name, "2", "-t", topic, "--type", "paper", "--execute", *flags).code == 0
    (described,) = millstream("group", "describe", name, "--output", "json", *flags).documents
    assert [(group["type"], group["partitions"][0]["committed"]) for group in described] == [("classic", 3), ("paper", 2)]
    refused = millstream("group", "seek", name, "0", "--execute", *flags)
    assert refused.code == 2
    assert "--type classic or --type paper" in refused.err
    assert millstream("group", "seek", name, "0", "--type", "paper", "--execute", *flags).code == 0
    assert millstream("group", "delete", name, "--type", "paper", "--execute", *flags).out == f"deleted {name}\n"
    (left,) = millstream("group", "describe", name, "--output", "json", *flags).documents[0]
    assert (left["type"], left["partitions"][0]["committed"]) == ("classic", 3)


def test_group_that_is_there_with_another_type_is_not_said_to_be_nowhere(
    site: Site, millstream: Millstream, flags: list[str], topic: str
) -> None:
    name = fresh_name("kafkas")
    with site.broker.connect() as connection:
        assert commit(connection, name, topic, 3) == 0
    for command in (["seek", name, "0"], ["delete", name]):
        refused = millstream("group", *command, "--type", "paper", "--execute", *flags)
        assert (refused.code, refused.out) == (1, "")
        assert (
            f"The group {name!r} at {site.broker.bootstrap_servers} is of type classic, not paper: leave out --type paper." in refused.err
        )


def test_group_that_is_nowhere_is_said_with_both_places(millstream: Millstream, flags: list[str], site: Site) -> None:
    missing = millstream("group", "describe", "nowhere", *flags)
    assert (missing.code, missing.err.count("\n")) == (1, 1)
    assert f"nor in ZooKeeper at {site.coordination}" in missing.err
    only_kafka = millstream("group", "describe", "nowhere", *flags[:2])
    assert "--zookeeper HOST:PORT also looks for the paper's consumers" in only_kafka.err


def test_zookeeper_that_is_away_or_none_is_said_in_a_sentence(millstream: Millstream, flags: list[str]) -> None:
    outcome = millstream("group", "list", *flags[:2], "--zookeeper", "127.0.0.1:1")
    assert (outcome.code, outcome.err.count("\n")) == (1, 1), outcome.err
    assert "No ZooKeeper answers at 127.0.0.1:1" in outcome.err
