"""Confluent's own client against Millstream's registry: everything that it can ask."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.schema_registry import (
    Metadata,
    MetadataProperties,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    SchemaRegistryError,
    ServerConfig,
)
from confluent_kafka.schema_registry.schema_registry_client import ConfigCompatibilityLevel

from tests.registry.registry_process import RegistryProcess


@pytest.fixture
def client(registry: RegistryProcess) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": registry.url, "max.retries": 0}) as client:
        yield client


def forget(client: SchemaRegistryClient) -> None:
    client.clear_caches()  # type: ignore[no-untyped-call] # theirs has no types


def avro(document: Any, references: list[SchemaReference] | None = None) -> Schema:
    return Schema(json.dumps(document), "AVRO", references or [])


def record(*fields: str, name: str = "R", kind: Any = "int", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "namespace": "test", "fields": [{"name": one, "type": kind, **more} for one in fields]}


def code(caught: "pytest.ExceptionInfo[SchemaRegistryError]") -> tuple[int, int]:
    return caught.value.http_status_code, caught.value.error_code


def test_a_schema_is_registered_and_found_in_every_way(client: SchemaRegistryClient, subject: str) -> None:
    schema = avro(record("a", name=subject.replace("-", "_")))
    full = client.register_schema_full_response(subject, schema)
    assert full.version == 1
    forget(client)
    assert full.schema_id is not None
    assert full.guid is not None
    by_id = client.get_schema(full.schema_id)
    assert json.loads(by_id.schema_str or "") == json.loads(schema.schema_str or "")
    assert client.get_schema_by_guid(full.guid).schema_str == by_id.schema_str
    assert client.lookup_schema(subject, schema).schema_id == full.schema_id
    assert client.get_latest_version(subject).guid == full.guid
    assert client.get_version(subject, 1).schema_id == full.schema_id
    assert client.get_versions(subject) == [1]
    assert subject in client.get_subjects()
    assert client.get_subjects_by_schema_id(full.schema_id) == [subject]
    assert [(one.subject, one.version) for one in client.get_schema_versions(full.schema_id)] == [(subject, 1)]
    assert client.get_schema_types() == ["AVRO"]


EVOLUTIONS = {
    "add optional": (record("a"), record("a") | {"fields": [*record("a")["fields"], {"name": "b", "type": "int", "default": 1}]}),
    "add": (record("a"), record("a", "b")),
    "remove": (record("a", "b"), record("a")),
    "widen": (record("a"), record("a", kind="long")),
}
ALLOWED = {
    "NONE": {"add optional", "add", "remove", "widen"},
    "BACKWARD": {"add optional", "remove", "widen"},
    "FORWARD": {"add optional", "add"},
    "FULL": {"add optional"},
}


@pytest.mark.parametrize(
    "level", [level + suffix for level in ALLOWED for suffix in ("", "_TRANSITIVE") if level + suffix != "NONE_TRANSITIVE"]
)
def test_schemas_evolve_as_their_level_allows(client: SchemaRegistryClient, subject: str, level: str) -> None:
    allowed = set()
    for name, (old, new) in EVOLUTIONS.items():
        own = f"{subject}-{name}"
        client.set_compatibility(own, level)
        assert client.get_compatibility(own) == level
        client.register_schema(own, avro(old))
        verdict = client.test_compatibility(own, avro(new))
        assert client.test_compatibility_all_versions(own, avro(new)) == verdict
        if verdict:
            client.register_schema(own, avro(new))
            allowed.add(name)
        else:
            with pytest.raises(SchemaRegistryError, match=r"test\.R") as caught:
                client.register_schema(own, avro(new))
            assert code(caught) == (409, 409)
    assert allowed == ALLOWED[level.removesuffix("_TRANSITIVE")]


def test_references_are_resolved_and_protected(client: SchemaRegistryClient, subject: str) -> None:
    client.register_schema(f"{subject}-a", avro(record(name="Address")))
    reference = SchemaReference("test.Address", f"{subject}-a", 1)
    user = {"type": "record", "name": "User", "namespace": "test", "fields": [{"name": "a", "type": "Address"}]}
    user_id = client.register_schema(f"{subject}-u", avro(user, [reference]))
    found = client.get_version(f"{subject}-u", 1).schema
    assert found.references is not None
    assert [(one.name, one.subject, one.version) for one in found.references] == [("test.Address", f"{subject}-a", 1)]
    assert client.get_referenced_by(f"{subject}-a", 1) == [user_id]
    with pytest.raises(SchemaRegistryError) as caught:
        client.delete_subject(f"{subject}-a")
    assert code(caught) == (422, 42206)


def test_subjects_are_deleted_and_made_again(client: SchemaRegistryClient, subject: str) -> None:
    first = client.register_schema(subject, avro(record("a", name=f"D{subject[8:]}")))
    assert client.delete_subject(subject) == [1]
    forget(client)
    assert subject not in client.get_subjects()
    assert client.get_schema(first) is not None
    with pytest.raises(SchemaRegistryError) as caught:
        client.get_latest_version(subject)
    assert code(caught) == (404, 40401)
    assert client.register_schema(subject, avro(record("a", name=f"D{subject[8:]}"))) == first
    assert client.get_versions(subject) == [2]
    assert client.delete_version(subject, 2) == 2
    assert client.delete_version(subject, 2, permanent=True) == 2
    forget(client)
    with pytest.raises(SchemaRegistryError) as caught:
        client.get_schema(first)
    assert code(caught) == (404, 40403)
    assert client.register_schema(subject, avro(record("a", name=f"D{subject[8:]}"))) > first
    assert client.get_versions(subject) == [1]


def test_config_and_mode_are_set_per_subject_and_globally(client: SchemaRegistryClient, subject: str) -> None:
    client.set_config(subject, ServerConfig(compatibility=ConfigCompatibilityLevel.FULL))
    assert client.get_config(subject).compatibility_level == "FULL"
    assert client.delete_config(subject).compatibility_level == "FULL"
    assert client.get_compatibility() == "BACKWARD"
    assert client.update_mode(subject, "READONLY") == "READONLY"
    assert (client.get_mode(subject), client.get_global_mode()) == ("READONLY", "READWRITE")
    with pytest.raises(SchemaRegistryError) as caught:
        client.register_schema(subject, avro("int"))
    assert code(caught) == (422, 42205)
    assert client.delete_mode(subject) == "READONLY"
    assert client.register_schema(subject, avro("int")) > 0


def test_a_config_gives_schemas_their_metadata(client: SchemaRegistryClient, subject: str) -> None:
    default = Metadata(None, MetadataProperties({"owner": "ann", "team": "data"}), ["owner"])
    client.set_config(subject, ServerConfig(default_metadata=default))
    assert client.get_config(subject).default_metadata == default
    client.register_schema(subject, avro("int"))
    client.register_schema(subject, Schema('"long"', "AVRO", metadata=Metadata(None, MetadataProperties({"owner": "bob"}), None)))
    found = [client.get_version(subject, number).schema.metadata for number in (1, 2)]
    assert found == [default, Metadata(None, MetadataProperties({"owner": "bob", "team": "data"}), ["owner"])]


def test_normalising_finds_what_differs_only_in_order(client: SchemaRegistryClient, subject: str) -> None:
    one, other = (Schema(text, "AVRO") for text in ('{"type":"long","b":2,"a":1}', '{"type":"long","a":1,"b":2}'))
    registered = client.register_schema(subject, one, normalize_schemas=True)
    assert client.lookup_schema(subject, other, normalize_schemas=True).schema_id == registered


def test_contexts_keep_schemas_apart(client: SchemaRegistryClient, subject: str) -> None:
    name = f":.{subject}:s"
    assert client.register_schema(name, avro("string")) == 1
    assert f".{subject}" in client.get_contexts()
    assert client.get_schema(1, subject_name=name).schema_str == '"string"'
    assert name in client.get_subjects()


def test_a_client_works_in_a_context_by_its_address(registry: RegistryProcess, subject: str) -> None:
    with SchemaRegistryClient({"url": f"{registry.url}/contexts/.{subject}"}) as client:
        assert client.register_schema("s", avro("boolean")) == 1
        assert client.get_schema(1).schema_str == '"boolean"'
        assert client.get_subjects() == [f":.{subject}:s"]


def test_metadata_is_kept_and_finds_versions(client: SchemaRegistryClient, subject: str) -> None:
    for number, name in enumerate(("int", "long"), 1):
        metadata = Metadata(tags=None, properties=MetadataProperties({"owner": f"team-{number}"}), sensitive=None)
        client.register_schema(subject, Schema(json.dumps(name), "AVRO", metadata=metadata))
    assert client.get_latest_with_metadata(subject, {"owner": "team-1"}).version == 1
    assert client.get_latest_version(subject).schema.metadata is not None


@pytest.mark.parametrize("name", ["with space", "a/b", "ä%20?#&", "a:b", ".", "ключ"])
def test_subjects_may_have_odd_names(client: SchemaRegistryClient, subject: str, name: str) -> None:
    odd = f"{subject}{name}"
    client.register_schema(odd, avro("int"))
    assert client.get_latest_version(odd).subject == odd
    assert odd in client.get_subjects()
    assert client.delete_subject(odd) == [1]


def test_errors_carry_confluents_codes(client: SchemaRegistryClient, subject: str) -> None:
    client.register_schema(subject, avro("int"))
    refused: list[tuple[Any, tuple[int, int]]] = [
        (lambda: client.get_latest_version("no such subject"), (404, 40401)),
        (lambda: client.get_version(subject, 99), (404, 40402)),
        (lambda: client.get_schema(2**30), (404, 40403)),
        (lambda: client.get_schema_by_guid("00000000-0000-0000-0000-000000000000"), (404, 40403)),
        (lambda: client.lookup_schema(subject, avro("string")), (404, 40403)),
        (lambda: client.lookup_schema("no such subject", avro("string")), (404, 40401)),
        (lambda: client.delete_subject("no such subject"), (404, 40401)),
        (lambda: client.delete_subject(subject, permanent=True), (404, 40405)),
        (lambda: client.delete_version(subject, 1, permanent=True), (404, 40407)),
        (lambda: client.get_compatibility("no such subject"), (404, 40408)),
        (lambda: client.get_mode("no such subject"), (404, 40409)),
        (lambda: client.register_schema(subject, avro("string")), (409, 409)),
        (lambda: client.register_schema(subject, Schema("{", "AVRO")), (422, 42201)),
        (lambda: client.register_schema(subject, Schema("{}", "JSON")), (422, 42201)),
        (lambda: client.get_version(subject, -7), (422, 42202)),
        (lambda: client.set_compatibility(subject, "SIDEWAYS"), (422, 42203)),
        (lambda: client.update_mode(subject, "SIDEWAYS"), (422, 42204)),
        (lambda: client.update_mode(subject, "IMPORT"), (422, 42205)),
    ]
    for call, expected in refused:
        with pytest.raises(SchemaRegistryError) as caught:
            call()
        assert code(caught) == expected, caught.value
