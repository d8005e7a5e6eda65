"""Routes under `/schemas`: by id and GUID, which subjects and versions have an id, all schemas, the types.

A schema by id is what every consumer asks for first, so its answer is kept until the log says something new, and is given again (`kept`)
without going through Starlette, which is half the cost of such a request.
"""

from collections.abc import Callable
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Scope

from millstream.avro.text import resolved_text
from millstream.registry.api.desk import Desk
from millstream.registry.api.http import answer, answered_type, decoded, flag, id_in_path, page
from millstream.registry.errors import SchemaNotFound
from millstream.registry.model.records import StoredVersion
from millstream.registry.model.registration import Registrar
from millstream.registry.model.subjects import DEFAULT_CONTEXT, EVERY_CONTEXT, context_of, normalized, parse_subject, qualified

MAX_KEPT_BYTES: Final = 32 << 20


_Asked = tuple[str, bytes, bytes]


class SchemaRoutes:
    """The handlers."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._kept: dict[_Asked, Response] = {}
        self._kept_bytes = 0

    def routes(self) -> list[Route]:
        """What is answered under `/schemas`."""
        return [
            Route("/schemas/ids/{id}", self.by_id),
            Route("/schemas/ids/{id}/schema", self.text_by_id),
            Route("/schemas/ids/{id}/subjects", self.subjects),
            Route("/schemas/ids/{id}/versions", self.versions),
            Route("/schemas/guids/{guid}", self.by_guid),
            Route("/schemas/guids/{guid}/ids", self.ids_by_guid),
            Route("/schemas/types", self.types),
            Route("/schemas", self.all),
        ]

    def forget(self) -> None:
        """The state has changed."""
        self._kept.clear()
        self._kept_bytes = 0

    def kept(self, scope: Scope) -> Response | None:
        """The answer to the same request before, if the log has not said anything since."""
        return self._kept.get(_asked(scope)) if scope["method"] == "GET" else None

    async def by_id(self, request: Request) -> Response:
        """The schema with an id."""
        await self._desk.ready()
        stored = self._find(request)
        document = formatted(schema_document(stored), stored, form=_form(request), registrar=self._desk.registrar)
        if flag(request, "fetchMaxId"):
            document["maxId"] = self._desk.state.next_id(context_of(stored.subject)) - 1
        response = answer(request, document)
        asked = _asked(request.scope)
        size = len(response.body) + sum(map(len, asked))
        if request.method == "GET" and self._kept_bytes + size <= MAX_KEPT_BYTES:
            self._kept[asked] = response
            self._kept_bytes += size
        return response

    async def text_by_id(self, request: Request) -> Response:
        """The schema with an id, as it is."""
        await self._desk.ready()
        stored = self._find(request)
        document = formatted(schema_document(stored), stored, form=_form(request), registrar=self._desk.registrar)
        return PlainTextResponse(document["schema"], media_type=answered_type(request))

    async def subjects(self, request: Request) -> Response:
        """The subjects that have a schema with this id."""
        await self._desk.ready()
        names = dict.fromkeys(one.subject for one in self._with_id(request))
        return answer(request, page(request, sorted(names)))

    async def versions(self, request: Request) -> Response:
        """The versions of subjects that have this id."""
        await self._desk.ready()
        found = [{"subject": one.subject, "version": one.version} for one in self._with_id(request)]
        return answer(request, page(request, found))

    async def by_guid(self, request: Request) -> Response:
        """The schema with a GUID, in whatever context."""
        await self._desk.ready()
        guid = decoded(request.path_params["guid"]).lower()
        stored = next((one for one in self._everywhere(lambda context: self._desk.state.id_of(context, guid)) if one.guid == guid), None)
        if stored is None:
            raise SchemaNotFound(f"Schema {guid} not found")
        document = formatted(schema_document(stored), stored, form=_form(request), registrar=self._desk.registrar)
        return answer(request, {**document, "id": stored.schema_id})

    async def ids_by_guid(self, request: Request) -> Response:
        """The ids that a GUID has in the contexts."""
        await self._desk.ready()
        guid = decoded(request.path_params["guid"]).lower()
        pairs = [(context, self._desk.state.id_of(context, guid)) for context in self._desk.state.contexts]
        return answer(request, [{"context": context, "id": number} for context, number in pairs if number is not None])

    async def types(self, request: Request) -> Response:
        """The types of schemas that can be registered."""
        return answer(request, ["AVRO"])

    async def all(self, request: Request) -> Response:
        """All versions, or only the latest of each subject."""
        await self._desk.ready()
        state, include_deleted = self._desk.state, flag(request, "deleted")
        found = []
        for name in matching_names(request, list(state.subjects)):
            listed = state.versions(name, include_deleted=include_deleted)
            found += [version_document(one) for one in (listed[-1:] if flag(request, "latestOnly") else listed)]
        return answer(request, page(request, found))

    def _find(self, request: Request) -> StoredVersion:
        """A version with the id of the path, in the context of the parameter `subject`."""
        number = id_in_path(request)
        subject = self._subject(request)
        state = self._desk.state
        found = state.versions_with_id(context_of(subject), number)
        if not found and subject and parse_subject(subject).context == DEFAULT_CONTEXT:
            # The subject may be one of another context.
            found = self._everywhere(lambda context: number if qualified(subject, f":{context}:") in state.subjects else None)
        if not found:
            raise SchemaNotFound(f"Schema {number} not found")
        return min(found, key=lambda one: one.is_deleted)

    def _with_id(self, request: Request) -> list[StoredVersion]:
        number = id_in_path(request)
        found = self._desk.state.versions_with_id(context_of(self._subject(request)), number)
        if not found:
            raise SchemaNotFound("Schema not found")
        return [one for one in found if flag(request, "deleted") or not one.is_deleted]

    def _everywhere(self, id_in: Callable[[str], int | None]) -> list[StoredVersion]:
        state = self._desk.state
        return [
            one for context in state.contexts if (number := id_in(context)) is not None for one in state.versions_with_id(context, number)
        ]

    def _subject(self, request: Request) -> str:
        return self._desk.real_subject(normalized(request.query_params.get("subject", "")))


def matching_names(request: Request, names: list[str]) -> list[str]:
    """The subjects that `subjectPrefix` asks for, sorted; without it, those of all contexts."""
    prefix = request.query_params.get("subjectPrefix", EVERY_CONTEXT)
    if prefix.startswith(EVERY_CONTEXT):
        ending = prefix.removeprefix(EVERY_CONTEXT)
        return sorted(name for name in names if parse_subject(name).name.startswith(ending))
    return sorted(name for name in names if name.startswith(normalized(prefix)))


def _asked(scope: Scope) -> _Asked:
    """What an answer depends on: path, query and accepted types."""
    accepted = next((value for name, value in scope["headers"] if name == b"accept"), b"")
    return scope["path"], scope["query_string"], accepted


def _form(request: Request) -> str:
    return request.query_params.get("format", "")


def version_document(stored: StoredVersion) -> dict[str, Any]:
    """A version of a subject."""
    document: dict[str, Any] = {"subject": stored.subject, "version": stored.version, "id": stored.schema_id, "guid": stored.guid}
    document |= {"schemaType": stored.content.schema_type, **stored.content.document(), "schema": stored.content.text}
    return {**document, "deleted": True} if stored.is_deleted else document


def schema_document(stored: StoredVersion) -> dict[str, Any]:
    """A schema by its id; the id is not repeated."""
    document = version_document(stored)
    for name in ("id", "deleted"):
        document.pop(name, None)
    return document


def formatted(document: dict[str, Any], stored: StoredVersion, *, form: str, registrar: Registrar) -> dict[str, Any]:
    """The document with its schema in the form that was asked for: `resolved` writes out what it refers to."""
    if form == "resolved":
        document["schema"] = resolved_text(registrar.reader.parse(stored.content, stored.subject))
    return document
