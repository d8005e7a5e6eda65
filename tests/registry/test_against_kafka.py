"""The registry on Apache Kafka 4.2, where its jars are: the log is the database there too, and no ZooKeeper is needed to elect a writer."""

import json
from pathlib import Path

import pytest

from tests.brokers import KafkaBroker
from tests.java import java_command
from tests.registry.registry_process import RegistryProcess


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_schemas_survive_and_instances_replace_each_other(tmp_path: Path) -> None:
    java_command("kafka.Kafka")
    directory = tmp_path / "kafka"
    directory.mkdir()
    broker = KafkaBroker(directory, {})
    instances = []
    try:
        broker.start()
        for number in range(2):
            (tmp_path / f"registry{number}").mkdir()
            instances.append(RegistryProcess(broker.bootstrap_servers, tmp_path / f"registry{number}"))
            instances[-1].start()
        one, other = instances
        for number, instance in enumerate((one, other, one), 1):
            with instance.client() as client:
                schema = json.dumps({"type": "record", "name": f"R{number}", "fields": []})
                assert client.register(f"s{number}", schema).schema_id == number
                assert client.versions(f"s{number}") == [1]
        one.kill()
        with other.client() as client:
            assert client.register("s4", '"int"').schema_id == 4
            assert client.delete_subject("s1") == [1]
        other.stop()
        one.start()
        with one.client() as client:
            assert client.subjects() == ["s2", "s3", "s4"]
            assert client.register("s5", '"long"').schema_id == 5
    finally:
        for instance in instances:
            instance.kill()
        broker.kill()
