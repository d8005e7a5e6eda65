"""A client of a schema registry, ours or any other that speaks Confluent's API: blocking, thread-safe, without dependencies.

    with RegistryClient("http://127.0.0.1:8081") as registry:
        registered = registry.register("clicks-value", schema_text)
        again = registry.schema_by_id(registered.schema_id)

An id and a GUID stand for one schema forever, so what they name is cached; what `latest` means may change, so it is asked each time.
A subject in a context is written `:.context:subject`, as everywhere in this API. `resolved_references` fetches what a schema refers to, the
schemas it needs first, so that a parser can read them in that order.
"""

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar
from urllib.parse import quote, urlencode

from millstream.registry.addresses import RegistryAddress, parse_addresses
from millstream.registry.connection import Registries
from millstream.registry.errors import RegistryError
from millstream.registry.model.records import Reference, references_document, references_of

LATEST = "latest"
CACHED_SCHEMAS = 1_000

Version = int | str
Key = TypeVar("Key")
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema as a registry knows it; `subject` and `version` are missing where the answer lacks them."""

    schema: str
    schema_id: int
    guid: str | None = None
    subject: str | None = None
    version: int | None = None
    schema_type: str = "AVRO"
    references: tuple[Reference, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a schema may follow others, and if not, why."""

    is_compatible: bool
    messages: tuple[str, ...] = ()


