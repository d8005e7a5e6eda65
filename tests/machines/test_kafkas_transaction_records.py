"""Kafka's own tool reads the records that our transaction coordinator writes."""

import re
from pathlib import Path

import pytest

from millstream.topic_partition import TopicPartition
from millstream.transactions.records import encode_record, encode_tombstone
from millstream.transactions.transaction import State, Transaction
from millstream.wire.records import Record, encode_batch
from tests.java import run_tool

ONGOING = Transaction("copier", 7, 3, 60_000, State.ONGOING, frozenset({TopicPartition("orders", 1)}), start_ms=10, update_ms=20)
RECORDS = [
    encode_record(Transaction("new", 6, 0, 1000, update_ms=5)),
    encode_record(ONGOING),
    encode_record(ONGOING._replace(state=State.PREPARE_COMMIT, epoch=4, client_version=2, next_producer_id=9, previous_producer_id=6)),
    encode_tombstone("new"),
]


@pytest.mark.slow
def test_kafkas_dump_tool_reads_our_records(tmp_path: Path) -> None:
    file = tmp_path / "00000000000000000000.log"
    file.write_bytes(encode_batch([Record(offset, 0, *record) for offset, record in enumerate(RECORDS)]))
    dumped = run_tool("kafka.tools.DumpLogSegments", "--transaction-log-decoder", "--files", str(file))
    assert len(re.findall("transactionalId", dumped)) == len(RECORDS), dumped
    for wanted in ('"producerId":7', '"producerEpoch":4', '"topic":"orders"', '"nextProducerId":9', '"clientTransactionVersion":2'):
        assert wanted in dumped, dumped
