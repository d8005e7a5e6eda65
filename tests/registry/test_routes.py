"""What Confluent's client does not ask: content types, texts, pages, forms, aliases, and requests that are wrong."""

import json
from typing import Any

import pytest

from tests.registry.raw_http import OWN_TYPE, Reply, ask
from tests.registry.registry_process import RegistryProcess

INT = {"schema": '"int"'}


def register(registry: RegistryProcess, subject: str, schema: Any, **more: Any) -> Reply:
    reply = ask(registry, "POST", f"/subjects/{subject}/versions", {"schema": json.dumps(schema), **more})
    assert reply.status == 200, reply
    return reply


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (None, OWN_TYPE),
        ("*/*", OWN_TYPE),
        (f"{OWN_TYPE}, application/vnd.schemaregistry+json, application/json", OWN_TYPE),
        ("application/json", "application/json"),
        ("text/html, application/json;q=0.9", "application/json"),
    ],
)
def test_the_client_gets_a_type_that_it_takes(registry: RegistryProcess, accept: str | None, expected: str) -> None:
    reply = ask(registry, "GET", "/subjects", **({} if accept is None else {"accept": accept}))
    assert (reply.status, reply.kind) == (200, expected)


def test_a_client_that_takes_nothing_of_ours_is_reported(registry: RegistryProcess) -> None:
    assert ask(registry, "GET", "/subjects", accept="text/html").status == 406


@pytest.mark.parametrize("kind", [OWN_TYPE, "application/json; charset=utf-8", "application/octet-stream"])
def test_requests_may_come_in_several_types(registry: RegistryProcess, subject: str, kind: str) -> None:
    assert ask(registry, "POST", f"/subjects/{subject}/versions", INT, content_type=kind).status == 200


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", "/nowhere", None, 404, 404),
        ("PATCH", "/subjects", None, 405, 405),
        ("POST", "/subjects/s/versions", b"{", 400, 400),
        ("POST", "/subjects/s/versions", b"", 400, 400),
        ("POST", "/subjects/s/versions", b"\xff\xfe", 400, 400),
        ("POST", "/subjects/s/versions", b'{"schema":"\\ud800"}', 400, 400),
        ("POST", "/subjects/s/versions", b"[" * 100_000, 400, 400),
        ("POST", "/subjects/s/versions", [], 422, 422),
        ("POST", "/subjects/s/versions", {}, 422, 42201),
        ("POST", "/subjects/s/versions", {"schema": 1}, 422, 422),
        ("POST", "/subjects/s/versions", {"schema": '"int"', "references": 1}, 422, 422),
        ("POST", "/subjects/s/versions", {"schema": '{"type":"array","items":' * 500 + '"int"' + "}" * 500}, 422, 42201),
        ("POST", "/subjects/s/versions", {"schema": json.dumps("x" * 1_000_001)}, 422, 42201),
        (
            "POST",
            "/subjects/s/versions",
            {"schema": json.dumps({"type": "fixed", "name": "F", "size": 1, "doc": "x" * 999_900})},
            422,
            42209,
        ),
        ("POST", "/subjects/s/versions", b" " * (9 << 20), 413, 413),
        ("POST", "/subjects/__EMPTY/versions", INT, 422, 42208),
        ("POST", "/subjects/a%0Ab/versions", INT, 422, 42208),
        ("POST", "/subjects/%ff/versions", INT, 400, 400),
        ("POST", "/subjects/missing", INT, 404, 40401),
        ("GET", "/subjects/missing/versions", None, 404, 40401),
        ("GET", "/subjects/missing/versions/0", None, 422, 42202),
        ("GET", "/subjects/missing/versions/99999999999999999999", None, 422, 42202),
        ("DELETE", "/subjects/missing/versions/1", None, 404, 40401),
        ("GET", "/schemas/ids/x", None, 404, 404),
        ("GET", "/schemas/ids/999999999", None, 404, 40403),
        ("GET", "/schemas/ids/-1/versions", None, 404, 40403),
        ("GET", "/schemas/ids/99999999999", None, 404, 404),
        ("GET", "/schemas/guids/nonsense", None, 404, 40403),
        ("GET", "/subjects?offset=x", None, 404, 404),
        ("PUT", "/config", {"compatibility": "X"}, 422, 42203),
        ("PUT", "/config", {"nonsense": True}, 422, 422),
        ("PUT", "/config", b"null", 422, 422),
        ("PUT", "/mode", {"mode": "X"}, 422, 42204),
        ("DELETE", "/config/missing", None, 404, 40401),
        ("DELETE", "/mode/missing", None, 404, 40401),
        ("POST", "/compatibility/subjects/missing/versions/7", INT, 404, 40402),
        ("POST", "/compatibility/subjects/missing/versions/x", INT, 422, 42202),
        ("POST", "/compatibility/subjects/missing/versions", {"schema": "{"}, 422, 42201),
        ("GET", "/associations/resources/-/topic", None, 404, 404),
    ],
)
def test_a_wrong_request_is_answered_with_what_is_wrong(
    registry: RegistryProcess, *, method: str, path: str, body: Any, status: int, code: int
) -> None:
    reply = ask(registry, method, path, body)
    assert (reply.status, reply.code) == (status, code), reply


