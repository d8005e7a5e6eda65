"""The application: all routes, and what becomes of errors.

A plain ASGI callable stands before Starlette: it routes by the raw path (a subject may hold an encoded slash) and takes contexts out of it:
`/contexts/.staging/subjects/clicks` is another way to write `/subjects/:.staging:clicks`, so that a client that knows nothing about
contexts works in one when its base address ends in `/contexts/NAME`.
Errors of the registry become their status and `{"error_code", "message"}`; what was not expected is logged and becomes a 500.
"""

import logging
from typing import Final
from urllib.parse import quote, unquote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from millstream.registry.api.desk import Desk
from millstream.registry.api.http import OWN_TYPE, answer
from millstream.registry.api.schemas import SchemaRoutes
from millstream.registry.api.settings import SettingRoutes
from millstream.registry.api.subjects import SubjectRoutes
from millstream.registry.errors import InvalidRequest, RegistryError
from millstream.registry.forwarding import INSTANCE_HEADER

logger = logging.getLogger(__name__)

SUBJECT_FOLLOWS: Final = {"subjects", "config", "mode"}
FAMILIES: Final = {"subjects", "schemas", "config", "mode", "compatibility"}


class RegistryApp:
    """The ASGI application of a registry."""

    def __init__(self, desk: Desk) -> None:
        self._instance = desk.writer.instance
        self.schemas = SchemaRoutes(desk)
        routes = [*self.schemas.routes(), *SubjectRoutes(desk).routes(), *SettingRoutes(desk).routes()]
        handlers = {RegistryError: self._refuse, HTTPException: self._refuse_http, Exception: self._fail}
        self._app: ASGIApp = Starlette(routes=routes, exception_handlers=handlers)  # type: ignore[arg-type] # each takes its own kind

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            path, query = scope["raw_path"].decode("latin-1"), scope["query_string"].decode("latin-1")
            if path.startswith("/contexts/"):
                path, query = without_context(path, query)
            if len(path) > 1:
                path = path.rstrip("/")
            scope = {**scope, "path": path, "raw_path": path.encode("latin-1"), "query_string": query.encode("latin-1")}
            kept = self.schemas.kept(scope)
            if kept is not None:
                await kept(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _refuse(self, request: Request, error: RegistryError) -> Response:
        try:
            return answer(request, {"error_code": error.code, "message": error.message}, status=error.status, headers=self._headers())
        except InvalidRequest as unacceptable:
            body = unacceptable.message.encode()
            return Response(body, unacceptable.status, media_type="text/plain", headers=self._headers())

    def _refuse_http(self, request: Request, error: HTTPException) -> Response:
        return self._refuse(
            request, RegistryError(f"HTTP {error.status_code} {error.detail}", status=error.status_code, code=error.status_code)
        )

    def _fail(self, request: Request, error: Exception) -> Response:
        logger.error("%s %s failed", request.method, request.url.path, exc_info=error)
        body = b'{"error_code":500,"message":"Internal Server Error: see the log of the registry."}'
        return Response(body, 500, media_type=OWN_TYPE, headers=self._headers())

    def _headers(self) -> dict[str, str]:
        return {INSTANCE_HEADER: self._instance}


def without_context(path: str, query: str) -> tuple[str, str]:
    """Path and query (both percent-encoded) with the context moved into the names of subjects."""
    segments = path.strip("/").split("/")
    if len(segments) < 3 or segments[0] != "contexts" or segments[2] not in FAMILIES:
        return path, query
    name = unquote(segments[1]).strip(":")
    prefix = quote(f":{name if name.startswith('.') else '.' + name}:", safe="")
    rest = segments[2:]
    place = next((index for index, segment in enumerate(rest) if segment in SUBJECT_FOLLOWS), None)
    if place is not None and place + 1 < len(rest):
        if not unquote(rest[place + 1]).startswith(":."):
            rest[place + 1] = prefix + rest[place + 1]
    elif rest[0] in ("config", "mode"):
        rest.append(prefix)
    elif rest[0] == "schemas" and len(rest) > 1:
        query = _with(query, "subject", prefix)
    else:
        query = _with(query, "subjectPrefix", prefix)
    return "/" + "/".join(rest), query


def _with(query: str, name: str, prefix: str) -> str:
    """The query with a parameter that is qualified, or added."""
    parts = [part for part in query.split("&") if part]
    for index, part in enumerate(parts):
        key, _, value = part.partition("=")
        if key == name and not unquote(value).startswith(":."):
            parts[index] = f"{key}={prefix}{value}"
            return "&".join(parts)
        if key == name:
            return query
    return "&".join([*parts, f"{name}={prefix}"])
