"""Routes under `/subjects` and `/compatibility`: register, look up, list, compare, delete."""

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from millstream.registry.api.desk import Desk
from millstream.registry.api.http import answer, answered_type, body_of, flag, json_object, page, subject_in_path, version_in_path
from millstream.registry.api.schemas import formatted, matching_names, version_document
from millstream.registry.errors import InvalidSchema, SchemaNotFound, SubjectNotFound, VersionNotFound
from millstream.registry.model.deletion import decide_subject_deletion, decide_version_deletion
from millstream.registry.model.records import StoredVersion
from millstream.registry.model.registration import LATEST, read_request, registration_answer


class SubjectRoutes:
    """The handlers."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def routes(self) -> list[Route]:
        """What is answered under `/subjects` and `/compatibility`."""
        return [
            Route("/subjects", self.all),
            Route("/subjects/{subject}", self.look_up, methods=["POST"]),
            Route("/subjects/{subject}", self.delete_subject, methods=["DELETE"]),
            Route("/subjects/{subject}/metadata", self.latest_with_metadata),
            Route("/subjects/{subject}/versions", self.versions, methods=["GET"]),
            Route("/subjects/{subject}/versions", self.register, methods=["POST"]),
            Route("/subjects/{subject}/versions/{version}", self.version, methods=["GET"]),
            Route("/subjects/{subject}/versions/{version}", self.delete_version, methods=["DELETE"]),
            Route("/subjects/{subject}/versions/{version}/schema", self.text),
            Route("/subjects/{subject}/versions/{version}/referencedby", self.referenced_by),
            Route("/compatibility/subjects/{subject}/versions", self.check_all, methods=["POST"]),
            Route("/compatibility/subjects/{subject}/versions/{version}", self.check_one, methods=["POST"]),
        ]

    async def all(self, request: Request) -> Response:
        """The names of the subjects."""
        await self._desk.ready()
        state, deleted, deleted_only = self._desk.state, flag(request, "deleted"), flag(request, "deletedOnly")
        names = [
            name
            for name, versions in state.subjects.items()
            if (all(one.is_deleted for one in versions.values()) if deleted_only else deleted or state.versions(name))
        ]
        return answer(request, page(request, matching_names(request, names)))

    async def register(self, request: Request) -> Response:
        """Register a schema, or answer under which id and version it is registered."""
        subject, body = self._subject(request), await body_of(request)
        await self._desk.ready()
        asked, normalize, registrar = read_request(json_object(body)), flag(request, "normalize"), self._desk.registrar
        found = registrar.existing(subject, asked, normalize=normalize)
        if found is not None:
            return answer(request, registration_answer(found))
        return await self._desk.write(request, lambda: registrar.decide_registration(subject, asked, normalize=normalize), body=body)

    async def look_up(self, request: Request) -> Response:
        """The version under which a schema is registered."""
        subject, body = self._subject(request), await body_of(request)
        await self._desk.ready()
        asked, registrar = read_request(json_object(body)), self._desk.registrar
        include_deleted = flag(request, "deleted")
        stored = registrar.look_up(subject, asked, normalize=flag(request, "normalize"), include_deleted=include_deleted)
        if stored is None:
            self._check_exists(subject, include_deleted=include_deleted)
            raise SchemaNotFound("Schema not found")
        return answer(request, formatted(version_document(stored), stored, form=_form(request), registrar=registrar))

    async def versions(self, request: Request) -> Response:
        """The numbers of a subject's versions."""
        await self._desk.ready()
        subject, deleted, deleted_only = self._subject(request), flag(request, "deleted"), flag(request, "deletedOnly")
        as_negative = flag(request, "deletedAsNegative")
        self._check_exists(subject, include_deleted=deleted or deleted_only)
        listed = self._desk.state.versions(subject, include_deleted=deleted or deleted_only or as_negative)
        if deleted_only and not as_negative:
            listed = [one for one in listed if one.is_deleted]
        return answer(request, page(request, [-one.version if as_negative and one.is_deleted else one.version for one in listed]))

    async def version(self, request: Request) -> Response:
        """A version of a subject."""
        await self._desk.ready()
        stored = self._find(request, include_deleted=flag(request, "deleted"))
        return answer(request, formatted(version_document(stored), stored, form=_form(request), registrar=self._desk.registrar))

    async def text(self, request: Request) -> Response:
        """The schema of a version, as it is."""
        await self._desk.ready()
        stored = self._find(request, include_deleted=flag(request, "deleted"))
        document = formatted(version_document(stored), stored, form=_form(request), registrar=self._desk.registrar)
        return PlainTextResponse(document["schema"], media_type=answered_type(request))

    async def referenced_by(self, request: Request) -> Response:
        """The ids of the schemas that refer to a version."""
        await self._desk.ready()
        stored = self._find(request, include_deleted=True)
        found = self._desk.state.referrers(stored.subject, stored.version, include_deleted=flag(request, "deleted"))
        return answer(request, page(request, sorted({one.schema_id for one in found})))

    async def latest_with_metadata(self, request: Request) -> Response:
        """The latest version whose metadata has all the properties that are asked for."""
        await self._desk.ready()
        subject, include_deleted = self._subject(request), flag(request, "deleted")
        parameters = request.query_params
        wanted = dict(zip(parameters.getlist("key"), parameters.getlist("value"), strict=False))
        for stored in reversed(self._desk.state.versions(subject, include_deleted=include_deleted)):
            properties = stored.content.document().get("metadata", {}).get("properties") or {}
            if wanted.items() <= properties.items():
                return answer(request, formatted(version_document(stored), stored, form=_form(request), registrar=self._desk.registrar))
        self._check_exists(subject, include_deleted=include_deleted)
        raise SchemaNotFound("Schema not found")

    async def delete_version(self, request: Request) -> Response:
        """Delete a version."""
        subject, number, permanent = self._subject(request), version_in_path(request), flag(request, "permanent")
        return await self._desk.write(request, lambda: decide_version_deletion(self._desk.state, subject, number, permanent=permanent))

    async def delete_subject(self, request: Request) -> Response:
        """Delete all versions of a subject."""
        subject, permanent = self._subject(request), flag(request, "permanent")
        return await self._desk.write(request, lambda: decide_subject_deletion(self._desk.state, subject, permanent=permanent))

    async def check_one(self, request: Request) -> Response:
        """Whether a schema may follow one version."""
        number = version_in_path(request)
        subject = self._subject(request)
        await self._desk.ready()
        listed = self._desk.state.versions(subject)
        earlier = listed[-1:] if number == LATEST else [one for one in listed if one.version == number]
        if not earlier and number != LATEST:
            raise VersionNotFound(f"Version {number} not found.")
        return await self._check(request, subject, earlier)

    async def check_all(self, request: Request) -> Response:
        """Whether a schema may follow the versions that its subject's level asks about."""
        subject = self._subject(request)
        await self._desk.ready()
        return await self._check(request, subject, self._desk.state.versions(subject))

    async def _check(self, request: Request, subject: str, earlier: list[StoredVersion]) -> Response:
        asked, verbose = read_request(json_object(await body_of(request))), flag(request, "verbose")
        try:
            messages = self._desk.registrar.messages(subject, asked, earlier, normalize=flag(request, "normalize"))
        except InvalidSchema as error:
            if not verbose:
                raise
            messages = [error.message]
        return answer(request, {"is_compatible": not messages, **({"messages": messages} if verbose else {})})

    def _find(self, request: Request, *, include_deleted: bool) -> StoredVersion:
        subject, number = self._subject(request), version_in_path(request)
        listed = self._desk.state.versions(subject, include_deleted=include_deleted)
        found = next((one for one in reversed(listed) if number in (LATEST, one.version)), None)
        if found is None:
            self._check_exists(subject, include_deleted=include_deleted)
            raise VersionNotFound(f"Version {number} not found.")
        return found

    def _check_exists(self, subject: str, *, include_deleted: bool) -> None:
        if not self._desk.state.versions(subject, include_deleted=include_deleted):
            raise SubjectNotFound(f"Subject '{subject}' not found.")

    def _subject(self, request: Request) -> str:
        return self._desk.real_subject(subject_in_path(request))


def _form(request: Request) -> str:
    return request.query_params.get("format", "")
