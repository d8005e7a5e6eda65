"""Requests as they are, without a client that helps."""

import json
from http.client import HTTPConnection
from typing import Any, NamedTuple

from tests.registry.registry_process import RegistryProcess

OWN_TYPE = "application/vnd.schemaregistry.v1+json"


class Reply(NamedTuple):
    """What came back."""

    status: int
    kind: str
    body: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> int:
        """The error code, having seen that there is a message too."""
        assert self.kind.startswith(OWN_TYPE)
        assert len(self.document["message"]) > 5
        return int(self.document["error_code"])


def ask(registry: RegistryProcess, method: str, path: str, document: Any = None, **headers: str) -> Reply:
    """One request; a document that is not bytes is sent as JSON; `content_type` is the header of that name."""
    body = document if isinstance(document, bytes) or document is None else json.dumps(document).encode()
    connection = HTTPConnection("127.0.0.1", registry.port, timeout=30)
    try:
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        response = connection.getresponse()
        return Reply(response.status, response.headers.get("content-type", ""), response.read())
    finally:
        connection.close()