def test_another_content_type_is_refused(registry: RegistryProcess) -> None:
    assert ask(registry, "POST", "/subjects/s/versions", INT, content_type="text/plain").code == 415


def test_schemas_come_as_text_too(registry: RegistryProcess, subject: str) -> None:
    number = register(registry, subject, {"type": "string", "x": subject}).document["id"]
    text = f'{{"type":"string","x":"{subject}"}}'.encode()
    assert ask(registry, "GET", f"/schemas/ids/{number}/schema").body == text
    assert ask(registry, "GET", f"/subjects/{subject}/versions/latest/schema").body == text
    assert ask(registry, "GET", f"/subjects/{subject}/versions/-1").document["schema"].encode() == text


def test_lists_are_given_in_pages_and_with_what_was_deleted(registry: RegistryProcess, subject: str) -> None:
    for number in range(4):
        register(registry, f"{subject}-p{number}", "int")
    ask(registry, "DELETE", f"/subjects/{subject}-p3")
    place = f"/subjects?subjectPrefix={subject}-p"
    names = [f"{subject}-p{number}" for number in range(4)]
    assert ask(registry, "GET", place).document == names[:3]
    assert ask(registry, "GET", f"{place}&offset=1&limit=1").document == names[1:2]
    assert ask(registry, "GET", f"{place}&deleted=true").document == names
    assert ask(registry, "GET", f"{place}&deletedOnly=true").document == names[3:]


def test_versions_are_listed_with_what_was_deleted(registry: RegistryProcess, subject: str) -> None:
    for kind in ("int", "long", "double"):
        register(registry, subject, kind)
    ask(registry, "DELETE", f"/subjects/{subject}/versions/2")
    place = f"/subjects/{subject}/versions"
    assert ask(registry, "GET", place).document == [1, 3]
    assert ask(registry, "GET", f"{place}?deleted=true").document == [1, 2, 3]
    assert ask(registry, "GET", f"{place}?deletedOnly=true").document == [2]
    assert ask(registry, "GET", f"{place}?deletedAsNegative=true").document == [1, -2, 3]
    assert ask(registry, "GET", f"{place}/2").code == 40402
    assert ask(registry, "GET", f"{place}/2?deleted=true").document["deleted"] is True
    latest = ask(registry, "GET", f"/schemas?subjectPrefix={subject}&latestOnly=true").document
    assert [(one["subject"], one["version"]) for one in latest] == [(subject, 3)]
    assert len(ask(registry, "GET", f"/schemas?subjectPrefix={subject}&deleted=true").document) == 3


def test_references_can_be_written_out(registry: RegistryProcess, subject: str) -> None:
    register(registry, f"{subject}-a", {"type": "fixed", "name": "A", "size": 2})
    references = [{"name": "A", "subject": f"{subject}-a", "version": 1}]
    number = register(registry, f"{subject}-b", {"type": "array", "items": "A"}, references=references).document["id"]
    assert ask(registry, "GET", f"/schemas/ids/{number}").document["schema"] == '{"type":"array","items":"A"}'
    resolved = ask(registry, "GET", f"/schemas/ids/{number}?format=resolved").document["schema"]
    assert json.loads(resolved) == {"type": "array", "items": {"type": "fixed", "name": "A", "size": 2}}


