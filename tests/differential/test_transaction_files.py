"""Segments with transactions that Apache Kafka wrote: readers stop at the same offset, the same is aborted, recovery makes its files."""

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Producer

from millstream.client.cluster import Cluster
from millstream.client.codecs.fetch import READ_COMMITTED, FetchFrom
from millstream.coordinator_shard import CoordinatorRecord
from millstream.files import Files
from millstream.log.config import LogConfig
from millstream.log.directories.directory import LogDirectory
from millstream.log.loading import LoadOrder
from millstream.log.log import Log
from millstream.log.producer_state import ProducerState
from millstream.log.transactions.committed_reads import aborted_in_region
from millstream.topic_partition import TopicPartition
from millstream.transactions.settings import TransactionSettings
from millstream.transactions.shard import TransactionShard
from millstream.wire.batch import split_batches
from millstream.wire.records import decode_records
from tests.brokers import KafkaBroker
from tests.differential.transaction_commands import Decided, ask_kafka, ask_machine
from tests.machines.transaction_script import Coordinator
from tests.topics import create_topic

TOPIC = "transactions"
MIB = 1 << 20
STEPS = 160


class Fetched(NamedTuple):
    """What Kafka answered a reader of committed data."""

    offset: int
    max_bytes: int
    size_bytes: int
    last_stable_offset: int
    high_watermark: int
    aborted: list[tuple[int, int]]


class Written(NamedTuple):
    """The files of a partition after a clean stop of Kafka, and what it said of them before."""

    directory: Path
    fetched: list[Fetched]
    decided: list[Decided]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Written]:
    kafka = KafkaBroker(tmp_path_factory.mktemp("kafka"), {"transaction.state.log.num.partitions": 1})
    try:
        kafka.start()
        create_topic(kafka, name=TOPIC, configs={"segment.bytes": MIB})
        last_open = transact(kafka.bootstrap_servers)
        fetched = fetch(kafka.bootstrap_servers)
        decided = ask_kafka(kafka, topic=create_topic(kafka))
        kafka.stop()
        del last_open
        yield Written(kafka.partition_directory(TOPIC), fetched, decided)
    finally:
        kafka.kill()


def transact(address: str) -> Producer:
    """Interleaved transactions of three producers, over several segments; the last one stays open."""
    rng = random.Random(16)
    producers = [Producer({"bootstrap.servers": address, "transactional.id": f"id-{number}", "linger.ms": 0}) for number in range(3)]
    for producer in producers:
        producer.init_transactions(60)
    is_open = [False] * 3
    for step in range(STEPS):
        number = rng.randrange(3)
        producer = producers[number]
        if not is_open[number]:
            producer.begin_transaction()
            is_open[number] = True
        for _ in range(rng.randint(1, 4)):
            producer.produce(TOPIC, rng.randbytes(rng.choice([100, 30_000])))
        producer.flush(60)
        if step < STEPS - 1 and rng.random() < 0.5:
            producer.commit_transaction(60) if rng.random() < 0.5 else producer.abort_transaction(60)
            is_open[number] = False
    return producers[number]


def fetch(address: str) -> list[Fetched]:
    answers = []
    with Cluster([address]) as cluster:
        end = cluster.fetch(FetchFrom(TOPIC, 0, 0), isolation_level=READ_COMMITTED).last_stable_offset
        for offset in range(0, end, 3):
            max_bytes = (1_000, 50_000, MIB)[offset // 3 % 3]
            got = cluster.fetch(FetchFrom(TOPIC, 0, offset, max_bytes), isolation_level=READ_COMMITTED)
            aborted = list(got.aborted_transactions)
            answers.append(Fetched(offset, max_bytes, len(got.records), got.last_stable_offset, got.high_watermark, aborted))
    return answers


def test_the_machine_decides_as_kafka(written: Written) -> None:
    coordinator = Coordinator()
    assert len({(type(one.command), one.code) for one in written.decided}) > 6
    for number, one in enumerate(written.decided):
        assert ask_machine(coordinator, one.command) == (one.code, one.epoch), f"{number}: {one}"


def test_kafkas_records_are_read(written: Written) -> None:
    """What Kafka wrote to `__transaction_state` is what the machine says, from its own records."""
    segment = next((written.directory.parent / "__transaction_state-0").glob("*.log"))
    shard = TransactionShard(TransactionSettings(), coordinator_epoch=0)
    for header, batch in split_batches(segment.read_bytes()):
        if not header.is_control:
            for record in decode_records(batch):
                assert record.key is not None
                shard.apply(CoordinatorRecord(record.key, record.value))
    coordinator = Coordinator()
    for one in written.decided:
        ask_machine(coordinator, one.command)
    mine = {one.transactional_id: one for one in coordinator.shard}
    kafkas = {one.transactional_id: one for one in shard if one.transactional_id in mine}
    assert len(mine) == len(kafkas) > 2
    for name, own in mine.items():
        kafka = kafkas[name]
        assert (own.state, own.epoch, own.timeout_ms, own.partitions, own.client_version) == (
            kafka.state, kafka.epoch, kafka.timeout_ms, kafka.partitions, kafka.client_version,
        )  # fmt: skip


def opened(written: Written, into: Path, *, is_clean: bool) -> Log:
    """Our log over a copy of the files."""
    shutil.copytree(written.directory, into / f"{TOPIC}-0")
    directory = LogDirectory(Files(), into, on_offline=lambda _directory, _error: None)
    order = LoadOrder(LogConfig(segment_bytes=MIB), 0, is_clean=is_clean)
    return Log(directory, TopicPartition(TOPIC, 0), into / f"{TOPIC}-0", order)


def contents(directory: Path, ending: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.glob(f"*{ending}"))}


@pytest.mark.parametrize("is_clean", [True, False])
def test_the_same_is_aborted_and_readers_stop_at_the_same_offset(written: Written, tmp_path: Path, is_clean: bool) -> None:
    log = opened(written, tmp_path, is_clean=is_clean)
    assert len(log.segments) > 2
    for answer in written.fetched:
        end = log.last_stable_offset(answer.high_watermark)
        assert end == answer.last_stable_offset < answer.high_watermark
        region = log.read(answer.offset, max_bytes=answer.max_bytes, limit_offset=end)
        assert region is not None
        assert region.length == answer.size_bytes
        listed = [(aborted.producer_id, aborted.first_offset) for aborted in aborted_in_region(log, answer.offset, region)]
        assert listed == answer.aborted, answer
    assert max(len(answer.aborted) for answer in written.fetched) > 3


def test_recovery_makes_kafkas_files(written: Written, tmp_path: Path) -> None:
    log = opened(written, tmp_path, is_clean=False)
    log.close()
    files = contents(written.directory, ".txnindex")
    assert sum(map(len, files.values())) > 10 * 34
    assert contents(log.path, ".txnindex") == files
    name = f"{log.log_end_offset:020d}.snapshot"
    ours, kafkas = (ProducerState.parse((directory / name).read_bytes()) for directory in (log.path, written.directory))
    for kafka in kafkas:
        own = ours.get(kafka.producer_id)
        assert own is not None
        assert [getattr(own, name) for name in own.__slots__] == [getattr(kafka, name) for name in kafka.__slots__]
    assert len(ours) == len(kafkas) == 3
    assert ours.transactions is not None
    assert kafkas.transactions is not None
    assert ours.transactions.ongoing == kafkas.transactions.ongoing != {}