class RegistryClient:
    """Asks a registry at one or several addresses."""

    def __init__(
        self, urls: str | Sequence[str | RegistryAddress], *, user_info: str = "", timeout_s: float = 10.0, retries: int = 3
    ) -> None:
        """`urls` may hold names and passwords; `user_info` is `name:password` for all of them (see `addresses`)."""
        self._registries = Registries(parse_addresses(urls, user_info=user_info), timeout_s=timeout_s, retries=retries)
        self._by_id: _Cache[tuple[int, str | None], RegisteredSchema] = _Cache(CACHED_SCHEMAS)
        self._by_guid: _Cache[str, RegisteredSchema] = _Cache(CACHED_SCHEMAS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; a further request opens new ones."""
        self._registries.close()

    # -- schemas

    def schema_by_id(self, schema_id: int, *, subject: str | None = None) -> RegisteredSchema:
        """The schema with this id; the subject names the context, where there are several."""
        found = self._by_id.get((schema_id, subject))
        if found is None:
            answer = self._get(f"/schemas/ids/{schema_id}", subject=subject)
            found = self._by_id.put((schema_id, subject), _registered(answer, schema_id=schema_id))
        return found

    def schema_by_guid(self, guid: str) -> RegisteredSchema:
        """The schema with this GUID; its id is -1 if the registry does not give it."""
        found = self._by_guid.get(guid)
        if found is None:
            answer = self._get(f"/schemas/guids/{quote(guid, safe='')}")
            found = self._by_guid.put(guid, _registered(answer, schema_id=int(answer.get("id", -1)), guid=guid))
        return found

    def version(self, subject: str, version: Version = LATEST, *, include_deleted: bool = False) -> RegisteredSchema:
        """A version of a subject, by default the latest."""
        return _registered(self._get(f"/subjects/{_name(subject)}/versions/{version}", deleted=include_deleted))

    def latest(self, subject: str) -> RegisteredSchema:
        """The latest version of a subject."""
        return self.version(subject, LATEST)

    def resolved_references(self, schema: RegisteredSchema) -> list[RegisteredSchema]:
        """Every schema that this one refers to, directly or not, each once and after those that it needs itself."""
        resolved: dict[tuple[str, int], RegisteredSchema] = {}
        self._resolve(schema.references, resolved)
        return list(resolved.values())

    def _resolve(self, references: Iterable[Reference], resolved: dict[tuple[str, int], RegisteredSchema]) -> None:
        for reference in references:
            place = (reference.subject, reference.version)
            if place not in resolved:
                found = self.version(reference.subject, reference.version, include_deleted=True)
                self._resolve(found.references, resolved)
                resolved[place] = found

    # -- subjects

    def subjects(self, *, include_deleted: bool = False, prefix: str | None = None) -> list[str]:
        """The names of the subjects."""
        return [str(name) for name in self._get("/subjects", deleted=include_deleted, subjectPrefix=prefix)]

    def latest_versions(self, *, include_deleted: bool = False, prefix: str | None = None) -> list[RegisteredSchema]:
        """The latest version of every subject."""
        listed = self._get("/schemas", latestOnly=True, deleted=include_deleted, subjectPrefix=prefix)
        return [_registered(document) for document in listed]

    def versions(self, subject: str, *, include_deleted: bool = False) -> list[int]:
        """The numbers of a subject's versions."""
        return [int(number) for number in self._get(f"/subjects/{_name(subject)}/versions", deleted=include_deleted)]

    def register(
        self, subject: str, schema: str, *, references: Iterable[Reference] = (), normalize: bool = False, schema_type: str = "AVRO"
    ) -> RegisteredSchema:
        """Register a schema under a subject; one that is there already keeps its id and version."""
        document = _request(schema, references, schema_type)
        answer = self._registries.request("POST", f"/subjects/{_name(subject)}/versions" + _query(normalize=normalize), document)
        return _registered({**document, "subject": subject, **answer})

    def look_up(
        self, subject: str, schema: str, *, references: Iterable[Reference] = (), normalize: bool = False, include_deleted: bool = False
    ) -> RegisteredSchema:
        """The version under which a schema is registered."""
        path = f"/subjects/{_name(subject)}" + _query(normalize=normalize, deleted=include_deleted)
        return _registered(self._registries.request("POST", path, _request(schema, references, "AVRO")))

    def delete_version(self, subject: str, version: Version, *, permanent: bool = False) -> int:
        """Delete a version (for good only if it was deleted before); returns its number."""
        return int(self._registries.request("DELETE", f"/subjects/{_name(subject)}/versions/{version}" + _query(permanent=permanent)))

    def delete_subject(self, subject: str, *, permanent: bool = False) -> list[int]:
        """Delete all versions of a subject (for good only if it was deleted before); returns their numbers."""
        return [int(number) for number in self._registries.request("DELETE", f"/subjects/{_name(subject)}" + _query(permanent=permanent))]

    # -- compatibility, config, mode

    def check(
        self, subject: str, schema: str, *, version: Version | None = None, references: Iterable[Reference] = (), normalize: bool = False
    ) -> Verdict:
        """Whether a schema may follow the versions that its subject's level asks about, or one certain version."""
        path = f"/compatibility/subjects/{_name(subject)}/versions" + ("" if version is None else f"/{version}")
        answer = self._registries.request("POST", path + _query(verbose=True, normalize=normalize), _request(schema, references, "AVRO"))
        return Verdict(bool(answer["is_compatible"]), tuple(str(message) for message in answer.get("messages") or ()))

    def level(self, subject: str | None = None) -> str:
        """The compatibility level that holds for a subject, or the global one."""
        return str(self._get("/config" + _place(subject), defaultToGlobal=True)["compatibilityLevel"])

    def set_level(self, level: str, *, subject: str | None = None) -> str:
        """Set the compatibility level of a subject, or the global one."""
        return str(self._registries.request("PUT", "/config" + _place(subject), {"compatibility": level})["compatibility"])

    def delete_level(self, subject: str | None = None) -> None:
        """Let the global level (or the default one) hold again."""
        self._registries.request("DELETE", "/config" + _place(subject))

    def mode(self, subject: str | None = None) -> str:
        """The mode that holds for a subject, or the global one."""
        return str(self._get("/mode" + _place(subject), defaultToGlobal=True)["mode"])

    def set_mode(self, mode: str, *, subject: str | None = None, force: bool = False) -> str:
        """Set the mode of a subject, or the global one."""
        return str(self._registries.request("PUT", "/mode" + _place(subject) + _query(force=force), {"mode": mode})["mode"])

    def _get(self, path: str, **parameters: object) -> Any:
        return self._registries.request("GET", path + _query(**parameters))


class _Cache(Generic[Key, Value]):
    """The last so many values, for several threads."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._values: OrderedDict[Key, Value] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Key) -> Value | None:
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def put(self, key: Key, value: Value) -> Value:
        with self._lock:
            self._values[key] = value
            if len(self._values) > self._size:
                self._values.popitem(last=False)
        return value


def _name(subject: str) -> str:
    return quote(subject, safe="")


def _place(subject: str | None) -> str:
    return "" if subject is None else f"/{_name(subject)}"


def _query(**parameters: object) -> str:
    given = {name: "true" if value is True else value for name, value in parameters.items() if value is not None and value is not False}
    return "?" + urlencode(given) if given else ""


def _request(schema: str, references: Iterable[Reference], schema_type: str) -> dict[str, Any]:
    document: dict[str, Any] = {"schema": schema}
    if schema_type != "AVRO":
        document["schemaType"] = schema_type
    listed = references_document(tuple(references))
    if listed:
        document["references"] = listed
    return document


def _registered(answer: dict[str, Any], *, schema_id: int | None = None, guid: str | None = None) -> RegisteredSchema:
    try:
        return RegisteredSchema(
            schema=str(answer["schema"]),
            schema_id=int(answer["id"]) if schema_id is None else schema_id,
            guid=answer.get("guid") or guid,
            subject=answer.get("subject"),
            version=answer.get("version"),
            schema_type=str(answer.get("schemaType") or "AVRO"),
            references=references_of(answer),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise RegistryError(f"The registry's answer lacks or garbles {error}: {str(answer)[:200]}") from error
