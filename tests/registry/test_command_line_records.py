"""`produce` and `consume` with a registry: Avro in and out, JSON with a schema, and what was not written with one."""

import json
from pathlib import Path

import pytest

from tests.brokers import Broker
from tests.registry.registry_process import RegistryProcess
from tests.topics import create_topic
from tests.unit.cli.conftest import Millstream, millstream

__all__ = ["millstream"]

SCHEMA = {
    "type": "record",
    "name": "Click",
    "fields": [
        {"name": "page", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "price", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}], "default": None},
    ],
}
LINE = '{"page": "/a", "at": "2026-11-14T07:00:00Z", "price": "1.50"}'


@pytest.fixture
def flags(broker: Broker, registry: RegistryProcess) -> list[str]:
    return ["-b", broker.bootstrap_servers, "--registry", registry.url]


@pytest.fixture
def schema(tmp_path: Path) -> str:
    path = tmp_path / "click.avsc"
    path.write_text(json.dumps(SCHEMA))
    return str(path)


def test_avro_goes_in_and_out_as_json(millstream: Millstream, broker: Broker, flags: list[str], schema: str) -> None:
    topic = create_topic(broker)
    sent = millstream("produce", topic, LINE, "--value-format", "avro", "--value-schema", schema, *flags)
    assert sent.code == 0, sent.err
    assert millstream("consume", topic, *flags).out == f"{LINE}\n"
    written = millstream("consume", topic, "--output", "json", *flags)
    assert written.documents[0]["value"] == json.loads(LINE)
    assert millstream("produce", topic, "-i", "json", "--value-format", "avro", *flags, stdin=written.out.encode()).code == 0
    first, second = millstream("consume", topic, "--value-format", "binary", "--output", "json", *flags).documents
    assert first["value"] == second["value"]
    assert millstream("consume", topic, "--where", 'price == "1.50"', "--where", "page =~ ^/a", "-n", "1", *flags).out == f"{LINE}\n"


def test_what_was_not_written_with_a_schema_is_shown_as_it_is_unless_avro_is_asked_for(
    millstream: Millstream, broker: Broker, flags: list[str]
) -> None:
    topic = create_topic(broker)
    lines = [b'{"value": "plain"}', b'{"value": {"base64": "AAABhp8B"}}', b'{"value": null}', b'{"value": ""}']
    assert millstream("produce", topic, "-i", "json", *flags, stdin=b"\n".join(lines)).code == 0
    shown = millstream("consume", topic, "--output", "json", *flags)
    assert [record["value"] for record in shown.documents] == ["plain", {"base64": "AAABhp8B"}, None, ""]
    refused = millstream("consume", topic, "--value-format", "avro", *flags)
    assert (refused.code, refused.err.count("\n")) == (1, 1)
    assert f"{topic}-0, offset 0: The message was not written with a schema registry" in refused.err


def test_a_value_that_does_not_fit_and_a_subject_without_schema_are_said(
    millstream: Millstream, broker: Broker, flags: list[str], schema: str
) -> None:
    topic = create_topic(broker)
    missing = millstream("produce", topic, LINE, "--value-format", "avro", *flags)
    assert missing.code == 1
    assert f"millstream registry register {topic}-value FILE" in missing.err
    wrong = millstream("produce", topic, '{"page": "/a", "at": "soon"}', "--value-format", "avro", "--value-schema", schema, *flags)
    assert wrong.code == 2
    assert "the value.at is 'soon', which is no timestamp-millis" in wrong.err


def test_json_is_decoded_on_request(millstream: Millstream, broker: Broker, flags: list[str]) -> None:
    topic = create_topic(broker)
    millstream("produce", topic, '{"a": 1}', "no json", *flags)
    (document,) = millstream("consume", topic, "-n", "1", "--value-format", "json", "--output", "json", *flags).documents
    assert document["value"] == {"a": 1}
    assert "offset 1: this is no JSON" in millstream("consume", topic, "--value-format", "json", *flags).err


def test_a_registry_that_is_away_is_said_in_a_sentence(millstream: Millstream, broker: Broker, flags: list[str], schema: str) -> None:
    topic = create_topic(broker)
    millstream("produce", topic, LINE, "--value-format", "avro", "--value-schema", schema, *flags)
    outcome = millstream("consume", topic, "-b", broker.bootstrap_servers, "--registry", "http://127.0.0.1:1")
    assert (outcome.code, outcome.err.count("\n")) == (1, 1)
    assert "No schema registry answers: http://127.0.0.1:1" in outcome.err
