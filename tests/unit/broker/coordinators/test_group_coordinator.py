"""The coordinator's shell in a whole broker: where groups live, what is there after a restart, what happens when a log fails."""

import asyncio
import errno
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from millstream.broker.coordinators.group_coordinator import group_settings, offsets_topic_configs
from millstream.broker.coordinators.runtime import partition_for
from millstream.broker.server import BrokerServer
from millstream.coordination.topic_names import OFFSETS_TOPIC
from millstream.coordinator_shard import Outcome
from millstream.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidRequest,
    InvalidTopic,
    KafkaError,
    NotCoordinator,
    NotEnoughReplicas,
    OffsetMetadataTooLarge,
    PolicyViolation,
    UnknownTopicOrPartition,
    UsageError,
)
from millstream.groups.topic_image import TopicImage
from millstream.options.settings import BrokerSettings
from tests.batches import encode_batch
from tests.connection import DELETE_TOPICS, PRODUCE
from tests.unit.broker.group_client import (
    HEARTBEAT,
    JOIN_GROUP,
    LIST_GROUPS,
    SYNC_GROUP,
    ask,
    commit,
    create,
    fetch,
    find,
    group_server,
)
from tests.unit.broker.test_server import DyingFiles
from tests.waiting import eventually


def context_of(server: BrokerServer, group: str = "group") -> Any:
    return server._groups.runtime.context(group)


async def loaded(server: BrokerServer) -> None:
    await eventually(lambda: all(context.is_active for context in server._groups.runtime))


async def join(server: BrokerServer, group: str = "group") -> tuple[str, int]:
    """Become the only member of a group."""
    fields: dict[str, object] = {
        "group_id": group,
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 10_000,
        "member_id": "",
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"subscription"}],
    }
    answer = await ask(server, JOIN_GROUP, 2, fields)
    assert answer.error_code == 0
    assignment = {"member_id": answer.member_id, "assignment": b"assignment"}
    who = {"group_id": group, "generation_id": answer.generation_id, "member_id": answer.member_id}
    synced = await ask(server, SYNC_GROUP, 2, {**who, "assignments": [assignment]})
    assert (synced.error_code, synced.assignment) == (0, b"assignment")
    return answer.member_id, answer.generation_id


async def heartbeat(server: BrokerServer, member_id: str, generation: int) -> int:
    answer = await ask(server, HEARTBEAT, 2, {"group_id": "group", "generation_id": generation, "member_id": member_id})
    return int(answer.error_code)


async def test_looking_for_a_coordinator_creates_the_topic_of_offsets_once(tmp_path: Path) -> None:
    async with group_server(tmp_path) as server:
        assert await fetch(server) == (NotCoordinator.code, -1)
        assert await asyncio.gather(*(find(server, f"group-{number}") for number in range(5))) == [0] * 5
        topic = server._cluster.view().topics[OFFSETS_TOPIC]
        assert (len(topic.partitions), topic.configs["cleanup.policy"], topic.is_internal) == (2, "compact", True)
        assert len(list(server._groups.runtime)) == 2


