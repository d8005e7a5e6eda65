"""A data directory that is absent, empty, left out, copied or dead: nothing begins anew and empty in its place."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from tests.brokers import IS_KAFKA
from tests.crash.loop_disk import LoopDisk
from tests.several_directories import SeveralDirectoriesBroker, content, directory_id, fill, partitions_in
from tests.topics import LATEST, create_topic, list_offset, produce_values

pytestmark = pytest.mark.skipif(IS_KAFKA, reason="the flags are Millstream's")

ALL = [b"0", b"1", b"2", b"3"]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[SeveralDirectoriesBroker]:
    """Two directories, and a broker that is not started yet."""
    own = SeveralDirectoriesBroker(tmp_path / "broker", tmp_path / "one", tmp_path / "two")
    yield own
    own.kill()


def stopped_with_records(broker: SeveralDirectoriesBroker) -> str:
    broker.start()
    topic = fill(broker)
    assert broker.stop() == 0
    assert all(partitions_in(path) for path in broker.paths)
    return topic


def test_a_directory_that_is_absent_or_empty_stops_the_start_until_it_is_back(broker: SeveralDirectoriesBroker, tmp_path: Path) -> None:
    topic = stopped_with_records(broker)
    one, two = broker.paths
    lost, before = directory_id(two), partitions_in(one)
    two.rename(tmp_path / "away")
    absent = broker.refusal()
    assert str(two) in absent
    assert lost in absent
    assert "does not exist" in absent
    assert "--forget-directory" in absent
    assert not two.exists(), "a mount point is not littered"
    two.mkdir()
    assert "is empty" in broker.refusal()
    assert list(two.iterdir()) == []
    assert partitions_in(one) == before
    two.rmdir()
    (tmp_path / "away").rename(two)
    broker.start()
    assert content(broker, topic) == ALL


def test_a_directory_that_is_left_out_stops_the_start_until_it_is_given_again(broker: SeveralDirectoriesBroker) -> None:
    topic = stopped_with_records(broker)
    one, two = broker.paths
    for given, left_out in (([one], two), ([two], one)):
        broker.paths = given
        refusal = broker.refusal()
        assert str(left_out) in refusal
        assert "left out" in refusal
    broker.paths = [one, two]
    broker.start()
    assert content(broker, topic) == ALL


def test_directories_may_be_moved_swapped_and_added(broker: SeveralDirectoriesBroker, tmp_path: Path) -> None:
    topic = stopped_with_records(broker)
    one, two = broker.paths
    one.rename(tmp_path / "moved")
    broker.paths = [tmp_path / "three", two, tmp_path / "moved"]
    broker.start()
    assert content(broker, topic) == ALL
    new = create_topic(broker)
    produce_values(broker, new, [b"new"])
    assert partitions_in(tmp_path / "three") == {f"{new}-0"}
    broker.stop()
    broker.paths = [two, tmp_path / "moved"]
    assert str(tmp_path / "three") in broker.refusal()


def test_a_directory_is_given_up_by_its_id_and_its_partitions_begin_anew(broker: SeveralDirectoriesBroker) -> None:
    topic = stopped_with_records(broker)
    one, two = broker.paths
    kept = sorted(int(name.rpartition("-")[2]) for name in partitions_in(one))
    lost = directory_id(two)
    broker.forgotten = [lost]
    assert "leave it out of --data" in broker.refusal()
    broker.paths = [one]
    broker.start()
    assert content(broker, topic) == [str(number).encode() for number in kept]
    broker.stop()
    # Once is enough.
    broker.forgotten = []
    broker.start()
    broker.stop()
    broker.paths = [one, two]
    assert "move one of the two elsewhere" in broker.refusal()


def test_partitions_on_a_dead_disk_are_offline_and_come_back_with_it(
    loop_disk: LoopDisk, broker: SeveralDirectoriesBroker, tmp_path: Path
) -> None:
    broker.paths = [tmp_path / "one", loop_disk.path / "two"]
    topic = stopped_with_records(broker)
    dead = sorted(int(name.rpartition("-")[2]) for name in partitions_in(broker.paths[1]))
    lost = directory_id(broker.paths[1])
    loop_disk.cut_power()
    broker.start()
    assert lost in broker.output
    with broker.connect() as connection:
        answers = {number: list_offset(connection, topic, LATEST, partition=number) for number in range(4)}
    assert sorted(number for number, answer in answers.items() if answer.error_code == ErrorCode.kafka_storage_error) == dead
    assert [answer.offset for number, answer in answers.items() if number not in dead] == [1] * (4 - len(dead))
    broker.stop()
    loop_disk.unmount()
    # Unmounted is not dead: the mount point is there, and empty.
    assert lost in broker.refusal()
    loop_disk.mount()
    broker.start()
    assert content(broker, topic) == ALL
