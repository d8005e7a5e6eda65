from pathlib import Path
from random import Random

import pytest

from penstock.broker.api import Fields
from penstock.broker.group_shard import as_coordinator_error
from penstock.errors import (
    CoordinatorNotAvailable,
    KafkaError,
    MessageTooLarge,
    NotCoordinator,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    StorageError,
    UnknownServerError,
)
from penstock.groups.outcome import GroupRecord
from penstock.wire.batch import read_header
from penstock.wire.records import decode_records, split_batches
from tests.unit.broker.group_client import find, group_server


class Answers:
    """Somebody who waits."""

    def __init__(self) -> None:
        self.fields: list[Fields] = []

    def answer(self, fields: Fields) -> None:
        self.fields.append(fields)

    def fail(self, error: KafkaError) -> None:
        self.fields.append({"error_code": error.code})


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (StorageError(), NotCoordinator),
        (NotLeaderOrFollower(), NotCoordinator),
        (NotEnoughReplicas(), CoordinatorNotAvailable),
        (MessageTooLarge(), UnknownServerError),
    ],
    ids=lambda value: type(value).__name__,
)
def test_error_of_the_log_is_told_as_one_of_the_coordinator(error: KafkaError, told: type[KafkaError]) -> None:
    assert type(as_coordinator_error(error)) is told


@pytest.mark.parametrize(
    ("records", "batches", "codec"),
    [
        ([GroupRecord(b"key", b"value"), GroupRecord(b"gone", None)], 1, 0),
        ([GroupRecord(b"big", bytes(2_000_000))], 1, 4),
        ([GroupRecord(b"incompressible", Random(1).randbytes(2_000_000))], 1, 4),
        ([GroupRecord(bytes((number,)), Random(number).randbytes(800_000)) for number in range(2)], 2, 0),
    ],
    ids=["small", "large when it is not compressed", "larger than a client may send", "very many"],
)
async def test_records_of_a_decision_are_one_batch(tmp_path: Path, records: list[GroupRecord], batches: int, codec: int) -> None:
    async with group_server(tmp_path) as server:
        await find(server)
        shard = server._groups.shard("group")
        assert shard._append(records) == len(records)
        written = list(split_batches((shard.partition.log.path / f"{0:020}.log").read_bytes()))
        assert (len(written), read_header(written[0]).codec) == (batches, codec)
        read = [GroupRecord(record.key or b"", record.value) for batch in written for record in decode_records(batch)]
        assert read == records


async def test_timer_of_a_shard_wakes_its_machine(tmp_path: Path) -> None:
    async with group_server(tmp_path) as server:
        await find(server)
        shard = server._groups.shard("group")
        assert shard._timer is not None, "expired offsets are looked for now and then"
        shard.close()
        assert shard._timer is None


async def test_read_is_answered_at_once_when_everything_is_committed(tmp_path: Path) -> None:
    async with group_server(tmp_path) as server:
        await find(server)
        answers = Answers()
        server._groups.shard("group").answer_when_committed(answers, {"error_code": 0})
        assert answers.fields == [{"error_code": 0}]
