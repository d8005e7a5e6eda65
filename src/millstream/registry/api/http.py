"""How HTTP is spoken here: content types, bodies within bounds, parameters, and answers.

Handlers get a `Request` and return a `Response`; what goes wrong is raised as `RegistryError` and becomes `{"error_code", "message"}` in
`app`. Path parameters arrive still percent-encoded (`app` routes by the raw path), so a subject may hold a slash.
"""

import json
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import Response

from millstream.registry.errors import InvalidRequest, InvalidVersion
from millstream.registry.model.registration import LATEST
from millstream.registry.model.subjects import normalized

OWN_TYPE: Final = "application/vnd.schemaregistry.v1+json"
ANSWERED_TYPES: Final = (OWN_TYPE, "application/vnd.schemaregistry+json", "application/json")
ACCEPTED_TYPES: Final = (*ANSWERED_TYPES, "application/octet-stream")
MAX_BODY_BYTES: Final = 8 << 20
MAX_NUMBER: Final = 2**31

Json = Any


def answer(request: Request, document: Json, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A JSON answer, in a type that the client takes."""
    body = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode(errors="backslashreplace")
    return Response(body, status, headers, media_type=answered_type(request))


def answered_type(request: Request) -> str:
    """The content type to answer in; raises if the client takes none of ours."""
    accepted = request.headers.get("accept")
    if not accepted:
        return OWN_TYPE
    offered = [part.partition(";")[0].strip() for part in accepted.split(",")]
    for kind in ANSWERED_TYPES:
        if kind in offered:
            return kind
    if any(part in ("*/*", "application/*") for part in offered):
        return OWN_TYPE
    raise InvalidRequest(f"HTTP 406 Not Acceptable: this registry answers in {', '.join(ANSWERED_TYPES)}.", status=406, code=406)


async def body_of(request: Request) -> bytes:
    """The body, if it is not too big and of a type that is understood."""
    kind = request.headers.get("content-type", OWN_TYPE).partition(";")[0].strip().lower()
    if kind not in ACCEPTED_TYPES:
        raise InvalidRequest(f"HTTP 415 Unsupported Media Type: send {OWN_TYPE}, not {kind[:100]}.", status=415, code=415)
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_BODY_BYTES:
            raise InvalidRequest(f"The request is bigger than {MAX_BODY_BYTES} bytes.", status=413, code=413)
    return bytes(body)


def json_object(body: bytes) -> dict[str, Json]:
    """The JSON object in a body."""
    try:
        document = json.loads(body)
        # Half a surrogate pair can be written in JSON, but not be stored as UTF-8.
        json.dumps(document, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"The request is not JSON: {error}.", status=400, code=400) from error
    if not isinstance(document, dict):
        raise InvalidRequest("The request has to be a JSON object.")
    return document


def subject_in_path(request: Request) -> str:
    """The subject that the path names, in its one form."""
    return normalized(decoded(request.path_params["subject"]))


def decoded(segment: str) -> str:
    """A segment of the path without percent encoding."""
    try:
        return unquote(segment, errors="strict")
    except UnicodeDecodeError:
        raise InvalidRequest(f"The path is not UTF-8: {segment[:100]!r}.", status=400, code=400) from None


def version_in_path(request: Request) -> int:
    """The version that the path names; `latest` and -1 are LATEST."""
    text = decoded(request.path_params["version"])
    if text in ("latest", "-1"):
        return LATEST
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text[:20]) < MAX_NUMBER:
        allowed = 'Allowed values are between [1, 2^31-1] and the string "latest"'
        raise InvalidVersion(f"The specified version '{text[:40]}' is not a valid version id. {allowed}")
    return int(text)


def id_in_path(request: Request) -> int:
    """The id that the path names."""
    text = decoded(request.path_params["id"])
    if not (text.isascii() and text.removeprefix("-").isdigit()) or not abs(int(text[:20])) < MAX_NUMBER:
        raise InvalidRequest("HTTP 404 Not Found: an id is a number.", status=404, code=404)
    return int(text)


def flag(request: Request, name: str) -> bool:
    """Whether a parameter is `true`, in any spelling."""
    return request.query_params.get(name, "").lower() == "true"


def page(request: Request, found: list[Any]) -> list[Any]:
    """The part of a list that `offset` and `limit` ask for."""
    offset, limit = (_number(request, name, default) for name, default in (("offset", 0), ("limit", -1)))
    start = max(offset, 0)
    return found[start : start + limit] if limit > 0 else found[start:]


def _number(request: Request, name: str, default: int) -> int:
    text = request.query_params.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.removeprefix("-").isdigit()) or len(text) > 11:
        raise InvalidRequest(f"HTTP 404 Not Found: {name} is a number, and not {text[:40]!r}.", status=404, code=404)
    return int(text)