async def test_coordinator_is_not_available_while_its_topic_cannot_be_created(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with group_server(tmp_path) as server:
        with monkeypatch.context() as patch:

            def refuse(_added: int) -> None:
                raise PolicyViolation("no descriptors left")

            patch.setattr(server._cluster.creation, "check_request", refuse)
            assert await find(server) == CoordinatorNotAvailable.code
        assert await find(server) == 0


async def test_committed_offset_is_in_the_partition_of_its_group_and_there_after_a_restart(tmp_path: Path) -> None:
    async with group_server(tmp_path) as server:
        await find(server)
        await create(server)
        assert await commit(server, 7) == 0
        assert await fetch(server) == (0, 7)
        ends = {context.partition.index: context.partition.log.log_end_offset for context in server._groups.runtime}
        index = partition_for("group", 2)
        assert (ends[index], ends[1 - index]) == (1, 0)
    async with group_server(tmp_path) as server:
        await loaded(server)
        assert await fetch(server) == (0, 7)


async def test_member_may_go_on_after_a_restart(tmp_path: Path) -> None:
    async with group_server(tmp_path) as server:
        await find(server)
        member_id, generation = await join(server)
    async with group_server(tmp_path) as server:
        await loaded(server)
        assert await heartbeat(server, member_id, generation) == 0
        assert await heartbeat(server, "another", generation) != 0


async def test_while_groups_are_loaded_clients_have_to_wait_and_heartbeats_are_fine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with group_server(tmp_path) as server:
        await find(server)
        await create(server)
        await commit(server, 7)
    gate = asyncio.Event()

    async def wait(*_: object, **__: object) -> int:
        await gate.wait()
        return 0

    monkeypatch.setattr("millstream.broker.coordinators.runtime.replay", wait)
    async with group_server(tmp_path) as server:
        assert await find(server) == 0
        assert await fetch(server) == (CoordinatorLoadInProgress.code, -1)
        assert await commit(server, 8) == CoordinatorLoadInProgress.code
        assert await heartbeat(server, "member", 1) == 0
        listed = await ask(server, LIST_GROUPS, 4, {"states_filter": []})
        assert listed.error_code == CoordinatorLoadInProgress.code
        gate.set()
        await loaded(server)
        assert (await ask(server, LIST_GROUPS, 4, {"states_filter": []})).error_code == 0


async def test_commit_is_answered_when_it_is_on_disk_where_acknowledged_means_on_disk(tmp_path: Path) -> None:
    async with group_server(tmp_path, options={"log.flush.interval.messages": "1"}) as server:
        await find(server)
        await create(server)
        context = context_of(server)
        waiting: list[object] = []
        broker = context.partition.broker
        context.partition.broker = replace(broker, request_flush=waiting.append)
        commits = asyncio.create_task(commit(server, 7))
        await eventually(lambda: waiting)
        reads = asyncio.create_task(fetch(server))
        await eventually(lambda: len(context.partition.high_watermark._waiters) == 2)
        assert not commits.done()
        assert not reads.done(), "a read shows nothing that a crash may take back"
        context.partition.broker = broker
        server._storage.flusher.request(context.partition)
        assert (await commits, await reads) == (0, (0, 7))


async def test_offsets_of_a_deleted_topic_are_forgotten(tmp_path: Path) -> None:
    async with group_server(tmp_path) as server:
        await find(server)
        await create(server)
        await commit(server, 7)
        await ask(server, DELETE_TOPICS, 5, {"topic_names": ["orders"], "timeout_ms": 20_000})
        await create(server)
        assert await fetch(server) == (0, -1)


async def test_commit_for_what_does_not_exist_and_with_too_long_a_note_is_refused(tmp_path: Path) -> None:
    async with group_server(tmp_path, options={"offset.metadata.max.bytes": "5"}) as server:
        await find(server)
        await create(server)
        assert await commit(server, 7, topic="nothing") == UnknownTopicOrPartition.code
        assert await commit(server, 7, metadata="123456") == OffsetMetadataTooLarge.code
        assert await fetch(server) == (0, -1)


async def test_member_with_a_giant_subscription_is_refused(tmp_path: Path) -> None:
    async with group_server(tmp_path) as server:
        await find(server)
        fields: dict[str, object] = {
            "group_id": "group",
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 10_000,
            "protocol_type": "consumer",
            "protocols": [{"name": name, "metadata": bytes(600_000)} for name in ("range", "sticky")],
        }
        assert (await ask(server, JOIN_GROUP, 2, fields)).error_code == InvalidRequest.code


async def test_clients_do_not_write_into_the_topic_of_offsets(tmp_path: Path) -> None:
    async with group_server(tmp_path) as server:
        await find(server)
        data = [{"name": OFFSETS_TOPIC, "partition_data": [{"index": 0, "records": encode_batch([b"value"])}]}]
        fields = {"transactional_id": None, "acks": -1, "timeout_ms": 20_000, "topic_data": data}
        answer = await ask(server, PRODUCE, 9, fields)
        assert answer.responses[0].partition_responses[0].error_code == InvalidTopic.code


async def test_shard_whose_append_failed_says_so_and_is_loaded_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millstream.broker.coordinators.runtime.RELOAD_AFTER_SECONDS", 0.0)
    async with group_server(tmp_path) as server:
        await find(server)
        await create(server)
        await commit(server, 7)
        context = context_of(server)

        def fail(*_: object, **__: object) -> None:
            raise NotEnoughReplicas("one is too few")

        with monkeypatch.context() as patch:
            patch.setattr(type(context.partition.as_leader()), "append", fail)
            assert await commit(server, 8) == CoordinatorNotAvailable.code
        await loaded(server)
        assert await fetch(server) == (0, 7), "what was not written did not happen"
        assert await commit(server, 9) == 0


async def test_member_that_waits_is_answered_when_its_shard_is_given_up(tmp_path: Path) -> None:
    async with group_server(tmp_path, options={"group.initial.rebalance.delay.ms": "60000"}) as server:
        await find(server)
        joins = asyncio.create_task(join(server))
        context = context_of(server)
        await eventually(context.shard.list_groups)
        context.fail(KafkaError("for a test"))
        with pytest.raises(AssertionError):
            await joins


async def test_groups_on_a_disk_that_failed_have_no_coordinator_and_the_others_have(tmp_path: Path) -> None:
    files = DyingFiles()
    one, other = tmp_path / "one", tmp_path / "other"
    async with group_server(one, other, files=files) as server:
        await find(server)
        await create(server)
        groups = {partition_for(group, 2): group for group in (f"group-{number}" for number in range(10))}
        dead = one if (one / f"{OFFSETS_TOPIC}-0").exists() else other
        files.dead.add(dead)
        assert await commit(server, 7, group=groups[0]) == NotCoordinator.code
        assert await find(server, groups[0]) == CoordinatorNotAvailable.code
        assert await find(server, groups[1]) == 0
        assert (await fetch(server, group=groups[1])) == (0, -1)


async def test_disk_that_fails_elsewhere_takes_its_shards_along(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    async with group_server(one, other) as server:
        await find(server)
        dead = context_of(server).partition.log.directory
        dead.fail("a test", OSError(errno.EIO, "input/output error"))
        await eventually(lambda: not context_of(server).is_in_use)
        assert await find(server) == CoordinatorNotAvailable.code


async def test_shards_are_shown_what_changed_and_not_all_topics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with group_server(tmp_path) as server:
        await find(server)
        for name in ("one", "two", "three"):
            await create(server, name)
        await loaded(server)
        context = context_of(server)
        shown: list[set[str]] = []

        def topics_changed(_image: TopicImage, _now_ms: int, *, changed: Collection[str]) -> Outcome:
            shown.append(set(changed))
            return Outcome()

        monkeypatch.setattr(context.shard, "topics_changed", topics_changed)
        image = server._groups.image
        await create(server, "four")
        assert shown == [{"four"}]
        assert server._groups.image.topics.keys() == image.topics.keys() | {"four"}
        await ask(server, DELETE_TOPICS, 3, {"topic_names": ["two"], "timeout_ms": 5_000})
        await eventually(lambda: len(shown) == 2)
        assert shown[1] == {"two"}
        assert server._groups.image.names.keys() == {info.topic_id for info in server._groups.image.topics.values()}


def test_topic_of_offsets_is_compacted() -> None:
    configs = offsets_topic_configs(BrokerSettings({"offsets.topic.segment.bytes": "2097152"}))
    assert configs == {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "2097152"}


def test_defaults_are_kafkas_except_that_a_new_group_hardly_waits() -> None:
    settings = group_settings(BrokerSettings())
    assert (settings.min_session_timeout_ms, settings.max_session_timeout_ms) == (6_000, 1_800_000)
    assert settings.initial_rebalance_delay_ms == 50
    assert settings.offsets_retention_ms == 7 * 24 * 3_600_000
    assert (settings.consumer_session_timeout_ms, settings.consumer_heartbeat_interval_ms) == (45_000, 5_000)
    assert settings.consumer_assignors == ("uniform", "range")


def test_options_have_their_effect() -> None:
    given = {
        "group.max.size": "3",
        "offset.metadata.max.bytes": "10",
        "offsets.retention.minutes": "2",
        "group.consumer.assignors": "range",
    }
    settings = group_settings(BrokerSettings(given))
    assert (settings.max_group_size, settings.offset_metadata_max_bytes) == (3, 10)
    assert (settings.offsets_retention_ms, settings.consumer_assignors) == (120_000, ("range",))


@pytest.mark.parametrize(
    "given",
    [
        {"group.min.session.timeout.ms": "10", "group.max.session.timeout.ms": "9"},
        {"group.consumer.session.timeout.ms": "1000"},
        {"group.consumer.heartbeat.interval.ms": "16000"},
    ],
    ids=str,
)
def test_options_that_contradict_each_other_are_refused(given: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="is above"):
        group_settings(BrokerSettings(given))
