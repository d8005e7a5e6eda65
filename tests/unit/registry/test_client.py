"""The client's requests and answers, its retries and its errors, over real connections."""

import pickle
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from millstream.errors import UsageError
from millstream.registry.client import RegisteredSchema, RegistryClient
from millstream.registry.errors import IncompatibleSchema, RegistryError, RegistryUnavailable, SubjectNotFound
from millstream.registry.model.records import Reference
from tests.unit.registry.scripted_server import Answer, Asked, ScriptedServer, scripted_server

USER = '{"type":"record","name":"User","fields":[]}'


@contextmanager
def asking(answer: Callable[[Asked], Answer], *, closes: bool = False, retries: int = 3) -> Iterator[tuple[RegistryClient, ScriptedServer]]:
    """A client, and the server that it asks."""
    with scripted_server(answer, closes=closes) as server, RegistryClient(server.url, retries=retries) as client:
        yield client, server


def refusing(status: int, code: int, message: str) -> Callable[[Asked], Answer]:
    return lambda _asked: (status, {"error_code": code, "message": message})


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def test_registering_sends_the_schema_with_its_references_and_returns_id_and_version() -> None:
    with asking(lambda _asked: (200, {"id": 7, "version": 2, "guid": "g"})) as (client, server):
        found = client.register("a/b:c", USER, references=[Reference("X", "x", 3)], normalize=True)
    assert found == RegisteredSchema(USER, 7, "g", "a/b:c", 2, references=(Reference("X", "x", 3),))
    (asked,) = server.asked
    assert (asked.method, asked.path) == ("POST", "/subjects/a%2Fb%3Ac/versions?normalize=true")
    assert asked.body == {"schema": USER, "references": [{"name": "X", "subject": "x", "version": 3}]}
    assert asked.headers["content-type"] == "application/vnd.schemaregistry.v1+json"


def test_a_schema_is_asked_for_once_by_id_and_by_guid_over_one_connection() -> None:
    with asking(lambda _asked: (200, {"schema": USER})) as (client, server):
        first = client.schema_by_id(3)
        assert client.schema_by_id(3) is first
        client.schema_by_id(3, subject=":.other:s")
        assert client.schema_by_guid("89791762-2336-4186-9674-299b90a802e2").schema == USER
        client.schema_by_guid("89791762-2336-4186-9674-299b90a802e2")
    assert [asked.path for asked in server.asked] == [
        "/schemas/ids/3",
        "/schemas/ids/3?subject=%3A.other%3As",
        "/schemas/guids/89791762-2336-4186-9674-299b90a802e2",
    ]
    assert server.connections == 1


def test_the_latest_version_is_asked_for_each_time() -> None:
    with scripted_server(lambda _asked: (200, {"schema": USER, "id": 1, "subject": "s", "version": 4})) as server:
        client = RegistryClient(server.url)
        assert client.latest("s") == client.latest("s")
        client.close()
    assert [asked.path for asked in server.asked] == ["/subjects/s/versions/latest"] * 2


def test_references_are_resolved_deeply_each_once_and_the_needed_ones_first() -> None:
    needs: dict[str, list[str]] = {"a": ["b", "c"], "b": ["d"], "c": ["d"], "d": []}

    def answer(asked: Asked) -> Answer:
        subject = asked.path.split("/")[2]
        references = [{"name": name, "subject": name, "version": 1} for name in needs[subject]]
        return 200, {"schema": subject, "id": 1, "subject": subject, "version": 1, "references": references}

    with asking(answer) as (client, server):
        resolved = client.resolved_references(client.version("a", 1))
    assert [found.subject for found in resolved] == ["d", "b", "c"]
    assert all("deleted=true" in asked.path for asked in server.asked[1:])


@pytest.mark.parametrize(
    ("status", "code", "kind"), [(404, 40401, SubjectNotFound), (409, 409, IncompatibleSchema), (409, 40901, IncompatibleSchema)]
)
def test_an_error_is_raised_as_what_it_is(status: int, code: int, kind: type[RegistryError]) -> None:
    with asking(refusing(status, code, "why")) as (client, server), pytest.raises(kind, match="why") as caught:
        client.versions("s")
    assert (caught.value.status, caught.value.code) == (status, code)
    assert len(server.asked) == 1


def test_an_unknown_error_keeps_its_numbers_and_survives_pickling() -> None:
    with asking(refusing(418, 41801, "teapot")) as (client, _), pytest.raises(RegistryError) as caught:
        client.subjects()
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (type(copy), copy.status, copy.code, str(copy)) == (RegistryError, 418, 41801, "teapot")


def test_an_error_of_the_server_is_asked_again_and_raised_if_it_stays() -> None:
    answers: Iterator[Answer] = iter([(500, {"error_code": 50001, "message": "store"}), (503, b"busy"), (200, ["s"])])
    with asking(lambda _asked: next(answers)) as (client, server):
        assert client.subjects() == ["s"]
    with asking(refusing(500, 50001, "store"), retries=1) as (client, server), pytest.raises(RegistryError, match="store") as caught:
        client.subjects()
    assert caught.value.code == 50001
    assert len(server.asked) == 2


def test_a_connection_that_the_server_closed_meanwhile_is_replaced() -> None:
    with asking(lambda _asked: (200, []), closes=True, retries=0) as (client, server):
        assert [client.subjects() for _ in range(3)] == [[], [], []]
    assert server.connections == 3


def test_the_next_address_is_tried_and_then_preferred() -> None:
    with scripted_server(lambda _asked: (200, [])) as server:
        client = RegistryClient(f"http://127.0.0.1:{closed_port()}, {server.url}", retries=0)
        assert client.subjects() == client.subjects() == []
        client.close()


def test_a_registry_that_is_not_there_is_reported_with_its_address() -> None:
    url = f"http://127.0.0.1:{closed_port()}"
    with RegistryClient(url, retries=1) as client, pytest.raises(RegistryUnavailable, match=url):
        client.subjects()


def test_something_else_that_answers_is_reported() -> None:
    with asking(lambda _asked: (200, b"<html>")) as (client, _), pytest.raises(RegistryUnavailable, match="no schema registry"):
        client.subjects()
    with asking(lambda _asked: (200, {"id": 1})) as (client, _), pytest.raises(RegistryError, match="'schema'"):
        client.latest("s")


@pytest.mark.parametrize("url", ["", " , ", "ftp://x", "http://", "http://host:port"])
def test_a_wrong_address_is_reported_at_once(url: str) -> None:
    with pytest.raises(UsageError, match="http://HOST:PORT"):
        RegistryClient(url)


def test_user_and_password_of_the_address_are_sent_and_a_prefix_is_kept() -> None:
    with scripted_server(lambda _asked: (200, [])) as server, RegistryClient(f"http://a%40b:c@{server.address}/registry/") as client:
        client.subjects(include_deleted=True)
    (asked,) = server.asked
    assert asked.path == "/registry/subjects?deleted=true"
    assert asked.headers["authorization"] == "Basic YUBiOmM="
