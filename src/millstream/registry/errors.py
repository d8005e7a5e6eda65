"""What goes wrong with a registry: one tree, with the HTTP status and the error code that Confluent's API gives each.

    RegistryError                     status, code and a sentence; what a server answers and what a client raises
    ├── 404  SubjectNotFound 40401, VersionNotFound 40402, SchemaNotFound 40403, SubjectSoftDeleted 40404, SubjectNotSoftDeleted 40405,
    │        VersionSoftDeleted 40406, VersionNotSoftDeleted 40407, ConfigNotFound 40408, ModeNotFound 40409
    ├── 409  IncompatibleSchema 409
    ├── 422  InvalidSchema 42201, InvalidVersion 42202, InvalidLevel 42203, InvalidMode 42204, OperationNotPermitted 42205,
    │        ReferenceExists 42206, IdDoesNotMatch 42207, InvalidSubject 42208, SchemaTooLarge 42209, InvalidRequest 422
    ├── 500  StoreFailed 50001, StoreTimedOut 50002, LeaderUnknown 50004
    └── RegistryUnavailable           no registry answered at all: the addresses and the reason
    SerializationFailed               a value that its schema does not describe, bytes that are no message of a registry's

A client that gets an answer with an unknown code raises `RegistryError` itself. The code of an incompatible schema is 409, as documented;
Confluent's own code moved to 40901 in its version 8, so `error_from_answer` takes both.
"""

from typing import ClassVar

from millstream.errors import MillstreamError


class RegistryError(MillstreamError):
    """An answer of a registry that is an error."""

    status: int = 500
    code: int = 500

    def __init__(self, message: str, *, status: int | None = None, code: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.status = self.status if status is None else status
        self.code = self.code if code is None else code

    def __reduce__(self) -> tuple[object, ...]:
        # Spark's workers send their errors to the driver by pickle.
        return _rebuilt, (type(self), self.message, self.status, self.code)


class RegistryUnavailable(RegistryError):
    """No registry answered; the message has every address and why."""

    status = 503
    code = 503


class SerializationFailed(MillstreamError):
    """A value cannot be written with its schema, or bytes cannot be read with theirs."""


class SubjectNotFound(RegistryError):
    """No such subject."""

    status, code = 404, 40401


class VersionNotFound(RegistryError):
    """The subject has no such version."""

    status, code = 404, 40402


class SchemaNotFound(RegistryError):
    """No schema has this id, or the subject does not hold this schema."""

    status, code = 404, 40403


class SubjectSoftDeleted(RegistryError):
    """The subject was deleted already, but not for good."""

    status, code = 404, 40404


class SubjectNotSoftDeleted(RegistryError):
    """Only a deleted subject can be deleted for good."""

    status, code = 404, 40405


class VersionSoftDeleted(RegistryError):
    """The version was deleted already, but not for good."""

    status, code = 404, 40406


class VersionNotSoftDeleted(RegistryError):
    """Only a deleted version can be deleted for good."""

    status, code = 404, 40407


class ConfigNotFound(RegistryError):
    """The subject has no compatibility level of its own."""

    status, code = 404, 40408


class ModeNotFound(RegistryError):
    """The subject has no mode of its own."""

    status, code = 404, 40409


class IncompatibleSchema(RegistryError):
    """The schema breaks the compatibility that its subject demands."""

    status, code = 409, 409


class InvalidRequest(RegistryError):
    """A request whose body or parameters cannot be read."""

    status, code = 422, 422


class InvalidSchema(RegistryError):
    """Not an Avro schema, or one that is too big or too deep, or of another type."""

    status, code = 422, 42201


class InvalidVersion(RegistryError):
    """A version is a number from 1 on, or `latest`."""

    status, code = 422, 42202


class InvalidLevel(RegistryError):
    """Not a compatibility level."""

    status, code = 422, 42203


class InvalidMode(RegistryError):
    """Not a mode."""

    status, code = 422, 42204


class OperationNotPermitted(RegistryError):
    """The mode of the subject does not allow this."""

    status, code = 422, 42205


class ReferenceExists(RegistryError):
    """Another schema refers to this version."""

    status, code = 422, 42206


class IdDoesNotMatch(RegistryError):
    """An imported schema has an id that belongs to another schema."""

    status, code = 422, 42207


class InvalidSubject(RegistryError):
    """A name that no subject can have."""

    status, code = 422, 42208


class SchemaTooLarge(RegistryError):
    """The record would be bigger than the topic takes."""

    status, code = 422, 42209


class StoreFailed(RegistryError):
    """The log could not be written or read."""

    status, code = 500, 50001


class StoreTimedOut(RegistryError):
    """The log did not answer in time; whether the write happened is not known."""

    status, code = 500, 50002


class LeaderUnknown(RegistryError):
    """It is not known which instance writes."""

    status, code = 500, 50004


class _ByCode:
    """The classes above by their code."""

    classes: ClassVar[dict[int, type[RegistryError]]] = {
        kind.code: kind for kind in RegistryError.__subclasses__() if kind is not RegistryUnavailable
    } | {40901: IncompatibleSchema}


def error_from_answer(status: int, code: int, message: str) -> RegistryError:
    """The error that an answer stands for."""
    return _ByCode.classes.get(code, RegistryError)(message, status=status, code=code)


def _rebuilt(kind: type[RegistryError], message: str, status: int, code: int) -> RegistryError:
    return kind(message, status=status, code=code)
