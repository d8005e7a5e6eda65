"""A power cut after every file operation of a commit, from the request to the last marker: the transaction is whole, or nothing of it is.

Everything is flushed before it counts (`log.flush.interval.messages=1`), so a commit that was answered has to be there. What was only
begun is aborted when the producer begins again.
"""

import asyncio
import shutil
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from millstream.broker.server import BrokerServer
from millstream.errors import CoordinatorLoadInProgress, NotCoordinator
from millstream.log.transactions.committed_reads import aborted_in
from millstream.transaction_errors import ConcurrentTransactions
from millstream.wire.batch import TRANSACTIONAL
from tests.batches import encode_batch
from tests.connection import PRODUCE
from tests.crash.forgetful_files import Fate, ForgetfulFiles, disk_after, materialise
from tests.crash.test_log_power_cut import QuickFiles
from tests.unit.broker.group_client import ask, create, group_server
from tests.unit.broker.transaction_client import Producer

OPTIONS: Final = {"transaction.state.log.num.partitions": "1", "log.flush.interval.messages": "1"}
NOT_YET: Final = (ConcurrentTransactions.code, CoordinatorLoadInProgress.code, NotCoordinator.code)
PARTITIONS: Final = (0, 1)


class Life(NamedTuple):
    """What a broker did, and how many operations it had done when the commit was asked for, was answered, and was complete."""

    files: ForgetfulFiles
    asked: int
    answered: int
    complete: int


async def live(root: Path) -> Life:
    """One transaction over two partitions."""
    files = ForgetfulFiles(root)
    operations = files.recording.operations
    async with group_server(root, options=OPTIONS, files=files) as server:
        await create(server, partitions=len(PARTITIONS))
        producer = Producer(server)
        assert await producer.find() == 0
        await begin(producer)
        assert set((await producer.add({"orders": PARTITIONS})).values()) == {0}
        for partition in PARTITIONS:
            await send(server, producer, partition)
        asked = len(operations)
        assert await producer.end(commit=True, version=4) == 0
        answered = len(operations)
        assert await producer.completed() == "CompleteCommit"
        return Life(files, asked, answered, len(operations))


async def begin(producer: Producer) -> None:
    """InitProducerId, until the coordinator is ready and the last transaction is ended."""
    async with asyncio.timeout(30):
        while (code := await producer.init()) in NOT_YET:
            pass  # each request is a turn of the loop
    assert code == 0


async def send(server: BrokerServer, producer: Producer, partition: int) -> None:
    batch = encode_batch([b"v"], attributes=TRANSACTIONAL, producer_id=producer.producer_id, producer_epoch=producer.epoch, base_sequence=0)
    topics = [{"name": "orders", "partition_data": [{"index": partition, "records": batch}]}]
    fields = {"transactional_id": producer.transactional_id, "acks": -1, "timeout_ms": 30_000, "topic_data": topics}
    answer = await ask(server, PRODUCE, 11, fields)
    assert answer.responses[0].partition_responses[0].error_code == 0


async def is_committed(data: Path) -> set[bool]:
    """Whether the transaction is committed, by partition, after the producer has begun again."""
    async with group_server(data, options=OPTIONS, files=QuickFiles()) as server:
        producer = Producer(server)
        assert await producer.find() == 0
        await begin(producer)
        found = set()
        for partition in PARTITIONS:
            log = server._storage.replicas.partition("orders", partition).log
            assert log.log_end_offset >= 2, "the batch and its marker, which may have been written once more"
            assert log.last_stable_offset(log.log_end_offset) == log.log_end_offset
            found.add(not aborted_in(log, 0, log.log_end_offset))
        return found


@pytest.mark.parametrize("fate", [Fate.ALL_LOST, Fate.ALL_KEPT, Fate.TORN, Fate.LAST_LOST], ids=lambda fate: fate.name)
async def test_after_a_power_cut_at_any_moment_of_a_commit_it_is_whole_or_not_there(tmp_path: Path, fate: Fate) -> None:
    root, after = tmp_path / "disk", tmp_path / "after"
    root.mkdir()
    life = await live(root)
    found = []
    for moment in range(life.asked, life.complete + 1):
        materialise(disk_after(life.files.recording, moment, fate), root=root, target=after)
        [is_there] = await is_committed(after)
        assert is_there or moment < life.answered, f"answered, and gone after {moment} operations"
        found.append(is_there)
        shutil.rmtree(after)
    assert len(found) > 6
    assert (found[0], found[-1]) == (False, True)
    assert found == sorted(found), "what was committed once stays so"
