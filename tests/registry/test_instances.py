"""Several instances on one log: one writes, the others forward, and whoever dies or stalls is replaced; no id is given twice."""

import json
import threading
from collections import Counter
from pathlib import Path

import pytest

from millstream.registry.client import RegistryClient
from millstream.registry.errors import RegistryError
from tests.brokers import StartBroker
from tests.registry.registry_process import RegistryProcess, StartRegistry
from tests.waiting import wait_until

EACH = 30
TURNS = 3
DYING = [str(Path(__file__).with_name("dying_registry.py"))]


def schema(number: int | str) -> str:
    return json.dumps({"type": "record", "name": f"R{number}", "fields": []})


def register(registry: RegistryProcess, number: int | str) -> int:
    """Register a schema of this number at this instance; returns its id, and sees that the same instance knows it at once."""
    with registry.client() as client:
        registered = client.register(f"s{number}", schema(number))
        assert client.schema_by_id(registered.schema_id).schema == registered.schema
        assert client.versions(f"s{number}") == [1]
        return registered.schema_id


def agreed(one: RegistryProcess, other: RegistryProcess) -> dict[str | None, int]:
    """What both know, once they know the same: what is written at one is read by the other a moment later."""
    wait_until(lambda: ids(one) == ids(other), "both instances have read the same")
    return ids(one)


def ids(registry: RegistryProcess) -> dict[str | None, int]:
    with registry.client() as client:
        return {one.subject: one.schema_id for one in client.latest_versions()}


def test_schemas_and_ids_survive_a_restart(start_broker: StartBroker, start_registry: StartRegistry) -> None:
    registry = start_registry(start_broker())
    assert [register(registry, number) for number in range(3)] == [1, 2, 3]
    with registry.client() as client:
        client.set_level("FULL", subject="s0")
        client.delete_subject("s1")
    before = ids(registry)
    assert registry.stop() == 0
    registry.start()
    assert ids(registry) == before == {"s0": 1, "s2": 3}
    with registry.client() as client:
        assert (client.level("s0"), client.level()) == ("FULL", "BACKWARD")
    assert register(registry, 9) == 4


def test_an_id_does_not_come_back_after_a_permanent_delete_and_a_restart(start_broker: StartBroker, start_registry: StartRegistry) -> None:
    registry = start_registry(start_broker())
    register(registry, 1)
    assert register(registry, 2) == 2
    with registry.client() as client:
        client.delete_subject("s2")
        client.delete_subject("s2", permanent=True)
    registry.kill()
    registry.start()
    assert register(registry, 3) == 3


def test_both_instances_take_writes_and_know_them_at_once(start_broker: StartBroker, start_registry: StartRegistry) -> None:
    broker = start_broker()
    one, other = start_registry(broker), start_registry(broker)
    assert [register(registry, number) for number, registry in enumerate((one, other, one, other))] == [1, 2, 3, 4]
    with other.client() as client:
        assert client.set_level("NONE", subject="s0") == "NONE"
        assert client.delete_version("s0", 1) == 1
        assert client.delete_subject("s1") == [1]
        with pytest.raises(RegistryError) as caught:
            client.delete_subject("s1")
        assert caught.value.code == 40404
        client.delete_level("s0")
    assert agreed(one, other) == {"s2": 3, "s3": 4}


def test_the_other_instance_writes_when_the_writer_is_killed(start_broker: StartBroker, start_registry: StartRegistry) -> None:
    broker = start_broker()
    one, other = start_registry(broker), start_registry(broker)
    assert register(one, 1) == 1
    one.kill()
    assert register(other, 2) == 2
    one.start()
    assert register(one, 3) == 3
    assert len(agreed(one, other)) == 3


def test_a_writer_that_stalls_is_replaced_and_when_it_wakes_up_it_forwards(
    start_broker: StartBroker, start_registry: StartRegistry
) -> None:
    broker = start_broker()
    one, other = start_registry(broker), start_registry(broker)
    assert register(one, 1) == 1
    one.hold()
    assert register(other, 2) == 2
    one.release()
    assert register(one, 3) == 3
    assert register(other, 4) == 4
    assert len(agreed(one, other)) == 4
    assert one.output.count("writes now") == other.output.count("writes now") == 1


def test_instances_that_fight_for_the_log_never_give_one_id_to_two_schemas(
    start_broker: StartBroker, start_registry: StartRegistry
) -> None:
    broker = start_broker()
    instances = [start_registry(broker), start_registry(broker)]
    failed: list[RegistryError] = []

    def work(own: int) -> None:
        with RegistryClient([instances[own].url], timeout_s=30, retries=3) as client:
            for number in range(EACH):
                try:
                    client.register(f"w{own}-{number}", schema(f"{own}_{number}"))
                except RegistryError as error:
                    failed.append(error)

    workers = [threading.Thread(target=work, args=(own,)) for own in range(2)]
    for worker in workers:
        worker.start()
    # Each is stopped for a moment in turn, in the middle of whatever it does, so that the other takes over.
    for turn in range(TURNS):
        instances[turn % 2].hold()
        with RegistryClient(instances[1 - turn % 2].url, timeout_s=30) as client:
            client.register(f"turn-{turn}", schema(f"turn{turn}"))
        instances[turn % 2].release()
    for worker in workers:
        worker.join(timeout=60)
    assert failed == []
    known = agreed(*instances)
    assert len(known) == 2 * EACH + TURNS
    assert [number for number, count in Counter(known.values()).items() if count > 1] == []


def test_a_registry_killed_between_write_and_read_back_has_written_once(start_broker: StartBroker, start_registry: StartRegistry) -> None:
    broker = start_broker()
    dying = start_registry(broker, program=DYING)
    with dying.client() as client, pytest.raises(RegistryError):
        client.register("s1", schema(1))
    assert dying.process.wait(timeout=10) == -9
    living = start_registry(broker)
    # The client, who got no answer, asks again.
    assert register(living, 1) == 1
    assert register(living, 2) == 2
    assert ids(living) == {"s1": 1, "s2": 2}


def test_a_broker_that_is_away_is_reported_and_waited_for(start_broker: StartBroker, start_registry: StartRegistry) -> None:
    broker = start_broker()
    registry = start_registry(broker)
    assert register(registry, 1) == 1
    broker.kill()
    with registry.client() as client:
        assert client.schema_by_id(1).schema == schema(1).replace(" ", "")
        assert client.register("s1", schema(1)).schema_id == 1
        with pytest.raises(RegistryError) as caught:
            client.register("s2", schema(2))
    assert (caught.value.status, caught.value.code) == (500, 50002)
    broker.start()
    assert register(registry, 3) in (2, 3)
    assert set(ids(registry)) >= {"s1", "s3"}


def test_a_registry_that_starts_before_its_broker_waits_for_it(start_broker: StartBroker, start_registry: StartRegistry) -> None:
    broker = start_broker()
    broker.stop()
    registry = start_registry(broker, start=False)
    registry.start(wait=False)
    broker.start()
    wait_until(registry.is_ready_or_dead, "the registry is ready")
    assert register(registry, 1) == 1


def test_a_topic_that_is_not_compacted_is_refused(start_broker: StartBroker, start_registry: StartRegistry) -> None:
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    broker = start_broker()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic("_schemas", 1, 1)])["_schemas"].result()
    registry = start_registry(broker, start=False)
    registry.start(wait=False)
    assert registry.process.wait(timeout=30) == 1
    assert "cleanup.policy=compact" in registry.output.splitlines()[-1]
