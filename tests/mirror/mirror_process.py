"""`millstream mirror run` as a process, and what its target has to have in the end."""

import asyncio
import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

from millstream.mirror.clusters.side import Side
from millstream.mirror.status.mirror_topic import MirrorTopic, read_statuses
from millstream.mirror.status.status import MirrorStatus
from tests.batches import Header, split_batches
from tests.brokers import Broker
from tests.repeated_process import RepeatedProcess
from tests.topics import EARLIEST, LATEST, fetch, list_offset
from tests.waiting import wait_until

MILLSTREAM = str(Path(sys.executable).with_name("millstream"))


class MirrorProcess(RepeatedProcess):
    """One process; it can be ended and started again."""

    def __init__(self, directory: Path, source: str, target: str, *arguments: str) -> None:
        super().__init__([MILLSTREAM, "mirror", "run", "--from", source, "--to", target, *arguments], directory / "mirror.txt")


def mirror_command(target: Broker, *words: str) -> str:
    """What `millstream mirror` prints, asked at the target."""
    command = [MILLSTREAM, "mirror", *words, "--to", target.bootstrap_servers]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def mirror_status(target: Broker, *options: str) -> dict[str, Any]:
    """What `millstream mirror status --json` says of the one mirror there is, or that is named."""
    document: dict[str, Any] = json.loads(mirror_command(target, "status", "--json", *options))
    return document


def reported(target: Broker, name: str) -> MirrorStatus | None:
    """What the processes of a mirror have reported, however long ago; None if they have not yet."""

    async def read() -> list[MirrorStatus]:
        side = Side(target.bootstrap_servers)
        try:
            return read_statuses(await MirrorTopic(side).read(), not_before_ms=0)
        finally:
            side.close()

    return next((one for one in asyncio.run(read()) if one.name == name), None)


def batches_of(broker: Broker, topic: str, partition: int = 0) -> list[tuple[Header, bytes]]:
    """Every batch of a partition, as a consumer is sent it."""
    batches: list[tuple[Header, bytes]] = []
    with broker.connect() as connection:
        position = list_offset(connection, topic, EARLIEST, partition=partition).offset
        end = list_offset(connection, topic, LATEST, partition=partition).offset
        while position < end:
            found = list(split_batches(fetch(connection, topic, position, partition=partition, max_bytes=8 << 20).records))
            batches += found
            position = found[-1][0].base_offset + found[-1][0].last_offset_delta + 1
    return batches


def copied(batches: list[tuple[Header, bytes]]) -> list[tuple[int, bytes]]:
    """What a mirror has to keep: the offset, and everything from the format and the CRC on."""
    return [(header.base_offset, batch[8:12] + batch[16:]) for header, batch in batches]


def end_of(broker: Broker, topic: str, partition: int = 0) -> int:
    """The log end; -1 while there is no such partition."""
    with broker.connect() as connection:
        answer = list_offset(connection, topic, LATEST, partition=partition)
        return -1 if answer.error_code else int(answer.offset)


def await_same(source: Broker, target: Broker, topic: str, *, partitions: int = 1, deadline_s: float = 60) -> int:
    """Wait until the target has what the source has, compare all of it, and say how many batches that were."""
    count = 0
    for partition in range(partitions):
        wait_until(partial(_end_together, source, target, topic, partition), f"{topic}-{partition} is copied", deadline_s=deadline_s)
        ours, theirs = batches_of(source, topic, partition), batches_of(target, topic, partition)
        assert copied(theirs) == copied(ours)
        count += len(ours)
    return count


def _end_together(source: Broker, target: Broker, topic: str, partition: int) -> bool:
    """Both are asked each time: the marker of a transaction is written a little after its commit was answered."""
    return end_of(source, topic, partition) == end_of(target, topic, partition)
