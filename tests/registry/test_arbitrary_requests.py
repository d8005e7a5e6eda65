"""Requests of any shape on the real routes: always an answer, always one that the API knows, and the registry lives on."""

import json
from http.client import HTTPConnection
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.brokers import StartBroker
from tests.properties.avro_schemas import schemas
from tests.registry.registry_process import RegistryProcess, StartRegistry

STATUSES = {200, 204, 400, 404, 405, 406, 409, 413, 415, 422}
NAMES = st.one_of(st.sampled_from(("f1", "f2", ":.ctx:f1", "f/3", ":.:", "latest", "__EMPTY")), st.text(max_size=5))
VERSIONS = st.one_of(st.sampled_from(("latest", "-1", "1", "2", "0", "x")), st.integers().map(str), st.text(max_size=3))
FLAGS = st.lists(
    st.tuples(
        st.sampled_from(("deleted", "permanent", "normalize", "verbose", "force", "limit", "offset", "subject", "subjectPrefix", "format")),
        st.one_of(st.sampled_from(("true", "false", "1", "-1", "resolved", ":.ctx:")), st.text(max_size=3)),
    ),
    max_size=2,
)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=8)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=6,
)
REFERENCES = st.lists(st.fixed_dictionaries({"name": st.just("R"), "subject": NAMES, "version": st.integers(-1, 3)}), max_size=2)
REQUESTS = st.one_of(
    st.fixed_dictionaries({"schema": schemas().map(json.dumps)}, optional={"references": REFERENCES, "metadata": JSON, "ruleSet": JSON}),
    st.fixed_dictionaries({"schema": JSON.map(json.dumps)}, optional={"schemaType": JSON, "id": JSON, "version": JSON, "references": JSON}),
    st.fixed_dictionaries({"compatibility": st.one_of(st.sampled_from(("FULL", "none", "BACKWARD")), JSON)}),
    st.fixed_dictionaries({"mode": st.one_of(st.sampled_from(("READWRITE", "IMPORT", "READONLY")), JSON)}),
    JSON,
)
ROUTES = (
    "/subjects", "/subjects/{n}", "/subjects/{n}/versions", "/subjects/{n}/versions/{v}", "/subjects/{n}/versions/{v}/schema",
    "/subjects/{n}/versions/{v}/referencedby", "/subjects/{n}/metadata", "/schemas", "/schemas/ids/{v}", "/schemas/ids/{v}/subjects",
    "/schemas/ids/{v}/versions", "/schemas/ids/{v}/schema", "/schemas/guids/{n}", "/schemas/types", "/config/{n}", "/mode/{n}", "/contexts",
    "/contexts/{n}", "/compatibility/subjects/{n}/versions", "/compatibility/subjects/{n}/versions/{v}", "/contexts/.ctx/subjects/{n}",
)  # fmt: skip


@pytest.fixture
def victim(start_broker: StartBroker, start_registry: StartRegistry) -> RegistryProcess:
    """A registry of its own: what is asked of it changes levels and modes for all."""
    return start_registry(start_broker())


@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(
    method=st.sampled_from(("GET", "POST", "PUT", "DELETE")),
    route=st.sampled_from(ROUTES),
    names=st.tuples(NAMES, VERSIONS),
    flags=FLAGS,
    body=st.one_of(REQUESTS.map(lambda document: json.dumps(document).encode()), st.binary(max_size=20)),
)
def test_every_request_gets_an_answer_of_the_api(
    victim: RegistryProcess, *, method: str, route: str, names: tuple[str, str], flags: list[tuple[str, str]], body: bytes
) -> None:
    quoted = [quote(name, safe="", errors="replace") for name in names]
    path = route.format(n=quoted[0], v=quoted[1])
    query = "&".join(f"{name}={quote(value, errors='replace')}" for name, value in flags)
    connection = HTTPConnection("127.0.0.1", victim.port, timeout=30)
    try:
        connection.request(method, f"{path}?{query}", None if method in ("GET", "DELETE") else body)
        response = connection.getresponse()
        content = response.read()
    finally:
        connection.close()
    assert response.status in STATUSES, (method, path, query, body, response.status, content)
    if response.status >= 400:
        document: Any = json.loads(content)
        assert set(document) == {"error_code", "message"}
        assert str(document["error_code"]).startswith(str(response.status))
    assert victim.process.poll() is None
