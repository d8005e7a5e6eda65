"""Partitions that move between the disks of a broker process, by AlterReplicaLogDirs, under load and with kill -9."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from tests.brokers import IS_KAFKA
from tests.connection import DESCRIBE_LOG_DIRS
from tests.crash.load import assert_nothing_acknowledged_is_lost, under_load
from tests.several_directories import SeveralDirectoriesBroker
from tests.topics import create_topic, delete_topic, fresh_name, produce_values, read_all
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(IS_KAFKA, reason="the flags are Millstream's")

ALTER_REPLICA_LOG_DIRS = 34


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeveralDirectoriesBroker]:
    root = tmp_path_factory.mktemp("disks")
    own = SeveralDirectoriesBroker(root / "broker", root / "one", root / "two")
    own.start()
    yield own
    own.kill()


def move(broker: SeveralDirectoriesBroker, topic: str, path: Path, *, partition: int = 0, version: int = 2) -> ErrorCode:
    with broker.connect() as connection:
        asked = {"path": str(path), "topics": [{"name": topic, "partitions": [partition]}]}
        answer = connection.ask(ALTER_REPLICA_LOG_DIRS, version, {"dirs": [asked]})
    [found] = answer.results[0].partitions
    assert (answer.results[0].topic_name, found.partition_index) == (topic, partition)
    return ErrorCode(found.error_code)


def places(broker: SeveralDirectoriesBroker, topic: str, partition: int = 0) -> dict[str, bool]:
    """The directories that have the partition, and whether it is about to be there."""
    with broker.connect() as connection:
        answer = connection.ask(DESCRIBE_LOG_DIRS, 4, {"topics": [{"topic": topic, "partitions": [partition]}]})
    return {
        Path(result.log_dir).name: found.is_future_key for result in answer.results for one in result.topics for found in one.partitions
    }


def elsewhere(broker: SeveralDirectoriesBroker, topic: str, partition: int = 0) -> Path:
    """The directory that does not have the partition."""
    return next(path for path in broker.paths if not (path / f"{topic}-{partition}").exists())


def wait_until_moved(broker: SeveralDirectoriesBroker, topic: str, target: Path, partition: int = 0) -> None:
    wait_until(lambda: places(broker, topic, partition) == {target.name: False}, f"{topic}-{partition} in {target}", deadline_s=100)


@pytest.mark.parametrize("flush_messages", [1, None])
def test_writers_and_readers_notice_nothing(broker: SeveralDirectoriesBroker, flush_messages: int | None) -> None:
    options = {"segment.bytes": 1 << 20} | ({"flush.messages": flush_messages} if flush_messages else {})
    topic = create_topic(broker, configs=options)
    with under_load(broker, topic, value_bytes=2000) as load:
        for round_number in range(1, 4):
            load.wait_for(len(load.acknowledged) + 300)
            target = elsewhere(broker, topic)
            assert move(broker, topic, target) == ErrorCode.none, round_number
            wait_until_moved(broker, topic, target)
            read_all(broker, topic)
        load.wait_for(len(load.acknowledged) + 300)
    assert load.refusals == []
    assert assert_nothing_acknowledged_is_lost(broker, topic, load) == len(load.acknowledged)


def test_nothing_acknowledged_is_lost_when_it_is_killed_while_partitions_move(broker: SeveralDirectoriesBroker) -> None:
    lives = []
    for round_number in range(4):
        topic = create_topic(broker, partitions=2, configs={"segment.bytes": 1 << 20})
        with under_load(broker, topic, partitions=2, value_bytes=5000) as load:
            load.wait_for(200 * (1 + round_number))
            targets = [elsewhere(broker, topic, partition) for partition in range(2)]
            for partition, target in enumerate(targets):
                assert move(broker, topic, target, partition=partition) == ErrorCode.none
            load.wait_for(len(load.acknowledged) + 40 * round_number)
            broker.kill()
        lives.append((topic, load, targets))
        broker.start()
    for topic, load, targets in lives:
        for partition, target in enumerate(targets):
            wait_until_moved(broker, topic, target, partition)  # what was under way was taken up again
        assert_nothing_acknowledged_is_lost(broker, topic, load, partitions=2)
        assert len([path for disk in broker.paths for path in disk.glob(f"{topic}-?")]) == 2


@pytest.mark.parametrize("version", [1, 2])
def test_what_cannot_be_moved_is_answered_as_in_kafka(broker: SeveralDirectoriesBroker, version: int) -> None:
    topic = create_topic(broker)
    here = next(path for path in broker.paths if (path / f"{topic}-0").exists())
    assert move(broker, topic, here, version=version) == ErrorCode.none
    assert move(broker, topic, Path("/nowhere"), version=version) == ErrorCode.log_dir_not_found
    assert move(broker, topic, here, partition=7, version=version) == ErrorCode.unknown_topic_or_partition
    assert move(broker, fresh_name(), here, version=version) == ErrorCode.unknown_topic_or_partition
    assert places(broker, topic) == {here.name: False}


def test_a_topic_that_does_not_exist_yet_is_created_where_it_was_asked_for(broker: SeveralDirectoriesBroker) -> None:
    for path in broker.paths:
        names = [fresh_name() for _ in range(3)]
        for name in names:
            assert move(broker, name, path) == ErrorCode.unknown_topic_or_partition
            create_topic(broker, name=name)
            assert places(broker, name) == {path.name: False}


def test_a_topic_may_be_deleted_while_it_moves(broker: SeveralDirectoriesBroker) -> None:
    for _ in range(5):
        topic = create_topic(broker)
        produce_values(broker, topic, [bytes(100_000)] * 8)
        assert move(broker, topic, elsewhere(broker, topic)) == ErrorCode.none
        delete_topic(broker, topic)
        wait_until(lambda topic=topic: places(broker, topic) == {}, "deleted")  # type: ignore[misc]
        create_topic(broker, name=topic)
        assert len(read_all(broker, topic)) == 0
        wait_until(lambda: not [path for disk in broker.paths for path in disk.glob("*-future")], "nothing is left of the copy")
