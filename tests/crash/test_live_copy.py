"""A backup by copying the data of a broker that runs: the copy starts, and serves everything that was acknowledged before it began."""

import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.brokers import Broker, StartBroker
from tests.crash.load import Load, assert_nothing_acknowledged_is_lost, under_load
from tests.topics import create_topic

PARTITIONS = 2


def copy_under_load(broker: Broker, load: Load, target: Path, *, checkpoints_first: bool) -> None:
    """Copy all of it in two steps, with segments rolled and checkpoints written in between: the worst of what `cp -a` may do."""
    target.mkdir()
    names = sorted(broker.data.iterdir(), key=lambda path: path.is_dir() == checkpoints_first)
    half = next(index for index, path in enumerate(names) if path.is_dir() == checkpoints_first)
    cp(names[:half], target)
    load.wait_for(len(load.acknowledged) + 200)
    cp(names[half:], target)


def cp(paths: Iterable[Path], target: Path) -> None:
    done = subprocess.run(["cp", "-a", *paths, target], check=False, timeout=60, capture_output=True, text=True)
    # A small file that is being replaced goes while it is looked at; the one in its place is copied.
    assert [line for line in done.stderr.splitlines() if ".tmp'" not in line] == []


@pytest.mark.parametrize("checkpoints_first", [True, False])
def test_copy_under_load_has_all_that_was_acknowledged_before_it_began(
    start_broker: StartBroker, tmp_path: Path, checkpoints_first: bool
) -> None:
    broker = start_broker(log_flush_offset_checkpoint_interval_ms=20)
    topic = create_topic(broker, partitions=PARTITIONS, configs={"segment.bytes": 1 << 20, "flush.messages": 10})
    with under_load(broker, topic, partitions=PARTITIONS, value_bytes=20_000) as load:
        load.wait_for(300)
        before = load.acknowledged.copy()
        copy_under_load(broker, load, tmp_path / "copy", checkpoints_first=checkpoints_first)
    load.acknowledged = before
    restored = start_broker(data=tmp_path / "copy")
    assert assert_nothing_acknowledged_is_lost(restored, topic, load, partitions=PARTITIONS) >= len(before)
    with under_load(restored, topic, partitions=PARTITIONS) as more:
        more.wait_for(10)
    assert more.refusals == []
