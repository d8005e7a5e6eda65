"""A broker that runs out of memory over one client's batch: that batch is refused, and everybody's records stay as they were sent."""

import resource
import zlib
from pathlib import Path

import cramjam
import pytest

from tests.batches import encode_batch, encode_block, encode_record, now_ms
from tests.brokers import IS_KAFKA, Broker, StartBroker
from tests.clients.confluent_client import ConfluentClient
from tests.connection import PRODUCE, encode_request
from tests.topics import create_topic, produce, produce_fields

ZSTD = 4
ROOM = 48 << 20
UNFOLDED = 120 << 20


def bomb() -> bytes:
    """A batch of a few kilobytes that unfolds to 120 MB."""
    records = encode_record(0, bytes(UNFOLDED), key=b"bomb")
    batch = encode_block(bytes(cramjam.zstd.compress(records, level=19)), 1, timestamp=now_ms(), max_timestamp=now_ms(), attributes=ZSTD)
    assert len(batch) < 20_000
    return batch


def keyed(number: int, *, of: str) -> bytes:
    return encode_batch([f"{of} {number} ".encode().ljust(3000, b".")], keys=[b"key %d" % zlib.crc32(f"{of}{number}".encode())])


def leave_room(broker: Broker, size: int) -> None:
    """Let the process have so much more address space, as `ulimit -v` would."""
    status = Path(f"/proc/{broker.pid}/status").read_text()
    used = next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmSize"))
    resource.prlimit(broker.pid, resource.RLIMIT_AS, (used + size, used + size))


@pytest.mark.skipif(IS_KAFKA, reason="a JVM takes its address space when it starts")
def test_batch_that_needs_more_memory_than_there_is_harms_no_other(start_broker: StartBroker) -> None:
    broker = start_broker()
    topic = create_topic(broker, configs={"cleanup.policy": "compact"})
    expected: dict[int, bytes] = {}
    with broker.connect() as victim, broker.connect() as attacker:
        for _ in range(2):  # the second request of a shape opens the lane
            answer = produce(attacker, topic, keyed(0, of="attacker"))
            expected[answer.base_offset] = keyed(0, of="attacker")
        leave_room(broker, ROOM)
        run = [keyed(1, of="attacker"), bomb(), keyed(2, of="attacker")]
        frames = [encode_request(PRODUCE, 9, produce_fields(topic, batch), correlation_id=number) for number, batch in enumerate(run)]
        attacker.socket.sendall(b"".join(frames))
        answers = [attacker.receive(PRODUCE, 9)[1].responses[0].partition_responses[0] for _ in run]
        assert answers[1].error_code != 0
        for number in range(20):
            answer = produce(victim, topic, keyed(number, of="victim"))
            assert answer.error_code == 0
            expected[answer.base_offset] = keyed(number, of="victim")
        for batch, answer in zip(run, answers, strict=True):
            if answer.error_code == 0:
                expected[answer.base_offset] = batch
    with ConfluentClient().reader(broker, topic) as reader:
        read = {message.offset: message.value for message in reader.read(len(expected))}
    assert sorted(read) == sorted(expected)
    assert all(value is not None and value in expected[offset] for offset, value in read.items())
