"""The partition of `__consumer_offsets` that Apache Kafka wrote, with transactions in it, means here what it means to Kafka."""

from collections.abc import Callable
from operator import getitem
from pathlib import Path
from typing import Any

from millstream.coordinator_shard import CoordinatorRecord
from millstream.groups.settings import GroupSettings
from millstream.groups.shard import GroupCoordinatorShard
from millstream.log.transactions.marker import read_marker
from millstream.wire.batch import split_batches
from millstream.wire.records import decode_key_values
from tests.brokers import KafkaBroker
from tests.clients.group_requests import OFFSET_FETCH
from tests.differential.pair import Pair
from tests.differential.pending_offsets_scenario import PendingOffsetsScenario

STEPS = 60
SEED = 1_000_000


def replayed(directory: Path) -> GroupCoordinatorShard:
    """A coordinator that has read Kafka's partition."""
    shard = GroupCoordinatorShard(GroupSettings())
    count = 0
    for path in sorted(directory.glob("*.log")):
        for header, batch in split_batches(path.read_bytes()):
            if header.is_control:
                marker = read_marker(batch)
                assert marker is not None
                shard.end_transaction(header.producer_id, is_commit=marker.is_commit)
                count += 1
                continue
            for key, value in decode_key_values(batch):
                record = CoordinatorRecord(key or b"", value)
                if header.is_transactional:
                    shard.apply_pending(record, header.producer_id)
                else:
                    shard.apply(record)
    assert count, "no transaction ended"
    shard.loaded(0)
    return shard


def positions(topics: Any, get: Callable[[Any, str], Any]) -> set[tuple[object, ...]]:
    fields = ("partition_index", "committed_offset", "committed_leader_epoch", "metadata", "error_code")
    return {(get(topic, "name"), *(get(one, field) for field in fields)) for topic in topics for one in get(topic, "partitions")}


def test_offsets_that_kafka_wrote_in_transactions_are_read_as_kafka_reads_them(pair: Pair) -> None:
    kafka = pair.kafka.broker
    assert isinstance(kafka, KafkaBroker)
    scenario = PendingOffsetsScenario(pair, SEED)
    scenario.prepare()
    for _ in range(STEPS):
        scenario.step()
    shard = replayed(kafka.partition_directory("__consumer_offsets"))
    asked = [(name, None, [0, 1]) for name in scenario.topic_ids]
    with kafka.connect() as connection:
        for group in scenario.groups:
            topics = [{"name": name, "partition_indexes": partitions} for name, _, partitions in asked]
            for is_stable_required in (True, False):
                fields = {"groups": [{"group_id": group, "topics": topics}], "require_stable": is_stable_required}
                shown = connection.ask(OFFSET_FETCH, 9, fields).groups[0]
                ours = shard.fetch_offsets(group, asked, is_stable_required=is_stable_required)["topics"]
                assert positions(ours, getitem) == positions(shown.topics, getattr)
    scenario.clean_up()