def test_a_kept_answer_does_not_outlive_what_it_says(registry: RegistryProcess, subject: str) -> None:
    number = register(registry, subject, {"type": "string", "k": subject}).document["id"]
    for _ in range(3):
        assert ask(registry, "GET", f"/schemas/ids/{number}").document["subject"] == subject
        assert ask(registry, "GET", f"/schemas/ids/{number}", accept="application/json").kind == "application/json"
    for suffix in ("", "?permanent=true"):
        ask(registry, "DELETE", f"/subjects/{subject}{suffix}")
    assert ask(registry, "GET", f"/schemas/ids/{number}").code == 40403


def test_the_highest_id_can_be_asked_for(registry: RegistryProcess, subject: str) -> None:
    number = register(registry, subject, {"type": "string", "m": subject}).document["id"]
    assert ask(registry, "GET", f"/schemas/ids/{number}?fetchMaxId=true").document["maxId"] == number


def test_a_subject_may_stand_for_another(registry: RegistryProcess, subject: str) -> None:
    number = register(registry, subject, {"type": "string", "a": subject}).document["id"]
    assert ask(registry, "PUT", f"/config/{subject}-alias", {"alias": subject}).status == 200
    assert ask(registry, "GET", f"/subjects/{subject}-alias/versions/latest").document["id"] == number


def test_compatibility_says_why_when_it_is_asked_to(registry: RegistryProcess, subject: str) -> None:
    register(registry, subject, "int")
    place = f"/compatibility/subjects/{subject}/versions"
    assert ask(registry, "POST", f"{place}/latest", {"schema": '"string"'}).document == {"is_compatible": False}
    reported = ask(registry, "POST", f"{place}?verbose=true", {"schema": '"string"'}).document
    assert "TYPE_MISMATCH" in reported["messages"][0]
    broken = ask(registry, "POST", f"{place}?verbose=true", {"schema": '{"type":"nope"}'}).document
    assert (broken["is_compatible"], "'nope' is no type" in broken["messages"][0]) == (False, True)
    assert ask(registry, "POST", "/compatibility/subjects/missing/versions/latest", INT).document == {"is_compatible": True}


def test_contexts_are_forgotten_when_they_are_empty(registry: RegistryProcess, subject: str) -> None:
    register(registry, f":.{subject}:s", "int")
    assert ask(registry, "DELETE", f"/contexts/.{subject}").code == 42211
    for suffix in ("", "?permanent=true"):
        ask(registry, "DELETE", f"/subjects/:.{subject}:s{suffix}")
    assert ask(registry, "DELETE", f"/contexts/.{subject}").status == 204
    assert f".{subject}" not in ask(registry, "GET", "/contexts").document


def test_ids_of_a_guid_are_reported_per_context(registry: RegistryProcess, subject: str) -> None:
    schema = {"type": "string", "g": subject}
    guid, number = (register(registry, subject, schema).document[name] for name in ("guid", "id"))
    register(registry, f":.{subject}:s", schema)
    ids = ask(registry, "GET", f"/schemas/guids/{guid}/ids").document
    assert ids == [{"context": ".", "id": number}, {"context": f".{subject}", "id": 1}]


def test_the_registry_says_who_it_is(registry: RegistryProcess) -> None:
    assert ask(registry, "GET", "/").document == {}
    assert ask(registry, "GET", "/v1/metadata/version").document["version"]
    clusters = ask(registry, "GET", "/v1/metadata/id").document["scope"]["clusters"]
    assert len(clusters["kafka-cluster"]) == 22


def test_heads_and_slashes_at_the_end_do_no_harm(registry: RegistryProcess) -> None:
    assert ask(registry, "GET", "/subjects/").status == 200
    assert ask(registry, "HEAD", "/subjects").body == b""
